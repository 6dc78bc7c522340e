//! AVX2: 6 rows by two registers are 12 accumulators, which leaves 4 of 16 registers for operands.

use super::tile::tiled;
use safe_unaligned_simd::x86_64::{_mm256_loadu_ps, _mm256_storeu_ps};
use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_mul_ps, _mm256_set1_ps};

tiled!(
    "avx2,fma,f16c", lanes: 8,
    tiles: { 32: 6 x 2, 2 x 4, 1 x 4; 64: 6 x 2, 2 x 4, 1 x 8; },
    _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_mul_ps, _mm256_fmadd_ps
);
