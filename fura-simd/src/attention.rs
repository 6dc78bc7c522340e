//! Attention of one query head over a run of cached keys and values.

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
    let d = query.len();
    assert_eq!(out.len(), d, "attend: output length differs from the query's");
    for (j, s) in scores.iter_mut().enumerate() {
        let at = rows.offset + j * rows.stride;
        *s = dot(query, &keys[at..at + d]) * scale;
    }
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
}
