//! AVX2: one register holds 8 output rows x 4 channels, so a tile is done in two halves.
//!
//! 4-bit codes stay unsigned: `vpmaddubsw` adds pairs of products in 16 bits, and the sum over a whole group
//! of 32 cannot overflow (8 x 2 x 15 x 127 = 30480), so it is widened to 32 bits once a group. 8-bit codes
//! use magnitudes and signs (2 x 128 x 127 = 32512 fits) and widen after every step.

use super::{Q4, Q4_MIN, Q8, Target, by_format, each_row, for_each_tile, packed_bytes, weighted};
use crate::activations::{
    ActivationGroup, ActivationRows, ROUND, ROW_BLOCK, RowBlock, for_each_group, scales,
};
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{
    _mm_loadu_si32, _mm_loadu_si128, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_storeu_ps,
    _mm256_storeu_si256,
};
use std::arch::x86_64::*;
use std::ops::Range;

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    by_format!(w.format(), run(w, x, tiles, out, stride))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn run<const F: u8, const K: usize>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    for_each_tile(w, x, tiles, out, stride, |tile, x, mut target| {
        for half in 0..2 {
            for k in 0..x.rows().div_ceil(ROW_BLOCK) {
                let (groups, rows) = x.block(k);
                let first = k * ROW_BLOCK;
                match rows {
                    1 => block::<F, K, 1>(tile, half, groups, first, rows, &mut target),
                    2 => block::<F, K, 2>(tile, half, groups, first, rows, &mut target),
                    3..=4 => block::<F, K, 4>(tile, half, groups, first, rows, &mut target),
                    5..=8 => block::<F, K, 8>(tile, half, groups, first, rows, &mut target),
                    _ => block::<F, K, ROW_BLOCK>(tile, half, groups, first, rows, &mut target),
                }
            }
        }
    });
}

/// The first `rows` rows of a block, computed as `R`, against half a tile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn block<const F: u8, const K: usize, const R: usize>(
    tile: &[u8],
    half: usize,
    groups: &[RowBlock],
    first: usize,
    rows: usize,
    target: &mut Target<'_>,
) {
    let mut acc = [_mm256_setzero_ps(); R];
    let (codes, n) = packed_bytes(F, K);
    for (b, x) in tile.chunks_exact(n).zip(groups.chunks_exact(K)) {
        let (codes, rest) = b.split_at(codes);
        let (halves, _) = rest.as_chunks::<16>();
        let d = _mm256_cvtph_ps(_mm_loadu_si128(&halves[half]));
        if K == 1 {
            let dot = dots::<F, R>(codes, half, &x[0]);
            each_row!(r < R, {
                let scale = _mm256_mul_ps(d, _mm256_set1_ps(x[0].scale[r]));
                acc[r] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dot[r]), acc[r]);
            });
        } else {
            let mut t = [_mm256_setzero_ps(); R];
            for (codes, x) in codes.chunks_exact(codes.len() / K).zip(x) {
                let dot = dots::<F, R>(codes, half, x);
                each_row!(r < R, {
                    t[r] = _mm256_fmadd_ps(_mm256_set1_ps(x.scale[r]), _mm256_cvtepi32_ps(dot[r]), t[r]);
                });
            }
            each_row!(r < R, { acc[r] = _mm256_fmadd_ps(d, t[r], acc[r]) });
        }
        if F == Q4_MIN {
            let m = _mm256_cvtph_ps(_mm_loadu_si128(&halves[2 + half]));
            let weighted = weighted(x);
            each_row!(r < R, { acc[r] = _mm256_fmadd_ps(m, _mm256_set1_ps(weighted[r]), acc[r]) });
        }
    }
    for (r, acc) in acc[..rows].iter().enumerate() {
        let mut lanes = [0.0f32; 8];
        _mm256_storeu_ps(&mut lanes, *acc);
        target.store(first + r, 8 * half, lanes);
    }
}

/// The dot products of 32 channels of 8 outputs with those of `R` rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dots<const F: u8, const R: usize>(codes: &[u8], half: usize, x: &RowBlock) -> [__m256i; R] {
    let ones = _mm256_set1_epi16(1);
    let mask = _mm256_set1_epi8(15);
    let (parts, _) = codes.as_chunks::<32>();
    let mut dot = [_mm256_setzero_si256(); R];
    if F == Q8 {
        for j in 0..8 {
            let w = _mm256_loadu_si256(&parts[2 * j + half]);
            let magnitude = _mm256_abs_epi8(w);
            each_row!(r < R, {
                let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(four(x, r, j), w));
                dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs, ones));
            });
        }
        return dot;
    }
    let mut pairs = [_mm256_setzero_si256(); R];
    for j in 0..4 {
        let both = _mm256_loadu_si256(&parts[2 * j + half]);
        let low = _mm256_and_si256(both, mask);
        each_row!(r < R, {
            pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(low, four(x, r, j)));
        });
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask);
        each_row!(r < R, {
            pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(high, four(x, r, j + 4)));
        });
    }
    each_row!(r < R, {
        dot[r] = _mm256_madd_epi16(pairs[r], ones);
        if F == Q4 {
            dot[r] = _mm256_add_epi32(dot[r], _mm256_set1_epi32(x.offset[r]));
        }
    });
    dot
}

/// Codes `4 j .. 4 j + 4` of a row in every 32-bit lane, through a vector load: a broadcast from memory needs no
/// shuffle.
#[inline]
#[target_feature(enable = "avx2")]
fn four(x: &RowBlock, row: usize, j: usize) -> __m256i {
    _mm256_broadcastd_epi32(_mm_loadu_si32(x.four(row, j)))
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn quantize(x: &[f32], d_in: usize, groups: &mut [RowBlock]) {
    for_each_group(x, d_in, groups, |x, group| {
        let (x, _) = x.as_chunks::<8>();
        let x =
            [_mm256_loadu_ps(&x[0]), _mm256_loadu_ps(&x[1]), _mm256_loadu_ps(&x[2]), _mm256_loadu_ps(&x[3])];
        let magnitude = _mm256_set1_epi32(0x7fff_ffff);
        let bits = |v| _mm256_and_si256(_mm256_castps_si256(v), magnitude);
        let max = _mm256_max_epu32;
        let top = max(max(bits(x[0]), bits(x[1])), max(bits(x[2]), bits(x[3])));
        let top = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256::<1>(top));
        let top = _mm_max_epu32(top, _mm_unpackhi_epi64(top, top));
        let top = _mm_max_epu32(top, _mm_shuffle_epi32::<1>(top));
        let Some((inverse, scale)) = scales(_mm_cvtsi128_si32(top) as u32) else {
            *group = ActivationGroup::NOT_FINITE;
            return;
        };
        let round = _mm256_set1_ps(ROUND);
        let integer = |v| {
            let shifted = _mm256_add_ps(_mm256_mul_ps(v, _mm256_set1_ps(inverse)), round);
            _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(round))
        };
        let q = [integer(x[0]), integer(x[1]), integer(x[2]), integer(x[3])];
        // Packing works within 128-bit halves; the permutation puts the groups of four back in order.
        let bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256(&mut group.codes, _mm256_permutevar8x32_epi32(bytes, order));
        let sum = _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
        let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
        let sum = _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<1>(sum)));
        group.scale = scale;
        group.sum = sum;
        group.weighted = scale * sum as f32;
    });
}
