//! ARM64 with `dotprod`: `sdot` multiplies 4 outputs x 4 channels by 4 channels of a row, taken from a lane, so a
//! group of 32 is eight of them on 4-bit or 8-bit weights. Its intrinsics are unstable, hence the assembly.

use super::neon::{activations, kernel};
use crate::activations::RowPair;
use std::arch::aarch64::{int8x16_t, int32x4_t, vdupq_n_s32};
use std::arch::asm;

// Half a row block: 8 weights + 6 accumulators + what LLVM loads ahead fit 32 registers; 12 rows spill.
kernel!("neon,dotprod", 6, 3, dot, dot);

#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot(w: &[int8x16_t; 8], pair: &RowPair) -> [int32x4_t; 2] {
    let (mut first, mut second) = (vdupq_n_s32(0), vdupq_n_s32(0));
    for (k, x) in activations(pair).into_iter().enumerate() {
        first = sdot::<1>(sdot::<0>(first, w[2 * k], x), w[2 * k + 1], x);
        second = sdot::<3>(sdot::<2>(second, w[2 * k], x), w[2 * k + 1], x);
    }
    [first, second]
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
