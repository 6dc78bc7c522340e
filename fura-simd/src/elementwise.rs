//! RMS norm, rotary position embedding, SwiGLU and residual addition.
//!
//! The norm, the rotation and the addition are unfused by contract, so `wide` (whose operators are
//! plain IEEE operations at any width) serves every tier without dispatch; they are limited by memory,
//! not by vector width.

use crate::lanes::{LANES, fold_add};
use crate::softmax::exp_lane;
use wide::f32x16;

/// `y_i = x_i / sqrt(mean(x^2) + eps) * weight_i` over one row (Zhang and Sennrich, arXiv 1910.07467).
///
/// # Panics
/// If the three slices differ in length.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    assert!(x.len() == weight.len() && x.len() == y.len(), "rms_norm: lengths differ");
    let (xc, xt) = x.as_chunks::<LANES>();
    let mut sum = f32x16::ZERO;
    for c in xc {
        let v = f32x16::from(*c);
        sum += v * v;
    }
    let mut sum = sum.to_array();
    for (s, t) in sum.iter_mut().zip(xt) {
        *s += t * t;
    }
    let scale = 1.0 / (fold_add(sum) / x.len() as f32 + eps).sqrt();
    let (yc, yt) = y.as_chunks_mut::<LANES>();
    let (wc, wt) = weight.as_chunks::<LANES>();
    for ((c, w), o) in xc.iter().zip(wc).zip(yc) {
        *o = (f32x16::from(*c) * f32x16::splat(scale) * f32x16::from(*w)).to_array();
    }
    for ((t, w), o) in xt.iter().zip(wt).zip(yt) {
        *o = t * scale * w;
    }
}

/// Rotates adjacent pairs of one head: `(a, b) -> (a cos - b sin, a sin + b cos)`, the pair order of
/// "llama" GGUF files (Su et al., arXiv 2104.09864). `cos` and `sin` hold one value a pair.
///
/// # Panics
/// If `head` is not twice as long as `cos` and `sin`.
pub fn rotate_pairs(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (pairs, rest) = head.as_chunks_mut::<2>();
    assert!(rest.is_empty() && pairs.len() == cos.len() && cos.len() == sin.len());
    for ((p, c), s) in pairs.iter_mut().zip(cos).zip(sin) {
        let [a, b] = *p;
        *p = [a * c - b * s, a * s + b * c];
    }
}

/// Rotates the pairs `(i, i + n/2)` of one head of `n` channels: `(a, b) -> (a cos - b sin, a sin + b cos)`, the
/// pair order of most models outside the "llama" files. `cos` and `sin` hold one value a pair.
///
/// # Panics
/// If `head` is not twice as long as `cos` and `sin`.
pub fn rotate_halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(head.len() == 2 * cos.len() && cos.len() == sin.len());
    let (first, second) = head.split_at_mut(cos.len());
    for (((p, q), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        let (a, b) = (*p, *q);
        *p = a * c - b * s;
        *q = a * s + b * c;
    }
}

/// `x_i += y_i`.
///
/// # Panics
/// If the lengths differ.
pub fn add(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "add: lengths differ");
    for (a, b) in x.iter_mut().zip(y) {
        *a += b;
    }
}

#[inline(always)]
fn swiglu_body(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "swiglu: lengths differ");
    for (g, u) in gate.iter_mut().zip(up) {
        *g = *g / (1.0 + exp_lane(-*g)) * u;
    }
}

dispatch! {
    /// `gate_i = silu(gate_i) * up_i` with `silu(x) = x / (1 + e^-x)` (Shazeer, arXiv 2002.05202).
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn swiglu(gate: &mut [f32], up: &[f32]) = swiglu_body
}

#[inline(always)]
fn geglu_body(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "geglu: lengths differ");
    for (g, u) in gate.iter_mut().zip(up) {
        let x = *g;
        // (1 + tanh(z)) / 2 = 1 / (1 + e^-2z); the constant is 2 sqrt(2 / pi).
        let z2 = 1.595_769 * (x + 0.044_715 * x * x * x);
        *g = x / (1.0 + exp_lane(-z2)) * u;
    }
}

dispatch! {
    /// `gate_i = gelu(gate_i) * up_i` with the tanh approximation of GELU,
    /// `gelu(x) = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2` (Hendrycks and Gimpel, arXiv 1606.08415).
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn geglu(gate: &mut [f32], up: &[f32]) = geglu_body
}

/// `cap * tanh(x / cap)`, with an absolute error below `3e-7 cap`.
#[inline(always)]
pub(crate) fn cap_lane(x: f32, cap: f32) -> f32 {
    let e = exp_lane(2.0 * (x / cap));
    cap * (1.0 - 2.0 / (e + 1.0))
}

