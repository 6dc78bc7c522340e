//! Attention of one query head over cached keys and values, which may lie in several spans of rows.

use crate::elementwise::cap_lane;
use crate::lanes::{Stored, dot};
use crate::softmax::softmax_body;

/// Where the keys and values of one head lie: row `j` starts at `offset + j * stride`.
#[derive(Clone, Copy, Debug)]
pub struct HeadRows {
    /// Index of the first element of row 0.
    pub offset: usize,
    /// Distance between rows, in elements.
    pub stride: usize,
}

/// Consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first row.
    pub first: usize,
    /// Number of rows.
    pub len: usize,
}

#[inline(always)]
fn attend_body<T: Stored>(
    query: &[f32],
    keys: &[T],
    values: &[T],
    rows: HeadRows,
    spans: &[Span],
    scale: f32,
    cap: Option<f32>,
    scores: &mut [f32],
    out: &mut [f32],
) {
    assert_eq!(out.len(), query.len(), "attend: output length differs from the query's");
    score(query, keys, rows, spans, scale, scores);
    if let Some(cap) = cap {
        for s in scores.iter_mut() {
            *s = cap_lane(*s, cap);
        }
    }
    mix(values, rows, spans, scores, out);
}

#[inline(always)]
fn score<T: Stored>(
    query: &[f32],
    keys: &[T],
    rows: HeadRows,
    spans: &[Span],
    scale: f32,
    scores: &mut [f32],
) {
    let d = query.len();
    let mut rest = scores;
    for span in spans {
        let (scores, others) = rest.split_at_mut(span.len);
        rest = others;
        for (j, s) in scores.iter_mut().enumerate() {
            let at = rows.offset + (span.first + j) * rows.stride;
            *s = dot(query, &keys[at..at + d]) * scale;
        }
    }
    assert!(rest.is_empty(), "attend: more scores than rows");
}

#[inline(always)]
fn mix<T: Stored>(values: &[T], rows: HeadRows, spans: &[Span], scores: &mut [f32], out: &mut [f32]) {
    let d = out.len();
    softmax_body(scores);
    out.fill(0.0);
    let mut rest = &*scores;
    for span in spans {
        let (scores, others) = rest.split_at(span.len);
        rest = others;
        for (j, p) in scores.iter().enumerate() {
            let at = rows.offset + (span.first + j) * rows.stride;
            for (o, v) in out.iter_mut().zip(&values[at..at + d]) {
                *o = p.mul_add(v.value(), *o);
            }
        }
    }
}

