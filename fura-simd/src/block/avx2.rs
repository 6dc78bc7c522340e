//! AVX2: a panel of 32 is four registers, and 3 rows are 12 accumulators.

use super::tile::tiled;
use safe_unaligned_simd::x86_64::{_mm256_loadu_ps, _mm256_storeu_ps};
use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};

tiled!("avx2,fma,f16c", lanes: 8, rows: 3, fewer: 2, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps);
