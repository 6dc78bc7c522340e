//! AVX-512 VNNI: one register holds 16 output rows x 4 channels, so a group of 32 is eight `vpdpbusd`
//! (unsigned weights x signed activations, summed into 32-bit lanes) against broadcast activations.
//!
//! `vpdpbusd` takes 5 cycles and two start each cycle, so ten independent sums keep both ports busy: the loop runs
//! over the rows of a block inside, over the weight registers outside, and each weight register is unpacked once
//! for all rows.

use super::{Q4, Q4_MIN, Q8, Target, by_format, each_row, for_each_tile, packed_bytes, weighted};
use crate::activations::{
    ActivationGroup, ActivationRows, ROUND, ROW_BLOCK, RowBlock, for_each_group, scales,
};
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
    by_format!(w.format(), run(w, x, tiles, out, stride))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn run<const F: u8, const K: usize>(
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
            match rows {
                1 => block::<F, K, 1>(tile, groups, first, rows, &mut target),
                2 => block::<F, K, 2>(tile, groups, first, rows, &mut target),
                3..=4 => block::<F, K, 4>(tile, groups, first, rows, &mut target),
                5..=8 => block::<F, K, 8>(tile, groups, first, rows, &mut target),
                _ => block::<F, K, ROW_BLOCK>(tile, groups, first, rows, &mut target),
            }
        }
    });
}

/// The first `rows` rows of a block, computed as `R`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn block<const F: u8, const K: usize, const R: usize>(
    tile: &[u8],
    groups: &[RowBlock],
    first: usize,
    rows: usize,
    target: &mut Target<'_>,
) {
    let mut acc = [_mm512_setzero_ps(); R];
    let (codes, n) = packed_bytes(F, K);
    for (b, x) in tile.chunks_exact(n).zip(groups.chunks_exact(K)) {
        let (codes, rest) = b.split_at(codes);
        let (halves, _) = rest.as_chunks::<32>();
        let d = _mm512_cvtph_ps(_mm256_loadu_si256(&halves[0]));
        if K == 1 {
            let dot = dots::<F, R>(codes, &x[0]);
            each_row!(r < R, {
                let scale = _mm512_mul_ps(d, _mm512_set1_ps(x[0].scale[r]));
                acc[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(dot[r]), acc[r]);
            });
        } else {
            let mut t = [_mm512_setzero_ps(); R];
            for (codes, x) in codes.chunks_exact(codes.len() / K).zip(x) {
                let dot = dots::<F, R>(codes, x);
                each_row!(r < R, {
                    t[r] = _mm512_fmadd_ps(_mm512_set1_ps(x.scale[r]), _mm512_cvtepi32_ps(dot[r]), t[r]);
                });
            }
            each_row!(r < R, { acc[r] = _mm512_fmadd_ps(d, t[r], acc[r]) });
        }
        if F == Q4_MIN {
            let m = _mm512_cvtph_ps(_mm256_loadu_si256(&halves[1]));
            let weighted = weighted(x);
            each_row!(r < R, { acc[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(weighted[r]), acc[r]) });
        }
    }
    for (r, acc) in acc[..rows].iter().enumerate() {
        let mut lanes = [0.0f32; 16];
        _mm512_storeu_ps(&mut lanes, *acc);
        target.store(first + r, 0, lanes);
    }
}

/// The dot products of 32 channels of 16 outputs with those of `R` rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn dots<const F: u8, const R: usize>(codes: &[u8], x: &RowBlock) -> [__m512i; R] {
    let mask = _mm512_set1_epi8(15);
    // Flipping the top bit adds 128 and makes 8-bit codes unsigned.
    let flip = _mm512_set1_epi8(-128);
    let mut dot = [_mm512_setzero_si512(); R];
    each_row!(r < R, {
        // Undoes the offset of the codes.
        match F {
            Q4 => dot[r] = _mm512_set1_epi32(x.offset[r]),
            Q8 => dot[r] = _mm512_slli_epi32::<4>(_mm512_set1_epi32(x.offset[r])),
            _ => {}
        }
    });
    let (codes, _) = codes.as_chunks::<64>();
    for (j, codes) in codes.iter().enumerate() {
        let w = _mm512_loadu_si512(codes);
        if F == Q8 {
            let w = _mm512_xor_si512(w, flip);
            each_row!(r < R, { dot[r] = _mm512_dpbusd_epi32(dot[r], w, four(x, r, j)) });
        } else {
            let low = _mm512_and_si512(w, mask);
            each_row!(r < R, { dot[r] = _mm512_dpbusd_epi32(dot[r], low, four(x, r, j)) });
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(w), mask);
            each_row!(r < R, { dot[r] = _mm512_dpbusd_epi32(dot[r], high, four(x, r, j + 4)) });
        }
    }
    dot
}

/// Codes `4 j .. 4 j + 4` of a row in every 32-bit lane. Through a vector load, so that the broadcast folds into
/// the multiply instead of using a shuffle.
#[inline]
#[target_feature(enable = "avx512f")]
fn four(x: &RowBlock, row: usize, j: usize) -> __m512i {
    _mm512_broadcastd_epi32(_mm_loadu_si32(x.four(row, j)))
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
