//! ARM64: 8 products of bytes an `smlal`, summed in 16 bits; 16 an `sdot` and 32 an `smmla`, summed in
//! 32 bits; 4 lanes of f32.

use super::{chains, stream};
use safe_unaligned_simd::aarch64::vld1q_u8;
use std::arch::aarch64::*;
use std::arch::asm;

chains!(
    /// The baseline. The sums wrap: only the time matters.
    integer, "neon", 8, vdupq_n_s16(0), vdupq_n_s8(1), multiply_add
);
chains!(
    /// As above.
    dotprod, "neon,dotprod", 16, vdupq_n_s32(0), vdupq_n_s8(1), sdot
);
chains!(
    /// As above.
    i8mm, "neon,i8mm", 32, vdupq_n_s32(0), vdupq_n_s8(1), smmla
);
chains!(
    /// Converges to 1.
    float, "neon", 4, vdupq_n_f32(0.0), vdupq_n_f32(0.5), fused
);
stream!("neon", 16, vld1q_u8, vdupq_n_u8(0), veorq_u8, prefetch);

/// A product with the sum itself, so that the compiler cannot add up a whole chain beforehand.
#[inline]
#[target_feature(enable = "neon")]
fn multiply_add(sum: int16x8_t, operand: int8x16_t) -> int16x8_t {
    vmlal_high_s8(sum, vreinterpretq_s8_s16(sum), operand)
}

#[inline]
#[allow(unsafe_code)]
#[target_feature(enable = "neon,dotprod")]
fn sdot(sum: int32x4_t, operand: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: reads and writes the two registers only, and the features of this function have the instruction.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {x:v}.16b, {x:v}.16b",
            sum = inout(vreg) sum,
            x = in(vreg) operand,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

#[inline]
#[allow(unsafe_code)]
#[target_feature(enable = "neon,i8mm")]
fn smmla(sum: int32x4_t, operand: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: reads and writes the two registers only, and the features of this function have the instruction.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {x:v}.16b, {x:v}.16b",
            sum = inout(vreg) sum,
            x = in(vreg) operand,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

#[inline]
#[target_feature(enable = "neon")]
fn fused(x: float32x4_t, operand: float32x4_t) -> float32x4_t {
    vfmaq_f32(operand, x, operand)
}

#[inline]
#[allow(unsafe_code)]
fn prefetch(line: *const u8) {
    // SAFETY: a hint; any address may be given, and nothing is read.
    unsafe {
        asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly))
    }
}
