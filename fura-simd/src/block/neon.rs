//! NEON: a block of 32 is eight registers.

use super::scalar;
use safe_unaligned_simd::aarch64::{vld1q_f32, vst1q_f32};
use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32};

/// Rows that share one pass over `T`: 2 rows x 8 vectors of accumulators fill the registers without spilling.
const ROWS: usize = 2;

#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
fn tile<const R: usize>(t: &[f32], k: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
    let (t, _) = t[k * 1024..(k + 1) * 1024].as_chunks::<4>();
    let mut rows = [&[0.0f32; 32]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        let at = r * d_in + k * 32;
        // The range is 32 long by construction, so the conversion cannot fail.
        *row = x[at..at + 32].first_chunk().unwrap();
    }
    let mut acc = [[vdupq_n_f32(0.0); 8]; R];
    for r in 0..R {
        let (parts, _) = rows[r].as_chunks::<4>();
        for n in 0..8 {
            acc[r][n] = vld1q_f32(&parts[n]);
        }
    }
    for j in 0..32 {
        let mut tj = [vdupq_n_f32(0.0); 8];
        for n in 0..8 {
            tj[n] = vld1q_f32(&t[j * 8 + n]);
        }
        for r in 0..R {
            let xj = vdupq_n_f32(rows[r][j]);
            for n in 0..8 {
                acc[r][n] = vfmaq_f32(acc[r][n], tj[n], xj);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let at = r * d_in + k * 32;
        let (parts, _) = y[at..at + 32].as_chunks_mut::<4>();
        for (part, sum) in parts.iter_mut().zip(acc) {
            vst1q_f32(part, *sum);
        }
    }
}

/// The channels after the last whole block, in the scalar order.
#[inline]
#[target_feature(enable = "neon")]
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
