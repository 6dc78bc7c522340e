//! The exponential and what is built on it: softmax and log-sum-exp.

use crate::lanes::{LANES, fold_add, max};

/// `e^x` for f32, canonical: Cody-Waite reduction by `ln 2`, a degree-7 polynomial with fused
/// multiply-adds, scaling by the exponent bits. Relative error below 2e-7 on `[-87, 88]`; inputs
/// outside are clamped there (so `exp(-inf)` is about 1e-38, not 0); NaN stays NaN.
#[inline(always)]
pub(crate) fn exp_lane(x: f32) -> f32 {
    // 1.5 * 2^23: adding and subtracting it rounds to the nearest integer, ties to even.
    const ROUND: f32 = 12_582_912.0;
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = n.mul_add(-0.693_145_75, x);
    let r = n.mul_add(-1.428_606_8e-6, r);
    // Taylor coefficients: |r| <= ln(2)/2, where the next term is below 6e-9 of the value; the rest of
    // the stated error is rounding (half an ulp in each of the last three operations).
    let p = 1.0f32 / 5040.0;
    let p = p.mul_add(r, 1.0 / 720.0);
    let p = p.mul_add(r, 1.0 / 120.0);
    let p = p.mul_add(r, 1.0 / 24.0);
    let p = p.mul_add(r, 1.0 / 6.0);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r, 1.0);
    let p = p.mul_add(r, 1.0);
    // The low bits of `shifted` are n, its high bits are shifted out. (Those of a NaN are 0: p stays NaN.)
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    p * scale
}

#[inline(always)]
fn max_of(x: &[f32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut m = [f32::NEG_INFINITY; LANES];
    for c in chunks {
        for l in 0..LANES {
            m[l] = max(m[l], c[l]);
        }
    }
    for (l, t) in tail.iter().enumerate() {
        m[l] = max(m[l], *t);
    }
    m.iter().fold(f32::NEG_INFINITY, |a, b| max(a, *b))
}

#[inline(always)]
pub(crate) fn softmax_body(x: &mut [f32]) {
    let top = max_of(x);
    let mut sum = [0.0f32; LANES];
    let (chunks, tail) = x.as_chunks_mut::<LANES>();
    for c in chunks {
        for l in 0..LANES {
            c[l] = exp_lane(c[l] - top);
            sum[l] += c[l];
        }
    }
    if !tail.is_empty() {
        // As one more vector, of which the rest adds nothing: a scalar exponential costs as much as sixteen.
        let mut last = [top; LANES];
        last[..tail.len()].copy_from_slice(tail);
        for l in 0..LANES {
            last[l] = exp_lane(last[l] - top);
            sum[l] += if l < tail.len() { last[l] } else { 0.0 };
        }
        tail.copy_from_slice(&last[..tail.len()]);
    }
    let inv = 1.0 / fold_add(sum);
    for v in x.iter_mut() {
        *v *= inv;
    }
}

#[inline(always)]
fn log_sum_exp_body(x: &[f32]) -> f64 {
    let top = max_of(x);
    let mut sum = [0.0f32; LANES];
    let (chunks, tail) = x.as_chunks::<LANES>();
    for c in chunks {
        for l in 0..LANES {
            sum[l] += exp_lane(c[l] - top);
        }
    }
    if !tail.is_empty() {
        let mut last = [top; LANES];
        last[..tail.len()].copy_from_slice(tail);
        for l in 0..LANES {
            let e = exp_lane(last[l] - top);
            sum[l] += if l < tail.len() { e } else { 0.0 };
        }
    }
    // `libm`-free and exact everywhere: the logarithm is left to the caller's choice of precision.
    f64::from(top) + ln(f64::from(fold_add(sum)))
}

/// Natural logarithm of a positive finite f64 by the atanh series: only + - * /, so the same bits
/// on every platform (the standard library's differs by platform). Relative error below 1e-15.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut e = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        e += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let z2 = z * z;
    // |z| <= 0.172, so z^24 is below 5e-19: twelve terms are enough.
    let mut s = 0.0;
    for k in (0..12).rev() {
        s = s * z2 + 1.0 / f64::from(2 * k + 1);
    }
    (e as f64) * std::f64::consts::LN_2 + 2.0 * z * s
}

dispatch! {
    /// Softmax in place: `x_i = exp(x_i - max) / sum`. An empty slice is left alone.
    ///
    /// ```
    /// let mut p = [0.0f32, 0.0];
    /// fura_simd::softmax::softmax(fura_simd::Isa::detect(), &mut p);
    /// assert_eq!(p, [0.5, 0.5]);
    /// ```
    pub fn softmax(x: &mut [f32]) = softmax_body
}

dispatch! {
    /// `ln(sum exp(x_i))` of a non-empty slice, the sum in f32 lanes and the logarithm in f64.
    pub fn log_sum_exp(x: &[f32]) -> f64 = log_sum_exp_body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn exponential_is_within_its_stated_error() {
        let mut worst = 0.0f64;
        let mut x = -87.0f32;
        while x < 88.0 {
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp_lane(x)) - exact).abs() / exact);
            x += 0.000_937;
        }
        assert!(worst < 2e-7, "worst relative error {worst:e}");
        assert_eq!(exp_lane(0.0), 1.0);
        assert!(exp_lane(f32::NAN).is_nan());
        assert!(exp_lane(f32::NEG_INFINITY) < 2e-38);
    }

    #[test]
    fn logarithm_agrees_with_the_library() {
        for x in [1.0f64, 2.0, 0.1, 1e-300, 3.7e200, std::f64::consts::SQRT_2, 1.41] {
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn every_tier_gives_the_scalar_bits() {
        for n in 1..70 {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.31).collect();
            let mut reference = x.clone();
            softmax(Isa::scalar(), &mut reference);
            let lse = log_sum_exp(Isa::scalar(), &x);
            for isa in Isa::available() {
                let mut y = x.clone();
                softmax(isa, &mut y);
                assert_eq!(y, reference, "{isa:?} n={n}");
                assert_eq!(log_sum_exp(isa, &x), lse, "{isa:?} n={n}");
            }
            assert!((reference.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
    }
}
