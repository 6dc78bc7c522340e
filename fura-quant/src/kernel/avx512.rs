//! AVX-512 VNNI: one register holds 16 output rows x 4 channels, so a group of 32 is eight `vpdpbusd`
//! (unsigned weights x signed activations, summed into 32-bit lanes) against broadcast activations.
//!
//! `vpdpbusd` takes 5 cycles and two start each cycle, so ten independent sums keep both ports busy: a pass takes four
//! rows and three tiles. With more rows than that, codes are unpacked ahead ([`super::panel`]). What then bounds the
//! speed is the two ports: for each 8 `vpdpbusd` a conversion, a multiplication and one or two fused ones, so 8 of 11
//! (groups of 32), of 12 (with minima), of 10.5 and 10.25 (64 and 128).
//!
//! Activations of 16 bits take two `vpdpwssd` for each `vpdpbusd`, with the even and the odd bytes of the weights, widened;
//! 8-bit weights stay signed then.

use super::panel::{Lookahead, ROWS, RowSums, Rows, for_each_piece, group_bytes};
use super::streams::{for_each_step, prefetch_ahead};
use super::{Q4, Q4_MIN, Q8, by_format, unrolled, weighted};
use crate::activations::{ActivationGroup, ActivationRows, ROUND, RowBlock, for_each_group, scales};
use crate::code::Code;
use crate::format::TILE;
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{
    _mm_loadu_si32, _mm_storeu_si128, _mm256_loadu_si256, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_storeu_ps,
};
use std::arch::x86_64::*;
use std::hint::black_box;
use std::ops::Range;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn multiply<C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    by_format!(w.format(), run(w, x, tiles, out, stride))
}

/// Tiles of a pass. With four rows, the 12 integer and 12 f32 sums, 3 weight registers and 2 of activations make 29
/// registers. A broadcast feeds three multiplications and a weight register four: 512-bit loads start less than twice a
/// cycle, so one load for each multiplication would halve the speed.
const TILES: usize = 3;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn run<const F: u8, const K: usize, C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    if x.rows() <= ROWS {
        match x.rows() {
            1 => for_each_step::<F, K, C>(w, x, tiles, out, stride, |tile, x, sums| {
                pass::<F, K, 1, 1, true, C>(tile, x, 0, sums, ())
            }),
            2 => for_each_step::<F, K, C>(w, x, tiles, out, stride, |tile, x, sums| {
                pass::<F, K, 2, 1, true, C>(tile, x, 0, sums, ())
            }),
            _ => for_each_step::<F, K, C>(w, x, tiles, out, stride, |tile, x, sums| {
                pass::<F, K, ROWS, 1, true, C>(tile, x, 0, sums, ())
            }),
        }
        return;
    }
    let whole = tiles.start + tiles.len() / TILES * TILES;
    if whole > tiles.start {
        many::<F, K, TILES, C>(w, x, tiles.start..whole, out, stride);
    }
    if whole < tiles.end {
        let rest = &mut out[(whole - tiles.start) * TILE..];
        many::<F, K, 1, C>(w, x, whole..tiles.end, rest, stride);
    }
}

/// More rows than a pass takes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn many<const F: u8, const K: usize, const T: usize, C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    let halves = |bytes: &[u8; 32]| {
        let mut lanes = [0.0; TILE];
        _mm512_storeu_ps(&mut lanes, _mm512_cvtph_ps(_mm256_loadu_si256(bytes)));
        lanes
    };
    let flip = if C::WIDE { 0 } else { 0x80 };
    for_each_piece::<F, K, T, C>(w, x, tiles, out, stride, flip, halves, |tiles, x, quad, _, ahead, sums| {
        match ahead {
            Some(ahead) => pass::<F, K, ROWS, T, false, C>(tiles, x, quad, sums, ahead),
            None => pass::<F, K, ROWS, T, false, C>(tiles, x, quad, sums, ()),
        }
    });
}