#[inline(always)]
fn soft_cap_body(x: &mut [f32], cap: f32) {
    for x in x {
        *x = cap_lane(*x, cap);
    }
}

dispatch! {
    /// `x_i = cap * tanh(x_i / cap)`: values are kept between `-cap` and `cap` (Gemma 2, arXiv 2408.00118).
    pub fn soft_cap(x: &mut [f32], cap: f32) = soft_cap_body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn halves_rotate_as_pairs_do_in_another_order() {
        let (cos, sin) = (ramp(8, 13), ramp(8, 7));
        let head = ramp(16, 31);
        let mut halves = head.clone();
        rotate_halves(&mut halves, &cos, &sin);
        let mut pairs: Vec<f32> = (0..8).flat_map(|i| [head[i], head[i + 8]]).collect();
        rotate_pairs(&mut pairs, &cos, &sin);
        for i in 0..8 {
            assert_eq!([halves[i], halves[i + 8]], [pairs[2 * i], pairs[2 * i + 1]]);
        }
    }

    #[test]
    fn geglu_and_cap_are_equal_on_every_tier_and_close_to_their_formulas() {
        for n in [1usize, 7, 16, 33, 1536] {
            let (g, u) = (ramp(n, 17), ramp(n, 5));
            let (mut gelu, mut capped) = (g.clone(), g.clone());
            geglu(Isa::scalar(), &mut gelu, &u);
            soft_cap(Isa::scalar(), &mut capped, 3.0);
            for isa in Isa::available() {
                let (mut a, mut b) = (g.clone(), g.clone());
                geglu(isa, &mut a, &u);
                soft_cap(isa, &mut b, 3.0);
                assert_eq!((a, b), (gelu.clone(), capped.clone()), "{isa:?} n={n}");
            }
            for i in 0..n {
                let (x, u) = (f64::from(g[i]), f64::from(u[i]));
                let z = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                let exact = 0.5 * x * (1.0 + z.tanh()) * u;
                // 2 |z| < 66 after six roundings of 2^-24; the formula itself is off by 1e-16 |x| where tanh is -1.
                assert!((f64::from(gelu[i]) - exact).abs() <= 66.0 * 6.0 * 6e-8 * exact.abs() + 1e-14);
                assert!((f64::from(capped[i]) - 3.0 * (x / 3.0).tanh()).abs() < 3.0 * 3e-7);
            }
        }
    }

    fn ramp(n: usize, k: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * k % 97) as f32 - 48.0) * 0.17).collect()
    }

    #[test]
    fn norm_has_unit_mean_square_and_a_plain_definition() {
        for n in [1usize, 5, 16, 31, 576] {
            let (x, w) = (ramp(n, 31), vec![1.0f32; n]);
            let mut y = vec![0.0; n];
            rms_norm(&x, &w, 0.0, &mut y);
            let ms = y.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n as f64;
            assert!((ms - 1.0).abs() < 1e-5, "n={n} {ms}");
            // The same lanes written out without `wide`.
            let mut lanes = [0.0f32; 16];
            for (i, v) in x.iter().enumerate() {
                lanes[i % 16] += v * v;
            }
            let scale = 1.0 / (fold_add(lanes) / n as f32).sqrt();
            let plain: Vec<f32> = x.iter().zip(&w).map(|(v, w)| v * scale * w).collect();
            assert_eq!(y, plain);
        }
    }

    #[test]
    fn rotation_keeps_the_norm_and_composes() {
        let (c1, s1) = (0.3f32.cos(), 0.3f32.sin());
        let (c2, s2) = (0.6f32.cos(), 0.6f32.sin());
        let mut once = [1.0f32, 2.0, -3.0, 0.5];
        let mut twice = once;
        rotate_pairs(&mut once, &[c2, c2], &[s2, s2]);
        rotate_pairs(&mut twice, &[c1, c1], &[s1, s1]);
        rotate_pairs(&mut twice, &[c1, c1], &[s1, s1]);
        for (a, b) in once.iter().zip(&twice) {
            assert!((a - b).abs() < 4.0 * f32::EPSILON * 4.0);
        }
    }

    #[test]
    fn swiglu_is_equal_on_every_tier() {
        for n in [1usize, 7, 16, 33, 1536] {
            let (g, u) = (ramp(n, 17), ramp(n, 5));
            let mut reference = g.clone();
            swiglu(Isa::scalar(), &mut reference, &u);
            for isa in Isa::available() {
                let mut y = g.clone();
                swiglu(isa, &mut y, &u);
                assert_eq!(y, reference, "{isa:?} n={n}");
            }
            let exact = f64::from(g[0]) / (1.0 + (-f64::from(g[0])).exp()) * f64::from(u[0]);
            assert!((f64::from(reference[0]) - exact).abs() <= 1e-6 * exact.abs());
        }
    }
}
