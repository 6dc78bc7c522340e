//! NEON: 2 rows by eight registers are 16 accumulators.

use super::factored::factored;
use super::tile::tiled;
use safe_unaligned_simd::aarch64::{vld1q_f32, vst1q_f32};
use std::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32, vmulq_f32, vpaddq_f32};

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
factored!("neon", dots);

/// Products of eight vectors with a row; the lanes of four are summed in pairs at once.
#[inline]
#[target_feature(enable = "neon")]
fn dots<const B: usize>(v: &[[f32; B]; 8], x: &[f32; B]) -> [f32; 8] {
    let mut out = [0.0; 8];
    let (x, _) = x.as_chunks::<4>();
    for (out, v) in out.as_chunks_mut::<4>().0.iter_mut().zip(v.as_chunks::<4>().0) {
        let mut pairs = [vdupq_n_f32(0.0); 4];
        for k in 0..4 {
            let (v, _) = v[k].as_chunks::<4>();
            let mut lanes = [vdupq_n_f32(0.0); 2];
            for j in 0..B / 4 {
                lanes[j % 2] = vfmaq_f32(lanes[j % 2], vld1q_f32(&v[j]), vld1q_f32(&x[j]));
            }
            pairs[k] = vpaddq_f32(lanes[0], lanes[1]);
        }
        let (low, high) = (vpaddq_f32(pairs[0], pairs[1]), vpaddq_f32(pairs[2], pairs[3]));
        vst1q_f32(out, vpaddq_f32(low, high));
    }
    out
}