/// Adds to `sums` the products of `T` tiles (or pieces of them, unpacked), group by group side by side, with the first
/// `R` rows of the four that begin at row `4 quad` of a row block.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn pass<const F: u8, const K: usize, const R: usize, const T: usize, const PACKED: bool, C: Code>(
    tiles: &[u8],
    groups: &[RowBlock<C>],
    quad: usize,
    sums: &mut RowSums<T>,
    mut ahead: impl Lookahead,
) {
    let (codes, n) = group_bytes(F, K, PACKED);
    let mut acc = [[_mm512_setzero_ps(); T]; R];
    if K == 1 {
        unrolled!(r < R of 4, { unrolled!(t < T of 3, { acc[r][t] = _mm512_loadu_ps(&sums[r][t]) }) });
    }
    for (b, x) in tiles.chunks_exact(T * n).zip(groups.chunks_exact(K)) {
        // Wide groups need the registers for the sums of a group. Those of all groups stay in memory then, of which
        // the compiler has to be told: moved to registers they would be spilled, to a stack that is not aligned.
        let sums = if K > 1 { black_box(&mut *sums) } else { &mut *sums };
        if PACKED {
            prefetch_ahead(b);
        }
        ahead.prefetch();
        let mut d = [_mm512_setzero_ps(); T];
        unrolled!(t < T of 3, { d[t] = floats_at::<PACKED>(&b[t * n + codes..], 0) });
        let mut sum = [[_mm512_setzero_ps(); T]; R];
        for (k, x) in x.iter().enumerate() {
            let x = Rows::new(x, quad);
            let mut dot = [[_mm512_setzero_si512(); T]; R];
            unrolled!(r < R of 4, {
                // Undoes the offset of the codes.
                match F {
                    Q4 => dot[r] = [_mm512_set1_epi32(x.offset[r]); T],
                    Q8 if !C::WIDE => dot[r] = [_mm512_slli_epi32::<4>(_mm512_set1_epi32(x.offset[r])); T],
                    _ => {}
                }
            });
            for j in 0..8 {
                let mut w = [_mm512_setzero_si512(); T];
                unrolled!(t < T of 3, { w[t] = weights::<F, PACKED, C>(&b[t * n + k * (codes / K)..], j) });
                if C::WIDE {
                    unrolled!(odd < 2 of 2, {
                        let mut half = w;
                        unrolled!(t < T of 3, { half[t] = words(w[t], odd) });
                        unrolled!(r < R of 4, {
                            let x = broadcast(x.two(r, j, odd));
                            unrolled!(t < T of 3, { dot[r][t] = _mm512_dpwssd_epi32(dot[r][t], half[t], x) });
                        });
                    });
                    continue;
                }
                unrolled!(r < R of 4, {
                    let x = broadcast(x.four(r, j));
                    unrolled!(t < T of 3, { dot[r][t] = _mm512_dpbusd_epi32(dot[r][t], w[t], x) });
                });
            }
            unrolled!(r < R of 4, {
                let scale = _mm512_set1_ps(x.scale[r]);
                unrolled!(t < T of 3, {
                    let dot = _mm512_cvtepi32_ps(dot[r][t]);
                    if K == 1 {
                        acc[r][t] = _mm512_fmadd_ps(_mm512_mul_ps(d[t], scale), dot, acc[r][t]);
                    } else {
                        sum[r][t] = _mm512_fmadd_ps(scale, dot, sum[r][t]);
                    }
                });
            });
        }
        if K > 1 {
            unrolled!(r < R of 4, {
                unrolled!(t < T of 3, {
                    acc[r][t] = _mm512_fmadd_ps(d[t], sum[r][t], _mm512_loadu_ps(&sums[r][t]));
                });
            });
        }
        if F == Q4_MIN {
            let mut m = [_mm512_setzero_ps(); T];
            unrolled!(t < T of 3, { m[t] = floats_at::<PACKED>(&b[t * n + codes..], 1) });
            let weighted = weighted::<K, C>(x);
            let weighted = &weighted.as_chunks::<ROWS>().0[quad];
            unrolled!(r < R of 4, {
                let weighted = _mm512_set1_ps(weighted[r]);
                unrolled!(t < T of 3, { acc[r][t] = _mm512_fmadd_ps(m[t], weighted, acc[r][t]) });
            });
        }
        if K > 1 {
            store(&acc, sums);
        }
    }
    if K == 1 {
        store(&acc, sums);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store<const R: usize, const T: usize>(acc: &[[__m512; T]; R], sums: &mut RowSums<T>) {
    unrolled!(r < R of 4, { unrolled!(t < T of 3, { _mm512_storeu_ps(&mut sums[r][t], acc[r][t]) }) });
}

/// Channels `4 j .. 4 j + 4` of the outputs of a tile, unsigned for activations of 8 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn weights<const F: u8, const PACKED: bool, C: Code>(codes: &[u8], j: usize) -> __m512i {
    let (codes, _) = codes.as_chunks::<64>();
    let mask = _mm512_set1_epi8(15);
    match F {
        // Flipping the top bit adds 128.
        Q8 if PACKED && !C::WIDE => _mm512_xor_si512(_mm512_loadu_si512(&codes[j]), _mm512_set1_epi8(-128)),
        _ if F == Q8 || !PACKED => _mm512_loadu_si512(&codes[j]),
        _ if j < 4 => _mm512_and_si512(_mm512_loadu_si512(&codes[j]), mask),
        _ => _mm512_and_si512(_mm512_srli_epi16::<4>(_mm512_loadu_si512(&codes[j - 4])), mask),
    }
}

/// The scales (`k` = 0) or minima (`k` = 1) of a group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn floats_at<const PACKED: bool>(floats: &[u8], k: usize) -> __m512 {
    if PACKED {
        _mm512_cvtph_ps(_mm256_loadu_si256(&floats.as_chunks::<32>().0[k]))
    } else {
        _mm512_castsi512_ps(_mm512_loadu_si512(&floats.as_chunks::<64>().0[k]))
    }
}

/// The even or the odd bytes, as 16-bit integers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words(w: __m512i, odd: usize) -> __m512i {
    _mm512_srai_epi16::<8>(if odd == 1 { w } else { _mm512_slli_epi16::<8>(w) })
}

/// Codes in every 32-bit lane, through a vector load: a broadcast from memory needs no shuffle.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(codes: &[i8; 4]) -> __m512i {
    _mm512_broadcastd_epi32(_mm_loadu_si32(codes))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn quantize(x: &[f32], d_in: usize, groups: &mut [RowBlock]) {
    for_each_group(x, d_in, groups, |x, group| {
        let (x, _) = x.as_chunks::<16>();
        let (a, b) = (_mm512_loadu_ps(&x[0]), _mm512_loadu_ps(&x[1]));
        let magnitude = _mm512_set1_epi32(0x7fff_ffff);
        let bits = |v| _mm512_and_si512(_mm512_castps_si512(v), magnitude);
        let top = _mm512_reduce_max_epu32(_mm512_max_epu32(bits(a), bits(b)));
        let Some((inverse, scale)) = scales::<i8>(top) else {
            *group = ActivationGroup::not_finite();
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
