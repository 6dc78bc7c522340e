//! NEON: 2 rows by eight registers are 16 accumulators.

use super::tile::tiled;
use safe_unaligned_simd::aarch64::{vld1q_f32, vst1q_f32};
use std::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32, vmulq_f32};

/// The accumulator last, as on x86.
#[inline]
#[target_feature(enable = "neon")]
fn fma(t: float32x4_t, x: float32x4_t, acc: float32x4_t) -> float32x4_t {
    vfmaq_f32(acc, t, x)
}

tiled!(
    "neon", lanes: 4,
    tiles: { 32: 2 x 8, 1 x 8; 64: 2 x 8, 1 x 8; },
    vld1q_f32, vst1q_f32, vdupq_n_f32, vmulq_f32, fma
);
