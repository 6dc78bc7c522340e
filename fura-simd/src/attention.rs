//! Attention of one query head over a run of cached keys and values.

use crate::elementwise::cap_lane;
use crate::lanes::dot;
use crate::softmax::softmax_body;

/// Where the keys and values of one head lie: row `j` starts at `offset + j * stride`.
#[derive(Clone, Copy, Debug)]
pub struct HeadRows {
    /// Index of the first element of row 0.
    pub offset: usize,
    /// Distance between rows, in elements.
    pub stride: usize,
}

#[inline(always)]
fn attend_body(
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    rows: HeadRows,
    scale: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    assert_eq!(out.len(), query.len(), "attend: output length differs from the query's");
    score(query, keys, rows, scale, scores);
    mix(values, rows, scores, out);
}

#[inline(always)]
fn attend_capped_body(
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    rows: HeadRows,
    scale: f32,
    cap: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    assert_eq!(out.len(), query.len(), "attend: output length differs from the query's");
    score(query, keys, rows, scale, scores);
    for s in scores.iter_mut() {
        *s = cap_lane(*s, cap);
    }
    mix(values, rows, scores, out);
}

#[inline(always)]
fn score(query: &[f32], keys: &[f32], rows: HeadRows, scale: f32, scores: &mut [f32]) {
    let d = query.len();
    for (j, s) in scores.iter_mut().enumerate() {
        let at = rows.offset + j * rows.stride;
        *s = dot(query, &keys[at..at + d]) * scale;
    }
}

#[inline(always)]
fn mix(values: &[f32], rows: HeadRows, scores: &mut [f32], out: &mut [f32]) {
    let d = out.len();
    softmax_body(scores);
    out.fill(0.0);
    for (j, p) in scores.iter().enumerate() {
        let at = rows.offset + j * rows.stride;
        for (o, v) in out.iter_mut().zip(&values[at..at + d]) {
            *o = p.mul_add(*v, *o);
        }
    }
}

dispatch! {
    /// `out = sum_j softmax(q . k_j * scale)_j v_j` over `scores.len()` positions; `scores` is scratch
    /// and holds the attention weights afterwards. Positions are accumulated in order.
    ///
    /// # Panics
    /// If a row lies outside `keys` or `values`, or `out` and `query` differ in length.
    pub fn attend(
        query: &[f32],
        keys: &[f32],
        values: &[f32],
        rows: HeadRows,
        scale: f32,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_body
}

dispatch! {
    /// As [`attend`] with scores `cap * tanh(q . k_j * scale / cap)`.
    ///
    /// # Panics
    /// As [`attend`].
    pub fn attend_capped(
        query: &[f32],
        keys: &[f32],
        values: &[f32],
        rows: HeadRows,
        scale: f32,
        cap: f32,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_capped_body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

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
                attend(isa, &q, &k, &v, rows, 0.125, &mut s, &mut o);
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
            attend_capped(isa, &q[..d], &k, &v, rows, 1.0, cap, &mut s, &mut o);
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
}
