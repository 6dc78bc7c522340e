//! Units of the coordinates: the linears' scales and, for absolute coordinates, the singular values.

use std::ops::Range;

/// A factor for each flat coordinate: perturbations and steps are multiplied by it.
#[derive(Debug, Clone)]
pub(super) struct Scales {
    /// End of each linear's stretch and its factor; the last end is the number of coordinates.
    pieces: Vec<(usize, f32)>,
    /// `1 / s` of each coordinate, 0 where `s` is 0; empty for relative coordinates.
    reciprocals: Vec<f32>,
}

impl Scales {
    /// Factor `scales[l]` for the coordinates of linear `l`, which end at `ends[l]`; 1 for all where `scales` is
    /// empty.
    pub(super) fn new(scales: &[f32], ends: &[usize]) -> Self {
        let pieces = match scales {
            [] => ends.last().map(|end| (*end, 1.0)).into_iter().collect(),
            _ => ends.iter().copied().zip(scales.iter().copied()).collect(),
        };
        Self { pieces, reciprocals: Vec::new() }
    }

    /// Also divides by the singular values `s`, one for each coordinate.
    pub(super) fn divided_by(self, s: &[f32]) -> Self {
        // A value so small that its reciprocal is infinite has no direction to speak of.
        let reciprocal = |&s: &f32| if (1.0 / s).is_finite() { 1.0 / s } else { 0.0 };
        Self { reciprocals: s.iter().map(reciprocal).collect(), ..self }
    }

    /// The linears' pieces of `range` in order, as ranges counted from its start, each with its factor.
    pub(super) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = (Range<usize>, f32)> {
        let first = self.pieces.partition_point(|&(end, _)| end <= range.start);
        let mut start = range.start;
        self.pieces[first..].iter().map_while(move |&(end, scale)| {
            let piece = start - range.start..end.min(range.end).saturating_sub(range.start);
            start = end;
            (!piece.is_empty()).then_some((piece, scale))
        })
    }

    /// The reciprocal singular values of `range`; empty for relative coordinates.
    pub(super) fn reciprocals(&self, range: Range<usize>) -> &[f32] {
        match self.reciprocals.is_empty() {
            true => &[],
            false => &self.reciprocals[range],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_tile_any_range_with_the_linears_factors(
            sizes in prop::collection::vec(1usize..9, 1..6), start in 0usize..50, len in 0usize..50,
        ) {
            let scales: Vec<f32> = (0..sizes.len()).map(|i| i as f32).collect();
            let each: Vec<f32> = (sizes.iter().zip(&scales)).flat_map(|(&n, &s)| vec![s; n]).collect();
            let ends: Vec<usize> = (1..=sizes.len()).map(|n| sizes[..n].iter().sum()).collect();
            let range = start.min(each.len())..(start + len).min(each.len());
            let mut found = Vec::new();
            for (piece, scale) in Scales::new(&scales, &ends).pieces(range.clone()) {
                prop_assert_eq!(piece.start, found.len());
                found.extend(vec![scale; piece.len()]);
            }
            prop_assert_eq!(&found[..], &each[range.clone()]);
            let ones: usize = Scales::new(&[], &ends).pieces(range.clone()).map(|(p, _)| p.len()).sum();
            prop_assert_eq!(ones, range.len());
        }
    }

    #[test]
    fn null_directions_have_no_reciprocal() {
        let scales = Scales::new(&[], &[4]).divided_by(&[2.0, 0.0, 1e-45, 0.5]);
        assert_eq!(scales.reciprocals(0..4), [0.5, 0.0, 0.0, 2.0]);
        assert_eq!(scales.reciprocals(3..4), [2.0]);
    }
}
