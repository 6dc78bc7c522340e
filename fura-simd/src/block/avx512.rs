//! AVX-512: 24 accumulators of 32 registers; a row of a tile is a whole block.

use super::avx2::dots;
use super::factored::factored;
use super::tile::tiled;
use safe_unaligned_simd::x86_64::{_mm512_loadu_ps, _mm512_storeu_ps};
use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_mul_ps, _mm512_set1_ps};

tiled!(
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c", lanes: 16,
    tiles: { 32: 12 x 2, 4 x 2, 1 x 2; 64: 6 x 4, 2 x 4, 1 x 4; },
    _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_mul_ps, _mm512_fmadd_ps
);
factored!("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c", dots);
