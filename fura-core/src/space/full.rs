//! Full-parameter search: one coordinate for every weight.

use std::ops::Range;

use super::{Entry, Read, Space};
use crate::layout::Linear;

/// Every weight is a coordinate: `W + C`, in the unit of the weights.
///
/// The state is one `f32` for each weight (plus the estimator's moments, where it has any); the noise is
/// generated for the rows that are asked for and nowhere else. Published runs perturb by `sigma = 1e-3`.
#[derive(Debug, Clone)]
pub struct Full {
    linears: Vec<Linear>,
}

impl Full {
    /// The space of all weights of `linears`.
    pub fn new(linears: Vec<Linear>) -> Self {
        Self { linears }
    }
}

impl Space for Full {
    fn linears(&self) -> &[Linear] {
        &self.linears
    }

    fn coordinates(&self, linear: usize) -> usize {
        self.linears[linear].d_out * self.linears[linear].d_in
    }

    fn entry(&self) -> Entry {
        Entry::Weight
    }

    fn transform(&self, _: usize, _: Read<'_>, _: &[f32], _: &mut [f32], _: &mut Vec<f32>) {
        panic!("full-parameter coordinates change weights, not inputs");
    }

    fn perturb(
        &self,
        linear: usize,
        read: Read<'_>,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let d_in = self.linears[linear].d_in;
        assert_eq!(w.len(), rows.len() * d_in, "weights of {} rows", rows.len());
        scratch.clear();
        scratch.resize(d_in, 0.0);
        for (row, w) in rows.zip(w.chunks_exact_mut(d_in)) {
            read(row * d_in..(row + 1) * d_in, scratch);
            w.iter_mut().zip(scratch.iter()).for_each(|(w, c)| add(w, *c));
        }
    }
}

/// `w + change`; a change of 0 keeps every bit, the sign of a zero included.
pub(super) fn add(w: &mut f32, change: f32) {
    if change != 0.0 {
        *w += change;
    }
}
