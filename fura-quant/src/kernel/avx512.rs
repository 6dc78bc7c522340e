//! AVX-512 VNNI: one register holds 16 output rows x 4 channels, so a group of 32 is eight `vpdpbusd`
//! (unsigned weights x signed activations, summed into 32-bit lanes) against broadcast activations.
//!
//! `vpdpbusd` takes 5 cycles and two start each cycle, so ten independent sums keep both ports busy: the loop runs
//! over the rows of a block inside, over the weight registers outside, and each weight register is unpacked once
//! for all rows.

use super::{Target, each_row, for_each_tile};
use crate::activations::{
    ActivationGroup, ActivationRows, ROUND, ROW_BLOCK, RowBlock, for_each_group, scales,
};
use crate::format::Format;
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{
    _mm_loadu_si32, _mm_storeu_si128, _mm256_loadu_si256, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_storeu_ps,
};
use std::arch::x86_64::*;
use std::ops::Range;

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
        for k in 0..x.rows().div_ceil(ROW_BLOCK) {
            let (groups, rows) = x.block(k);
            let first = k * ROW_BLOCK;
            if rows == ROW_BLOCK {
                block::<F, ROW_BLOCK>(tile, groups, 0, first, &mut target);
                continue;
            }
            let mut row = 0;
            if rows - row >= 8 {
                block::<F, 8>(tile, groups, row, first, &mut target);
                row += 8;
            }
            if rows - row >= 4 {
                block::<F, 4>(tile, groups, row, first, &mut target);
                row += 4;
            }
            if rows - row >= 2 {
                block::<F, 2>(tile, groups, row, first, &mut target);
                row += 2;
            }
            if rows - row == 1 {
                block::<F, 1>(tile, groups, row, first, &mut target);
            }
        }
    });
}

/// Rows `row .. row + R` of a block against one tile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn block<const F: u8, const R: usize>(
    tile: &[u8],
    groups: &[RowBlock],
    row: usize,
    first: usize,
    target: &mut Target<'_>,
) {
    let mut acc = [_mm512_setzero_ps(); R];
    let mask = _mm512_set1_epi8(15);
    // Flipping the top bit adds 128 and makes 8-bit codes unsigned.
    let flip = _mm512_set1_epi8(-128);
    let n = [Format::Q4, Format::Q4Min, Format::Q8][F as usize].packed_group();
    for (b, x) in tile.chunks_exact(n).zip(groups) {
        // The block has 12 rows and row + R <= 12, so the conversion cannot fail.
        let x: &[ActivationGroup; R] = x[row..row + R].first_chunk().expect("R rows");
        let (codes, rest) = b.split_at(if F == Q8 { 512 } else { 256 });
        let (codes, _) = codes.as_chunks::<64>();
        let (halves, _) = rest.as_chunks::<32>();
        let mut dot = [_mm512_setzero_si512(); R];
        each_row!(r < R, {
            // Undoes the offset of the codes.
            match F {
                Q4 => dot[r] = _mm512_set1_epi32(-8 * x[r].sum),
                Q8 => dot[r] = _mm512_set1_epi32(-128 * x[r].sum),
                _ => {}
            }
        });
        for (j, codes) in codes.iter().enumerate() {
            let w = _mm512_loadu_si512(codes);
            if F == Q8 {
                let w = _mm512_xor_si512(w, flip);
                each_row!(r < R, { dot[r] = _mm512_dpbusd_epi32(dot[r], w, four(&x[r], j)) });
            } else {
                let low = _mm512_and_si512(w, mask);
                each_row!(r < R, { dot[r] = _mm512_dpbusd_epi32(dot[r], low, four(&x[r], j)) });
                let high = _mm512_and_si512(_mm512_srli_epi16::<4>(w), mask);
                each_row!(r < R, { dot[r] = _mm512_dpbusd_epi32(dot[r], high, four(&x[r], j + 4)) });
            }
        }
        let d = _mm512_cvtph_ps(_mm256_loadu_si256(&halves[0]));
        each_row!(r < R, {
            let scale = _mm512_mul_ps(d, _mm512_set1_ps(x[r].scale));
            acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(dot[r]), acc[r]);
        });
        if F == Q4_MIN {
            let m = _mm512_cvtph_ps(_mm256_loadu_si256(&halves[1]));
            each_row!(r < R, { acc[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(x[r].weighted), acc[r]) });
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let mut lanes = [0.0f32; 16];
        _mm512_storeu_ps(&mut lanes, *acc);
        target.store(first + row + r, 0, lanes);
    }
}

/// Activation codes `4 j .. 4 j + 4` in every 32-bit lane. Through a vector load, so that the broadcast folds into
/// the multiply instead of using a shuffle.
#[inline]
#[target_feature(enable = "avx512f")]
fn four(x: &ActivationGroup, j: usize) -> __m512i {
    let (codes, _) = x.codes.as_chunks::<4>();
    _mm512_broadcastd_epi32(_mm_loadu_si32(&codes[j]))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn quantize(x: &[f32], d_in: usize, groups: &mut [RowBlock]) {
    for_each_group(x, d_in, groups, |x, group| {
        let (x, _) = x.as_chunks::<16>();
        let (a, b) = (_mm512_loadu_ps(&x[0]), _mm512_loadu_ps(&x[1]));
        let magnitude = _mm512_set1_epi32(0x7fff_ffff);
        let bits = |v| _mm512_and_si512(_mm512_castps_si512(v), magnitude);
        let top = _mm512_reduce_max_epu32(_mm512_max_epu32(bits(a), bits(b)));
        let Some((inverse, scale)) = scales(top) else {
            *group = ActivationGroup::NOT_FINITE;
            return;
        };
        let round = _mm512_set1_ps(ROUND);
        let integer = |v| {
            let shifted = _mm512_add_ps(_mm512_mul_ps(v, _mm512_set1_ps(inverse)), round);
            _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(round))
        };
        let (a, b) = (integer(a), integer(b));
        let (codes, _) = group.codes.as_chunks_mut::<16>();
        _mm_storeu_si128(&mut codes[0], _mm512_cvtepi32_epi8(a));
        _mm_storeu_si128(&mut codes[1], _mm512_cvtepi32_epi8(b));
        let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
        group.scale = scale;
        group.sum = sum;
        group.weighted = scale * sum as f32;
    });
}