dispatch! {
    /// `out = sum_j softmax(s)_j v_j` over the rows of `spans`, where `s_j = q . k_j * scale`, or with a `cap`
    /// `cap * tanh(q . k_j * scale / cap)`; `scores`, one for each row, is
    /// scratch and holds the attention weights afterwards. Rows are accumulated in order, so how they are cut into
    /// spans changes nothing.
    ///
    /// # Panics
    /// If a row lies outside `keys` or `values`, `scores` is not as long as there are rows, or `out` and `query`
    /// differ in length.
    pub fn attend(
        query: &[f32],
        keys: &[f32],
        values: &[f32],
        rows: HeadRows,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<f32>
}

dispatch! {
    /// As [`attend`] on keys and values in [f16](crate::half): the bits of [`attend`] on the widened ones.
    ///
    /// # Panics
    /// As [`attend`].
    pub fn attend_half(
        query: &[f32],
        keys: &[u16],
        values: &[u16],
        rows: HeadRows,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<u16>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::half::widen;

    #[test]
    fn equal_on_every_tier_and_equal_to_the_formula() {
        for (d, n) in [(64usize, 1usize), (64, 30), (80, 17), (5, 40)] {
            let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.05;
            let q: Vec<f32> = (0..d).map(|i| f(7, i)).collect();
            let stride = d + 3;
            let k: Vec<f32> = (0..n * stride + d).map(|i| f(11, i)).collect();
            let v: Vec<f32> = (0..n * stride + d).map(|i| f(13, i)).collect();
            let rows = HeadRows { offset: 2, stride };
            let run = |isa| {
                let (mut s, mut o) = (vec![0.0; n], vec![0.0; d]);
                attend(isa, &q, &k, &v, rows, &[Span { first: 0, len: n }], 0.125, None, &mut s, &mut o);
                (s, o)
            };
            let reference = run(Isa::scalar());
            for isa in Isa::available() {
                assert_eq!(run(isa), reference, "{isa:?}");
            }
            let score = |j: usize| -> f64 {
                (0..d).map(|i| f64::from(q[i]) * f64::from(k[2 + j * stride + i])).sum::<f64>() * 0.125
            };
            let top = (0..n).map(score).fold(f64::MIN, f64::max);
            let z: f64 = (0..n).map(|j| (score(j) - top).exp()).sum();
            for i in 0..d {
                let exact: f64 =
                    (0..n).map(|j| (score(j) - top).exp() / z * f64::from(v[2 + j * stride + i])).sum();
                // |scores| < 40, so the exponents carry at most 40 * d rounding errors of 2^-24.
                assert!((f64::from(reference.1[i]) - exact).abs() < 40.0 * 64.0 * 6e-8);
            }
        }
    }
    #[test]
    fn a_cap_bounds_the_scores_on_every_tier() {
        let (d, n, cap) = (16usize, 9usize, 2.0f32);
        let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.05;
        let [q, k, v] = [7, 11, 13].map(|p| (0..n * d).map(|i| f(p, i)).collect::<Vec<f32>>());
        let rows = HeadRows { offset: 0, stride: d };
        let run = |isa| {
            let (mut s, mut o) = (vec![0.0; n], vec![0.0; d]);
            attend(isa, &q[..d], &k, &v, rows, &[Span { first: 0, len: n }], 1.0, Some(cap), &mut s, &mut o);
            (s, o)
        };
        let reference = run(Isa::scalar());
        for isa in Isa::available() {
            assert_eq!(run(isa), reference, "{isa:?}");
        }
        let score = |j: usize| -> f64 {
            let s = (0..d).map(|i| f64::from(q[i]) * f64::from(k[j * d + i])).sum::<f64>();
            2.0 * (s / 2.0).tanh()
        };
        assert!((0..n).any(|j| score(j).abs() > 1.9), "the cap is felt");
        let z: f64 = (0..n).map(|j| score(j).exp()).sum();
        for i in 0..d {
            let exact: f64 = (0..n).map(|j| score(j).exp() / z * f64::from(v[j * d + i])).sum();
            // An exponent is off by five roundings of a sum of magnitudes below 80 and by the cap's own error; that
            // of a weight, relative to it, is at most twice as much.
            let exponent = 5.0 * 80.0 * 6e-8 + 2.0 * 3e-7;
            assert!((f64::from(reference.1[i]) - exact).abs() < 2.2 * 2.0 * exponent);
        }
    }

    #[test]
    fn spans_and_halves_give_the_bits_of_whole_widened_rows() {
        let (d, n) = (24usize, 23usize);
        let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.0371;
        let q: Vec<f32> = (0..d).map(|i| f(7, i)).collect();
        let [k, v] = [11, 13].map(|p| (0..n * d).map(|i| crate::half::narrow(f(p, i))).collect::<Vec<u16>>());
        let [wide_k, wide_v] = [&k, &v].map(|x| x.iter().map(|h| widen(*h)).collect::<Vec<f32>>());
        let rows = HeadRows { offset: 0, stride: d };
        let whole = [Span { first: 0, len: n }];
        let cut = [
            Span { first: 0, len: 1 },
            Span { first: 1, len: 0 },
            Span { first: 1, len: 15 },
            Span { first: 16, len: 7 },
        ];
        let (mut s, mut expected) = (vec![0.0; n], vec![0.0; d]);
        attend(Isa::scalar(), &q, &wide_k, &wide_v, rows, &whole, 0.2, None, &mut s, &mut expected);
        let mut capped = vec![0.0; d];
        attend(Isa::scalar(), &q, &wide_k, &wide_v, rows, &whole, 0.2, Some(3.0), &mut s, &mut capped);
        assert_ne!(expected, capped);
        for isa in Isa::available() {
            for spans in [&whole[..], &cut] {
                let mut out = vec![0.0; d];
                attend(isa, &q, &wide_k, &wide_v, rows, spans, 0.2, None, &mut s, &mut out);
                assert_eq!(out, expected, "{isa:?}");
                attend_half(isa, &q, &k, &v, rows, spans, 0.2, None, &mut s, &mut out);
                assert_eq!(out, expected, "{isa:?}");
                attend_half(isa, &q, &k, &v, rows, spans, 0.2, Some(3.0), &mut s, &mut out);
                assert_eq!(out, capped, "{isa:?}");
            }
        }
    }
}
