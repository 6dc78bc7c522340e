//! AVX2: 32 products of bytes a `vpmaddubsw`, summed in 16 bits by a `vpaddw`; 8 lanes of f32.

use super::{chains, stream};
use safe_unaligned_simd::x86_64::_mm256_loadu_si256;
use std::arch::x86_64::*;

chains!(
    /// The sums wrap: only the time matters.
    integer, "avx2", 32, _mm256_setzero_si256(), _mm256_set1_epi8(1), multiply_add
);
chains!(
    /// Converges to 1.
    float, "avx2,fma", 8, _mm256_setzero_ps(), _mm256_set1_ps(0.5), fused
);
stream!("avx2", 32, _mm256_loadu_si256, _mm256_setzero_si256(), _mm256_xor_si256, prefetch);

#[inline]
#[target_feature(enable = "avx2")]
fn multiply_add(sum: __m256i, operand: __m256i) -> __m256i {
    _mm256_add_epi16(sum, _mm256_maddubs_epi16(sum, operand))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn fused(x: __m256, operand: __m256) -> __m256 {
    _mm256_fmadd_ps(x, operand, operand)
}

#[inline]
#[allow(unsafe_code)]
pub(super) fn prefetch(line: *const u8) {
    // SAFETY: a hint; any address may be given, and nothing is read.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}
