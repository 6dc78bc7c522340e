//! AVX2: one register holds 8 output rows x 4 channels, so a tile is done in two halves.
//!
//! 4-bit codes stay unsigned: `vpmaddubsw` adds pairs of products in 16 bits, and the sum over a whole group
//! of 32 cannot overflow (8 x 2 x 15 x 127 = 30480), so it is widened to 32 bits once a group. 8-bit codes
//! use magnitudes and signs (2 x 128 x 127 = 32512 fits) and widen after every step.

use super::{Target, each_row, for_each_tile};
use crate::activations::{
    ActivationGroup, ActivationRows, ROUND, ROW_BLOCK, RowBlock, for_each_group, scales,
};
use crate::format::{Format, GROUP};
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{
    _mm_loadu_si32, _mm_loadu_si128, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_storeu_ps,
    _mm256_storeu_si256,
};
use std::arch::x86_64::*;
use std::ops::Range;

/// 4 accumulators + 4 running dots + weights and temporaries stay within 16 registers.
const ROWS: usize = 4;

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    match w.format() {
        Format::Q4 => run::<Q4>(w, x, tiles, out, stride),
        Format::Q4Min => run::<Q4_MIN>(w, x, tiles, out, stride),
        Format::Q8 => run::<Q8>(w, x, tiles, out, stride),
    }
}

const Q4: u8 = 0;
const Q4_MIN: u8 = 1;
const Q8: u8 = 2;

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn run<const F: u8>(
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
                let mut row = 0;
                while row + ROWS <= rows {
                    block::<F, ROWS>(tile, half, groups, row, first, &mut target);
                    row += ROWS;
                }
                match rows - row {
                    1 => block::<F, 1>(tile, half, groups, row, first, &mut target),
                    2 => block::<F, 2>(tile, half, groups, row, first, &mut target),
                    3 => block::<F, 3>(tile, half, groups, row, first, &mut target),
                    _ => {}
                }
            }
        }
    });
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn block<const F: u8, const R: usize>(
    tile: &[u8],
    half: usize,
    groups: &[RowBlock],
    row: usize,
    first: usize,
    target: &mut Target<'_>,
) {
    let mut acc = [_mm256_setzero_ps(); R];
    match F {
        Q4 | Q4_MIN => {
            let n = if F == Q4 { Format::Q4.packed_group() } else { Format::Q4Min.packed_group() };
            for (b, x) in tile.chunks_exact(n).zip(groups) {
                // The block has 12 rows and row + R <= 12, so the conversion cannot fail.
                let x: &[ActivationGroup; R] = x[row..row + R].first_chunk().expect("R rows");
                let w = nibbles(&b[..256], half);
                let d = halves(&b[256 + 16 * half..][..16]);
                each_row!(r < R, {
                    let dot = dot4(&w, &x[r].codes);
                    if F == Q4 {
                        let dot = _mm256_add_epi32(dot, _mm256_set1_epi32(-8 * x[r].sum));
                        acc[r] = add_group(acc[r], d, x[r].scale, dot);
                    } else {
                        let m = halves(&b[288 + 16 * half..][..16]);
                        acc[r] = add_group(acc[r], d, x[r].scale, dot);
                        acc[r] = _mm256_fmadd_ps(m, _mm256_set1_ps(x[r].weighted), acc[r]);
                    }
                });
            }
        }
        _ => {
            for (b, x) in tile.chunks_exact(Format::Q8.packed_group()).zip(groups) {
                // As above.
                let x: &[ActivationGroup; R] = x[row..row + R].first_chunk().expect("R rows");
                let d = halves(&b[512 + 16 * half..][..16]);
                each_row!(r < R, {
                    let dot = dot8(&b[..512], half, &x[r].codes);
                    acc[r] = add_group(acc[r], d, x[r].scale, dot);
                });
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let mut lanes = [0.0f32; 8];
        _mm256_storeu_ps(&mut lanes, *acc);
        target.store(first + row + r, 8 * half, lanes);
    }
}

/// The eight weight registers of half a tile's 4-bit group: low nibbles are channels 0..16, high 16..32.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(codes: &[u8], half: usize) -> [__m256i; 8] {
    let mask = _mm256_set1_epi8(15);
    let (parts, _) = codes.as_chunks::<32>();
    let mut w = [mask; 8];
    for j in 0..4 {
        let both = _mm256_loadu_si256(&parts[2 * j + half]);
        w[j] = _mm256_and_si256(both, mask);
        w[j + 4] = _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask);
    }
    w
}

/// Eight f16 as f32.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves(bytes: &[u8]) -> __m256 {
    let (parts, _) = bytes.as_chunks::<16>();
    _mm256_cvtph_ps(_mm_loadu_si128(&parts[0]))
}

/// Four activation codes in every 32-bit lane.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(codes: &[i8; 4]) -> __m256i {
    // Through a vector load: a broadcast from memory needs no shuffle.
    _mm256_broadcastd_epi32(_mm_loadu_si32(codes))
}

#[inline]
#[target_feature(enable = "avx2")]
fn dot4(w: &[__m256i; 8], codes: &[i8; GROUP]) -> __m256i {
    let (codes, _) = codes.as_chunks::<4>();
    let mut pairs = _mm256_maddubs_epi16(w[0], broadcast(&codes[0]));
    for j in 1..8 {
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[j], broadcast(&codes[j])));
    }
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

#[inline]
#[target_feature(enable = "avx2")]
fn dot8(w: &[u8], half: usize, codes: &[i8; GROUP]) -> __m256i {
    let (codes, _) = codes.as_chunks::<4>();
    let (parts, _) = w.as_chunks::<32>();
    let mut dot = _mm256_setzero_si256();
    for (j, four) in codes.iter().enumerate() {
        let w = _mm256_loadu_si256(&parts[2 * j + half]);
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(broadcast(four), w));
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    dot
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_group(acc: __m256, d: __m256, scale: f32, dot: __m256i) -> __m256 {
    _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(dot), acc)
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
