//! AVX2: one register holds 8 output rows x 4 channels, so a tile is done in two halves.
//!
//! 4-bit codes stay unsigned: `vpmaddubsw` adds pairs of products in 16 bits, and the sum over a whole group
//! of 32 cannot overflow (8 x 2 x 15 x 127 = 30480), so it is widened to 32 bits once a group. 8-bit codes
//! use magnitudes and signs (2 x 128 x 127 = 32512 fits) and widen after every step.

use super::{Target, each_row, for_each_tile};
use crate::activations::ActivationRows;
use crate::format::{Format, GROUP};
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{_mm_loadu_si32, _mm_loadu_si128, _mm256_loadu_si256, _mm256_storeu_ps};
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
            let mut row = 0;
            while row + ROWS <= x.rows() {
                block::<F, ROWS>(tile, half, x, row, &mut target);
                row += ROWS;
            }
            match x.rows() - row {
                1 => block::<F, 1>(tile, half, x, row, &mut target),
                2 => block::<F, 2>(tile, half, x, row, &mut target),
                3 => block::<F, 3>(tile, half, x, row, &mut target),
                _ => {}
            }
        }
    });
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn block<const F: u8, const R: usize>(
    tile: &[u8],
    half: usize,
    x: ActivationRows<'_>,
    row: usize,
    target: &mut Target<'_>,
) {
    let groups = x.d_in() / GROUP;
    let rows: [_; R] = std::array::from_fn(|r| &x.row(row + r)[..groups]);
    let mut acc = [_mm256_setzero_ps(); R];
    match F {
        Q4 | Q4_MIN => {
            let n = if F == Q4 { Format::Q4.packed_group() } else { Format::Q4Min.packed_group() };
            for (g, b) in tile.chunks_exact(n).take(groups).enumerate() {
                let w = nibbles(&b[..256], half);
                let d = halves(&b[256 + 16 * half..][..16]);
                each_row!(r < R, {
                    let dot = dot4(&w, &rows[r][g].codes);
                    if F == Q4 {
                        let dot = _mm256_add_epi32(dot, _mm256_set1_epi32(-8 * rows[r][g].sum));
                        acc[r] = add_group(acc[r], d, rows[r][g].scale, dot);
                    } else {
                        let m = halves(&b[288 + 16 * half..][..16]);
                        acc[r] = add_group(acc[r], d, rows[r][g].scale, dot);
                        acc[r] = _mm256_fmadd_ps(m, _mm256_set1_ps(rows[r][g].weighted), acc[r]);
                    }
                });
            }
        }
        _ => {
            for (g, b) in tile.chunks_exact(Format::Q8.packed_group()).take(groups).enumerate() {
                let d = halves(&b[512 + 16 * half..][..16]);
                each_row!(r < R, {
                    let dot = dot8(&b[..512], half, &rows[r][g].codes);
                    acc[r] = add_group(acc[r], d, rows[r][g].scale, dot);
                });
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let mut lanes = [0.0f32; 8];
        _mm256_storeu_ps(&mut lanes, *acc);
        target.store(row + r, 8 * half, lanes);
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
