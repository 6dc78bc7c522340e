//! AVX2: 6 rows by two registers are 12 accumulators, which leaves 4 of 16 registers for operands.

use super::factored::factored;
use super::tile::tiled;
use safe_unaligned_simd::x86_64::{_mm256_loadu_ps, _mm256_storeu_ps};
use std::arch::x86_64::*;

tiled!(
    "avx2,fma,f16c", lanes: 8,
    tiles: { 32: 6 x 2, 2 x 4, 1 x 4; 64: 6 x 2, 2 x 4, 1 x 8; },
    _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_mul_ps, _mm256_fmadd_ps
);
factored!("avx2,fma,f16c", dots);

/// Products of eight vectors with a row; the lanes of all are summed in pairs at once.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dots<const B: usize>(v: &[[f32; B]; 8], x: &[f32; B]) -> [f32; 8] {
    let mut lanes = [_mm256_setzero_ps(); 8];
    let (x, _) = x.as_chunks::<8>();
    for k in 0..8 {
        let (v, _) = v[k].as_chunks::<8>();
        for j in 0..B / 8 {
            lanes[k] = _mm256_fmadd_ps(_mm256_loadu_ps(&v[j]), _mm256_loadu_ps(&x[j]), lanes[k]);
        }
    }
    let four = |k: usize| {
        let (a, b) = (_mm256_hadd_ps(lanes[k], lanes[k + 1]), _mm256_hadd_ps(lanes[k + 2], lanes[k + 3]));
        // Lanes 0 to 3 of four vectors below, lanes 4 to 7 above.
        _mm256_hadd_ps(a, b)
    };
    let (low, high) = (four(0), four(4));
    let sums =
        _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high));
    let mut out = [0.0; 8];
    _mm256_storeu_ps(&mut out, sums);
    out
}
