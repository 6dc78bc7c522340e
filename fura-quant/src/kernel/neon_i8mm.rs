//! ARM64 with `i8mm`: `smmla` multiplies 2 rows x 8 channels by 8 channels x 2 outputs, so 32 channels of a pair of
//! rows and a quad of outputs are eight of them. Its intrinsics are unstable, hence the assembly.
//!
//! Pairs of rows lie in memory as `smmla` takes them. The packed weights do not: a quad's registers hold 4 channels of
//! 4 outputs, and two of them, one with the next 4 channels, are zipped into 8 channels of 2 outputs, before the
//! nibbles are taken apart. For a single row half of the products would go to waste, so it is `sdot`'s.

use super::neon::weights as single_weights;
use super::neon::{activations, kernel, nibbles};
use super::neon_dotprod::dots as single_dots;
use super::{Q4, Q8};
use crate::code::RowPair;
use safe_unaligned_simd::aarch64::vld1q_u8;
use std::arch::aarch64::*;
use std::arch::asm;

// 8 weights + 12 sums + 4 activations + what a pair of rows takes fit 32 registers.
kernel!("neon,dotprod,i8mm", rows: 12, pair: weights, dots, single: single_weights, single_dots);

/// Unpacks 32 channels of a quad of outputs: register `2 k` holds channels `8 k .. 8 k + 8` of the first two outputs,
/// register `2 k + 1` of the last two.
#[inline]
#[target_feature(enable = "neon")]
fn weights<const F: u8>(codes: &[u8], quad: usize) -> [int8x16_t; 8] {
    let (parts, _) = codes.as_chunks::<16>();
    let (parts, _) = parts.as_chunks::<4>();
    let mut w = [vdupq_n_s8(0); 8];
    if F == Q8 {
        for k in 0..4 {
            let [low, high] = zip(&parts[2 * k][quad], &parts[2 * k + 1][quad]);
            [w[2 * k], w[2 * k + 1]] = [vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)];
        }
    } else {
        for k in 0..2 {
            let [low, high] = zip(&parts[2 * k][quad], &parts[2 * k + 1][quad]);
            [w[2 * k], w[2 * k + 4]] = nibbles(low);
            [w[2 * k + 1], w[2 * k + 5]] = nibbles(high);
        }
    }
    w
}

/// Four channels of four outputs, and the next four channels, as eight channels of two outputs each.
#[inline]
#[target_feature(enable = "neon")]
fn zip(four: &[u8; 16], next: &[u8; 16]) -> [uint8x16_t; 2] {
    let (four, next) = (vreinterpretq_u32_u8(vld1q_u8(four)), vreinterpretq_u32_u8(vld1q_u8(next)));
    [vreinterpretq_u8_u32(vzip1q_u32(four, next)), vreinterpretq_u8_u32(vzip2q_u32(four, next))]
}

/// The dot products of a quad's weights with each row of a pair; `offset` is added for [`Q4`].
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn dots<const F: u8>(w: &[int8x16_t; 8], pair: &RowPair, offset: int32x2_t) -> [int32x4_t; 2] {
    // Both sums are the first row's two outputs, then the second row's.
    let mut sums = [vdupq_n_s32(0); 2];
    if F == Q4 {
        let offset = vcombine_s32(offset, offset);
        sums = [vzip1q_s32(offset, offset); 2];
    }
    for (k, x) in activations(pair).into_iter().enumerate() {
        sums[0] = smmla(sums[0], x, w[2 * k]);
        sums[1] = smmla(sums[1], x, w[2 * k + 1]);
    }
    let [a, b] = sums.map(|sum| vreinterpretq_s64_s32(sum));
    [vreinterpretq_s32_s64(vzip1q_s64(a, b)), vreinterpretq_s32_s64(vzip2q_s64(a, b))]
}

/// Adds the product of `x`, 2 x 8, with the transpose of `w`, 2 x 8; all three row by row.
#[inline]
#[allow(unsafe_code)]
#[target_feature(enable = "neon,i8mm")]
fn smmla(sum: int32x4_t, x: int8x16_t, w: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: reads and writes the three registers only, and the features of this function have the instruction.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {x:v}.16b, {w:v}.16b",
            sum = inout(vreg) sum,
            x = in(vreg) x,
            w = in(vreg) w,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
