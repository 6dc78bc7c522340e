//! AVX-512: a panel of 32 is two registers, and 8 rows are 16 accumulators.

use super::tile::tiled;
use safe_unaligned_simd::x86_64::{_mm512_loadu_ps, _mm512_storeu_ps};
use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};

tiled!("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c", lanes: 16, rows: 8, fewer: 4, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps);
