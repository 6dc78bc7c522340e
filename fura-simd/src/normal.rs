//! Normal noise from random words, by the transform of Box and Muller.
//!
//! Words `a` and `b` give `u = (a + 1) / 2^32`, `theta = 2 pi (b / 2^32)` and `r = sqrt(-2 ln u)` in f64, and the numbers
//! `r cos theta` and `r sin theta`, each rounded once to f32. `ln`, `sin` and `cos` are those of the `libm` crate, bit for bit:
//! its algorithms, FreeBSD's, without the cases that these arguments never meet and with selection instead of branches,
//! so that lanes go side by side. What is left over, angles next to a multiple of a right angle, goes to `libm` itself.

use std::f64::consts::TAU;

/// Couples that are computed side by side: a register of AVX-512, two of AVX2.
const COUPLES: usize = 8;
const UNIT: f64 = 1.0 / 4_294_967_296.0;

/// The high word of an angle where it changes quadrant: an eighth of a turn, then every quarter.
const QUADRANTS: [u64; 4] = [0x3fe9_21fb, 0x4002_d97c, 0x400f_6a7a, 0x4015_fdbc];
/// The high words of multiples of a right angle, for which the quick reduction cancels too much.
const RIGHT_ANGLES: [u64; 4] = [0x3ff9_21fb, 0x4009_21fb, 0x4012_d97c, 0x4019_21fb];

dispatch! {
    /// Standard normal numbers of random words, two of two: see the [module](self).
    ///
    /// ```
    /// use fura_simd::{Isa, normal};
    /// let mut out = [0.0; 2];
    /// // u = 1/2, and an eighth of a turn.
    /// normal::box_muller(Isa::detect(), &[(1 << 31) - 1, 1 << 29], &mut out);
    /// let r = (2.0 * 2.0f64.ln()).sqrt();
    /// assert_eq!(out, [(r * 0.5f64.sqrt()) as f32; 2]);
    /// ```
    ///
    /// # Panics
    /// If the lengths differ or are odd.
    pub fn box_muller(words: &[u32], out: &mut [f32]) = box_muller_body
}

#[inline(always)]
fn box_muller_body(words: &[u32], out: &mut [f32]) {
    assert!(words.len() == out.len() && words.len().is_multiple_of(2), "two numbers of two words");
    let (chunks, tail) = words.as_chunks::<{ 2 * COUPLES }>();
    let (outs, out_tail) = out.as_chunks_mut::<{ 2 * COUPLES }>();
    for (words, out) in chunks.iter().zip(outs) {
        *out = couples(words);
    }
    if !tail.is_empty() {
        let mut last = [0; 2 * COUPLES];
        last[..tail.len()].copy_from_slice(tail);
        out_tail.copy_from_slice(&couples(&last)[..tail.len()]);
    }
}

#[inline(always)]
fn couples(words: &[u32; 2 * COUPLES]) -> [f32; 2 * COUPLES] {
    let (mut r, mut theta, mut near) = ([0.0; COUPLES], [0.0; COUPLES], [0; COUPLES]);
    let (mut sin, mut cos) = ([0.0; COUPLES], [0.0; COUPLES]);
    for l in 0..COUPLES {
        r[l] = (-2.0 * ln((f64::from(words[2 * l]) + 1.0) * UNIT)).sqrt();
    }
    for l in 0..COUPLES {
        theta[l] = TAU * (f64::from(words[2 * l + 1]) * UNIT);
    }
    for l in 0..COUPLES {
        let [s, c] = sin_cos(theta[l]);
        sin[l] = s;
        cos[l] = c;
    }
    for l in 0..COUPLES {
        near[l] = near_a_right_angle(theta[l]);
    }
    if near.iter().fold(0, |a, b| a | b) != 0 {
        for l in 0..COUPLES {
            if near[l] != 0 {
                (sin[l], cos[l]) = libm::sincos(theta[l]);
            }
        }
    }
    let mut out = [0.0; 2 * COUPLES];
    for l in 0..COUPLES {
        out[2 * l] = (r[l] * cos[l]) as f32;
        out[2 * l + 1] = (r[l] * sin[l]) as f32;
    }
    out
}

