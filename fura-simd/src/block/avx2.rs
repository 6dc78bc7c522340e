//! AVX2: a block of 32 is four registers, and 3 rows are 12 accumulators.

use super::tile::apply32;
use safe_unaligned_simd::x86_64::{_mm256_loadu_ps, _mm256_storeu_ps};
use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};

apply32!("avx2,fma,f16c", lanes: 8, rows: 3, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps);
