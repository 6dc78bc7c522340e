//! AVX-512 VNNI: one register holds 16 output rows x 4 channels, so a group of 32 is eight `vpdpbusd`
//! (unsigned weights x signed activations, summed into 32-bit lanes) against broadcast activations. The
//! eight unpacked weight registers are used for all rows of a block.

use super::{Target, each_row, for_each_tile};
use crate::activations::ActivationRows;
use crate::format::{Format, GROUP};
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{_mm_loadu_si32, _mm256_loadu_si256, _mm512_loadu_si512, _mm512_storeu_ps};
use std::arch::x86_64::*;
use std::ops::Range;

/// 8 weight registers + 8 accumulators + temporaries of overlapping rows stay within 32 registers.
const ROWS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn run<const F: u8>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    for_each_tile(w, x, tiles, out, stride, |tile, x, mut target| {
        let mut row = 0;
        while row + ROWS <= x.rows() {
            block::<F, ROWS>(tile, x, row, &mut target);
            row += ROWS;
        }
        let rest = x.rows() - row;
        if rest >= 4 {
            block::<F, 4>(tile, x, row, &mut target);
            row += 4;
        }
        match x.rows() - row {
            1 => block::<F, 1>(tile, x, row, &mut target),
            2 => block::<F, 2>(tile, x, row, &mut target),
            3 => block::<F, 3>(tile, x, row, &mut target),
            _ => {}
        }
    });
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn block<const F: u8, const R: usize>(
    tile: &[u8],
    x: ActivationRows<'_>,
    row: usize,
    target: &mut Target<'_>,
) {
    let groups = x.d_in() / GROUP;
    let rows: [_; R] = std::array::from_fn(|r| &x.row(row + r)[..groups]);
    let mut acc = [_mm512_setzero_ps(); R];
    match F {
        Q4 => {
            let (blocks, _) = tile.as_chunks::<{ Format::Q4.packed_group() }>();
            for (g, b) in blocks[..groups].iter().enumerate() {
                let w = nibbles(b.first_chunk().expect("256 of 288 bytes"));
                let d = halves(b[256..].first_chunk().expect("32 of 32 bytes"));
                each_row!(r < R, {
                    let start = _mm512_set1_epi32(-8 * rows[r][g].sum);
                    let dot = dot(start, &w, &rows[r][g].codes);
                    acc[r] = add_group(acc[r], d, rows[r][g].scale, dot);
                });
            }
        }
        Q4_MIN => {
            let (blocks, _) = tile.as_chunks::<{ Format::Q4Min.packed_group() }>();
            for (g, b) in blocks[..groups].iter().enumerate() {
                let w = nibbles(b.first_chunk().expect("256 of 320 bytes"));
                let d = halves(b[256..].first_chunk().expect("32 of 64 bytes"));
                let m = halves(b[288..].first_chunk().expect("32 of 32 bytes"));
                each_row!(r < R, {
                    let dot = dot(_mm512_setzero_si512(), &w, &rows[r][g].codes);
                    acc[r] = add_group(acc[r], d, rows[r][g].scale, dot);
                    acc[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(rows[r][g].weighted), acc[r]);
                });
            }
        }
        _ => {
            let (blocks, _) = tile.as_chunks::<{ Format::Q8.packed_group() }>();
            // Flipping the top bit adds 128 and makes the codes unsigned.
            let flip = _mm512_set1_epi8(-128);
            for (g, b) in blocks[..groups].iter().enumerate() {
                let (parts, _) = b[..512].as_chunks::<64>();
                let mut w = [flip; 8];
                for (w, part) in w.iter_mut().zip(parts) {
                    *w = _mm512_xor_si512(_mm512_loadu_si512(part), flip);
                }
                let d = halves(b[512..].first_chunk().expect("32 of 32 bytes"));
                each_row!(r < R, {
                    let start = _mm512_set1_epi32(-128 * rows[r][g].sum);
                    let dot = dot(start, &w, &rows[r][g].codes);
                    acc[r] = add_group(acc[r], d, rows[r][g].scale, dot);
                });
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let mut lanes = [0.0f32; 16];
        _mm512_storeu_ps(&mut lanes, *acc);
        target.store(row + r, 0, lanes);
    }
}

/// The eight weight registers of a 4-bit group: low nibbles are channels 0..16, high ones 16..32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibbles(codes: &[u8; 256]) -> [__m512i; 8] {
    let mask = _mm512_set1_epi8(15);
    let (parts, _) = codes.as_chunks::<64>();
    let mut w = [mask; 8];
    for (j, part) in parts.iter().enumerate() {
        let both = _mm512_loadu_si512(part);
        w[j] = _mm512_and_si512(both, mask);
        w[j + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), mask);
    }
    w
}

/// Sixteen f16 as f32.
#[inline]
#[target_feature(enable = "avx512f,f16c")]
fn halves(bytes: &[u8; 32]) -> __m512 {
    _mm512_cvtph_ps(_mm256_loadu_si256(bytes))
}

/// `start + sum` of weights x activations over the group, exact.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(start: __m512i, w: &[__m512i; 8], codes: &[i8; GROUP]) -> __m512i {
    let (codes, _) = codes.as_chunks::<4>();
    let mut dot = start;
    for j in 0..8 {
        // Through a vector load: the broadcast then folds into the multiply instead of using a shuffle.
        let four = _mm512_broadcastd_epi32(_mm_loadu_si32(&codes[j]));
        dot = _mm512_dpbusd_epi32(dot, w[j], four);
    }
    dot
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_group(acc: __m512, d: __m512, scale: f32, dot: __m512i) -> __m512 {
    _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(dot), acc)
}