/// `libm::log` of numbers in `[2^-32, 1]`.
#[inline(always)]
fn ln(u: f64) -> f64 {
    const LN2_HI: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN2_LO: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    // Added to bits, it makes the exponent that of a number in [sqrt(1/2), sqrt(2)].
    const SHIFT: u64 = (0x3ff0_0000 - 0x3fe6_a09e) << 32;
    // An integer below 2^52 in the low bits of a float is exact, whatever its high ones are; vectors have no other
    // conversion of 64 bits.
    const EXPONENT: f64 = f64::from_bits(0x4330_0000_0000_0000);
    let bits = u.to_bits() + SHIFT;
    let k = f64::from_bits(EXPONENT.to_bits() | bits >> 52) - (EXPONENT + 1023.0);
    let x = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) + 0x3fe6_a09e_0000_0000);
    let f = x - 1.0;
    let half_square = 0.5 * f * f;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (LG[1] + w * (LG[3] + w * LG[5]));
    let odd = z * (LG[0] + w * (LG[2] + w * (LG[4] + w * LG[6])));
    let r = odd + even;
    s * (half_square + r) + k * LN2_LO - half_square + f + k * LN2_HI
}

/// Coefficients of the logarithm.
const LG: [f64; 7] = [
    f64::from_bits(0x3fe5_5555_5555_5593),
    f64::from_bits(0x3fd9_9999_9997_fa04),
    f64::from_bits(0x3fd2_4924_9422_9359),
    f64::from_bits(0x3fcc_71c5_1d8e_78af),
    f64::from_bits(0x3fc7_4664_96cb_03de),
    f64::from_bits(0x3fc3_9a09_d078_c69f),
    f64::from_bits(0x3fc2_f112_df3e_5244),
];

/// All bits set if the condition is met: vectors have masks, and branches would keep the compiler from using them.
#[inline(always)]
fn mask(condition: bool) -> u64 {
    u64::from(condition).wrapping_neg()
}

/// `a` where the mask is set, else `b`.
#[inline(always)]
fn select(mask: u64, a: f64, b: f64) -> f64 {
    f64::from_bits((a.to_bits() & mask) | (b.to_bits() & !mask))
}

#[inline(always)]
fn near_a_right_angle(theta: f64) -> u64 {
    let high = theta.to_bits() >> 32;
    let is = |right: usize| mask(high == RIGHT_ANGLES[right]);
    is(0) | is(1) | is(2) | is(3)
}

/// `libm::sincos` of angles in `[0, 2 pi)` that are not [near a right angle](near_a_right_angle).
#[inline(always)]
fn sin_cos(theta: f64) -> [f64; 2] {
    // The first 33 bits of a right angle, and the rest.
    const RIGHT: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const REST: f64 = f64::from_bits(0x3dd0_b461_1a62_6331);
    let high = theta.to_bits() >> 32;
    let past = [0, 1, 2, 3].map(|q| mask(high > QUADRANTS[q]));
    let one = |mask: u64| f64::from_bits(1f64.to_bits() & mask);
    let quadrant = (one(past[0]) + one(past[1])) + (one(past[2]) + one(past[3]));
    let reduced = theta - quadrant * RIGHT;
    let rest = quadrant * REST;
    let x = reduced - rest;
    let y = (reduced - x) - rest;
    let z = x * x;
    let w = z * z;

    let r = S[1] + z * (S[2] + z * S[3]) + z * w * (S[4] + z * S[5]);
    let v = z * x;
    let exact = x + v * (S[0] + z * r);
    let corrected = x - ((z * (0.5 * y - v * r) - y) - v * S[0]);
    let sin = select(past[0], corrected, exact);

    let r = z * (C[0] + z * (C[1] + z * C[2])) + w * w * (C[3] + z * (C[4] + z * C[5]));
    let half = 0.5 * z;
    let w = 1.0 - half;
    let cos = w + (((1.0 - w) - half) + (z * r - x * y));

    // Quadrants 1 and 3 exchange them; 2 and 3 have the sine's sign turned, 1 and 2 the cosine's.
    const SIGN: u64 = 1 << 63;
    let (first, third) = (past[0] & !past[1], past[2] & !past[3]);
    let (odd, second) = (first | third, past[1] & !past[2]);
    let turned = |x: f64, mask: u64| f64::from_bits(x.to_bits() ^ (mask & SIGN));
    [turned(select(odd, cos, sin), second | third), turned(select(odd, sin, cos), first | second)]
}

