//! ARM64 with `dotprod`: `sdot` multiplies 4 outputs x 4 channels by 4 channels of a row, taken from a lane, so 32
//! channels are eight of them on 4-bit or 8-bit weights. Its intrinsics are unstable, hence the assembly.

use super::Q4;
use super::neon::{activations, kernel, weights};
use crate::code::RowPair;
use std::arch::aarch64::{int8x16_t, int32x2_t, int32x4_t, vdupq_lane_s32, vdupq_n_s32};
use std::arch::asm;

// 8 weights + 12 sums + 4 activations + what a pair of rows takes fit 32 registers.
kernel!("neon,dotprod", rows: 12, pair: weights, dots, single: weights, dots);

/// The dot products of a quad's weights with each row of a pair; `offset` is added for [`Q4`].
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn dots<const F: u8>(w: &[int8x16_t; 8], pair: &RowPair, offset: int32x2_t) -> [int32x4_t; 2] {
    let mut sums = [vdupq_n_s32(0); 2];
    if F == Q4 {
        sums = [vdupq_lane_s32::<0>(offset), vdupq_lane_s32::<1>(offset)];
    }
    for (k, x) in activations(pair).into_iter().enumerate() {
        sums[0] = sdot::<1>(sdot::<0>(sums[0], w[2 * k], x), w[2 * k + 1], x);
        sums[1] = sdot::<3>(sdot::<2>(sums[1], w[2 * k], x), w[2 * k + 1], x);
    }
    sums
}

/// Adds to every 32-bit lane the dot product of its four bytes of `w` with the four bytes of lane `L` of `x`.
#[inline]
#[allow(unsafe_code)]
#[target_feature(enable = "neon,dotprod")]
fn sdot<const L: i32>(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: reads and writes the three registers only, and the features of this function have the instruction.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {w:v}.16b, {x:v}.4b[{lane}]",
            sum = inout(vreg) sum,
            w = in(vreg) w,
            x = in(vreg) x,
            lane = const L,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
