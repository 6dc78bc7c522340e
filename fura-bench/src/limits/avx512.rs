//! AVX-512 VNNI: 64 products of bytes a `vpdpbusd`, summed in 32 bits; 16 lanes of f32.

use super::avx2::prefetch;
use super::{chains, stream};
use safe_unaligned_simd::x86_64::_mm512_loadu_si512;
use std::arch::x86_64::*;

chains!(
    /// The sums wrap: only the time matters.
    integer, "avx512f,avx512vnni", 64, _mm512_setzero_si512(), _mm512_set1_epi8(1), multiply_add
);
chains!(
    /// Converges to 1.
    float, "avx512f", 16, _mm512_setzero_ps(), _mm512_set1_ps(0.5), fused
);
stream!("avx512f", 64, _mm512_loadu_si512, _mm512_setzero_si512(), _mm512_xor_si512, prefetch);

#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn multiply_add(sum: __m512i, operand: __m512i) -> __m512i {
    _mm512_dpbusd_epi32(sum, operand, operand)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn fused(x: __m512, operand: __m512) -> __m512 {
    _mm512_fmadd_ps(x, operand, operand)
}