/// Coefficients of the sine.
const S: [f64; 6] = [
    f64::from_bits(0xbfc5_5555_5555_5549),
    f64::from_bits(0x3f81_1111_1110_f8a6),
    f64::from_bits(0xbf2a_01a0_19c1_61d5),
    f64::from_bits(0x3ec7_1de3_57b1_fe7d),
    f64::from_bits(0xbe5a_e5e6_8a2b_9ceb),
    f64::from_bits(0x3de5_d93a_5acf_d57c),
];

/// Coefficients of the cosine.
const C: [f64; 6] = [
    f64::from_bits(0x3fa5_5555_5555_554c),
    f64::from_bits(0xbf56_c16c_16c1_5177),
    f64::from_bits(0x3efa_01a0_19cb_1590),
    f64::from_bits(0xbe92_7e4f_809c_52ad),
    f64::from_bits(0x3e21_ee9e_bdb4_b1c4),
    f64::from_bits(0xbda8_fae9_be88_38d4),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    fn libm_couple([a, b]: [u32; 2]) -> [f32; 2] {
        let r = (-2.0 * libm::log((f64::from(a) + 1.0) * UNIT)).sqrt();
        let (sin, cos) = libm::sincos(TAU * (f64::from(b) * UNIT));
        [(r * cos) as f32, (r * sin) as f32]
    }

    fn assert_is_libm(words: &[u32]) {
        let expected: Vec<u32> =
            words.as_chunks().0.iter().flat_map(|c| libm_couple(*c)).map(f32::to_bits).collect();
        for isa in Isa::available() {
            let mut out = vec![0.0; words.len()];
            box_muller(isa, words, &mut out);
            assert!(out.iter().map(|x| x.to_bits()).eq(expected.iter().copied()), "{isa:?}");
        }
    }

    /// The f64 functions too, since rounding to f32 would hide most differences.
    fn assert_functions_are_libm(word: u32) {
        let u = (f64::from(word) + 1.0) * UNIT;
        assert_eq!(ln(u).to_bits(), libm::log(u).to_bits(), "{word}");
        let theta = TAU * (f64::from(word) * UNIT);
        if near_a_right_angle(theta) == 0 {
            let ([s, c], (sin, cos)) = (sin_cos(theta), libm::sincos(theta));
            assert_eq!([s.to_bits(), c.to_bits()], [sin.to_bits(), cos.to_bits()], "{word}");
        }
    }

    #[test]
    fn logarithm_sine_and_cosine_are_those_of_libm() {
        // A step without a common factor with 2^32 meets every quadrant and octave evenly.
        (0..4_000_000u32).for_each(|i| assert_functions_are_libm(i.wrapping_mul(2_654_435_761)));
        // Every boundary: ends, powers of two, eighths of a turn.
        for centre in (0..32).map(|k| 1u32 << k).chain((0..16).map(|k| k << 28)) {
            (0..2000).for_each(|d| assert_functions_are_libm(centre.wrapping_add(d).wrapping_sub(1000)));
        }
    }

    #[test]
    fn every_tier_gives_the_bits_of_libm_for_every_tail() {
        let mut state = 1u64;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for couples in 0..40 {
            assert_is_libm(&(0..2 * couples).map(|_| word()).collect::<Vec<_>>());
        }
        assert_is_libm(&(0..200_000).map(|_| word()).collect::<Vec<_>>());
        // Angles on and beside every multiple of an eighth of a turn, with the extreme radii.
        let beside = |k: u32| (0..200u32).map(move |d| (k << 29).wrapping_add(d * 41).wrapping_sub(4100));
        let angles = (0..8).flat_map(beside);
        assert_is_libm(&angles.flat_map(|b| [0, b, u32::MAX, b, b, b]).collect::<Vec<_>>());
    }
}
