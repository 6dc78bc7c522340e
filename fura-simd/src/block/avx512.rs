//! AVX-512: a block of 32 is two registers.

use super::scalar;
use safe_unaligned_simd::x86_64::{_mm512_loadu_ps, _mm512_storeu_ps};
use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};

/// Rows that share one pass over `T`: 8 rows x 2 vectors of accumulators fill the registers without spilling.
const ROWS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn apply32(t: &[f32], d_in: usize, x: &[f32], y: &mut [f32]) {
    let whole = d_in / 32;
    let mut x_blocks = x.chunks_exact(d_in * ROWS);
    let mut y_blocks = y.chunks_exact_mut(d_in * ROWS);
    for (x, y) in x_blocks.by_ref().zip(y_blocks.by_ref()) {
        for k in 0..whole {
            tile::<ROWS>(t, k, d_in, x, y);
        }
        last_block(t, d_in, x, y);
    }
    let (x, y) = (x_blocks.remainder(), y_blocks.into_remainder());
    for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
        for k in 0..whole {
            tile::<1>(t, k, d_in, x, y);
        }
        last_block(t, d_in, x, y);
    }
}

/// Block `k` of `R` rows: the whole tile stays in registers while `T` streams by once.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn tile<const R: usize>(t: &[f32], k: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
    let (t, _) = t[k * 1024..(k + 1) * 1024].as_chunks::<16>();
    let mut rows = [&[0.0f32; 32]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        let at = r * d_in + k * 32;
        // The range is 32 long by construction, so the conversion cannot fail.
        *row = x[at..at + 32].first_chunk().unwrap();
    }
    let mut acc = [[_mm512_set1_ps(0.0); 2]; R];
    for r in 0..R {
        let (parts, _) = rows[r].as_chunks::<16>();
        for n in 0..2 {
            acc[r][n] = _mm512_loadu_ps(&parts[n]);
        }
    }
    for j in 0..32 {
        let mut tj = [_mm512_set1_ps(0.0); 2];
        for n in 0..2 {
            tj[n] = _mm512_loadu_ps(&t[j * 2 + n]);
        }
        for r in 0..R {
            let xj = _mm512_set1_ps(rows[r][j]);
            for n in 0..2 {
                acc[r][n] = _mm512_fmadd_ps(tj[n], xj, acc[r][n]);
            }
        }
    }
    for r in 0..R {
        let at = r * d_in + k * 32;
        let (parts, _) = y[at..at + 32].as_chunks_mut::<16>();
        for n in 0..2 {
            _mm512_storeu_ps(&mut parts[n], acc[r][n]);
        }
    }
}

/// The channels after the last whole block, in the scalar order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn last_block(t: &[f32], d_in: usize, x: &[f32], y: &mut [f32]) {
    let rest = d_in % 32;
    if rest == 0 {
        return;
    }
    let t = &t[t.len() - rest * rest..];
    for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
        scalar::apply(t, rest, rest, &x[d_in - rest..], &mut y[d_in - rest..]);
    }
}
