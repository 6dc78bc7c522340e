//! AVX2: one register holds 8 output rows x 4 channels, so a tile has two halves, multiplied together. With more than
//! four rows, codes are unpacked ahead ([`super::panel`]).
//!
//! 4-bit codes stay unsigned: `vpmaddubsw` adds pairs of products in 16 bits, and the sum over a whole group
//! of 32 cannot overflow (8 x 2 x 15 x 127 = 30480), so it is widened to 32 bits once a group. 8-bit codes
//! use magnitudes and signs (2 x 128 x 127 = 32512 fits) and widen after every step. Activations of 16 bits are multiplied
//! by `vpmaddwd`, with the even and then the odd bytes of the weights, widened.

use super::panel::{Lanes, Lookahead, ROWS, RowSums, Rows, for_each_piece, group_bytes};
use super::streams::{for_each_step, prefetch_ahead};
use super::{Q4, Q4_MIN, Q8, by_format, unrolled};
use crate::activations::{ActivationGroup, ActivationRows, ROUND, RowBlock, for_each_group, scales};
use crate::code::Code;
use crate::format::TILE;
use crate::matrix::PackedMatrix;
use safe_unaligned_simd::x86_64::{
    _mm_loadu_si32, _mm_loadu_si128, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_storeu_ps,
    _mm256_storeu_si256,
};
use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;
use std::ops::Range;

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    by_format!(w.format(), run(w, x, tiles, out, stride))
}

/// Tiles unpacked together: results are stored a few cache lines at a time. A pass takes one. With four rows the two halves
/// of a tile make 8 running sums, beside two weight registers, one of activations and one of products; 12 sums of six
/// rows are not faster.
const TILES: usize = 3;

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
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
                pass::<F, K, 1, 1, true, C>(tile, 0, x, 0, sums, ())
            }),
            2 => for_each_step::<F, K, C>(w, x, tiles, out, stride, |tile, x, sums| {
                pass::<F, K, 2, 1, true, C>(tile, 0, x, 0, sums, ())
            }),
            _ => for_each_step::<F, K, C>(w, x, tiles, out, stride, |tile, x, sums| {
                pass::<F, K, ROWS, 1, true, C>(tile, 0, x, 0, sums, ())
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
#[target_feature(enable = "avx2,fma,f16c")]
fn many<const F: u8, const K: usize, const T: usize, C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    let halves = |bytes: &[u8; 32]| {
        let mut lanes = [0.0; TILE];
        for (lanes, bytes) in lanes.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks::<16>().0) {
            _mm256_storeu_ps(lanes, _mm256_cvtph_ps(_mm_loadu_si128(bytes)));
        }
        lanes
    };
    for_each_piece::<F, K, T, C>(w, x, tiles, out, stride, 0, halves, |tiles, x, quad, rows, ahead, sums| {
        for t in 0..T {
            match (rows <= 2, &ahead) {
                (true, Some(a)) => pass::<F, K, 2, T, false, C>(tiles, t, x, quad, sums, a.of(t)),
                (false, Some(a)) => pass::<F, K, ROWS, T, false, C>(tiles, t, x, quad, sums, a.of(t)),
                (true, None) => pass::<F, K, 2, T, false, C>(tiles, t, x, quad, sums, ()),
                (false, None) => pass::<F, K, ROWS, T, false, C>(tiles, t, x, quad, sums, ()),
            }
        }
    });
}

/// Adds to `sums` the products of tile `tile` of `T` (or of pieces of them, unpacked), group by group side by side, with the
/// first `R` rows of the four that begin at row `4 quad` of a row block.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn pass<const F: u8, const K: usize, const R: usize, const T: usize, const PACKED: bool, C: Code>(
    tiles: &[u8],
    tile: usize,
    groups: &[RowBlock<C>],
    quad: usize,
    sums: &mut RowSums<T>,
    mut ahead: impl Lookahead,
) {
    let (codes, n) = group_bytes(F, K, PACKED);
    let ones = _mm256_set1_epi16(1);
    let mut group = Group([[0.0; TILE]; R]);
    for (b, x) in tiles.chunks_exact(T * n).zip(groups.as_chunks::<K>().0) {
        if PACKED {
            prefetch_ahead(b);
        }
        ahead.prefetch();
        let b = &b[tile * n..][..n];
        // The dot products take the registers, so the f32 sums stay in memory, of which the compiler has to be told: moved to
        // registers they would be spilled, to a stack that is not aligned.
        let sums = black_box(&mut *sums);
        let group = if K > 1 { black_box(&mut group) } else { &mut group };
        let d = floats_at::<PACKED>(&b[codes..], 0);
        let mut m = [_mm256_setzero_ps(); 2];
        let mut weighted = [0.0; ROWS];
        if F == Q4_MIN {
            m = floats_at::<PACKED>(&b[codes..], 1);
            weighted = super::weighted::<K, C>(x).as_chunks().0[quad];
        }
        for k in 0..K {
            let codes = &b[k * (codes / K)..][..codes / K];
            let x = Rows::new(&x[k], quad);
            // For two codes of 4 and 8 bits 16-bit sums, for wider ones 32-bit sums.
            let mut dot = [[_mm256_setzero_si256(); 2]; R];
            unrolled!(j < 8 of 8, {
                let w = weights::<F, PACKED>(codes, j);
                if C::WIDE {
                    unrolled!(odd < 2 of 2, {
                        let w = [words(w[0], odd), words(w[1], odd)];
                        unrolled!(r < R of 4, {
                            let x = broadcast(x.two(r, j, odd));
                            unrolled!(t < 2 of 2, {
                                let sums = _mm256_add_epi32(dot[r][t], _mm256_madd_epi16(w[t], x));
                                dot[r][t] = in_order(sums);
                            });
                        });
                    });
                } else {
                    unrolled!(r < R of 4, {
                        let x = broadcast(x.four(r, j));
                        unrolled!(t < 2 of 2, {
                            dot[r][t] = in_order(if F == Q8 {
                                let pairs =
                                    _mm256_maddubs_epi16(_mm256_abs_epi8(w[t]), _mm256_sign_epi8(x, w[t]));
                                _mm256_add_epi32(dot[r][t], _mm256_madd_epi16(pairs, ones))
                            } else {
                                _mm256_add_epi16(dot[r][t], _mm256_maddubs_epi16(w[t], x))
                            });
                        });
                    });
                }
            });
            unrolled!(r < R of 4, {
                let (scale, offset) = (_mm256_set1_ps(x.scale[r]), _mm256_set1_epi32(x.offset[r]));
                unrolled!(t < 2 of 2, {
                    let mut dot = dot[r][t];
                    if F != Q8 && !C::WIDE {
                        dot = _mm256_madd_epi16(dot, ones);
                    }
                    if F == Q4 {
                        // Undoes the offset of the codes.
                        dot = _mm256_add_epi32(dot, offset);
                    }
                    let dot = _mm256_cvtepi32_ps(dot);
                    if K == 1 {
                        add::<F>(&mut sums[r][tile], t, [_mm256_mul_ps(d[t], scale), dot], m[t], weighted[r]);
                    } else if k == 0 {
                        let (halves, _) = group.0[r].as_chunks_mut::<8>();
                        _mm256_storeu_ps(&mut halves[t], _mm256_mul_ps(scale, dot));
                    } else {
                        add::<Q4>(&mut group.0[r], t, [scale, dot], m[t], 0.0);
                    }
                });
            });
        }
        if K > 1 {
            unrolled!(r < R of 4, {
                unrolled!(t < 2 of 2, {
                    let (halves, _) = group.0[r].as_chunks::<8>();
                    let product = [d[t], _mm256_loadu_ps(&halves[t])];
                    add::<F>(&mut sums[r][tile], t, product, m[t], weighted[r]);
                });
            });
        }
    }
}

/// Its argument, in the order of the program. Left alone, the compiler turns the sums of a group into trees or goes row
/// by row, which takes more registers than there are; it neither sees through this nor moves it.
#[inline]
#[allow(unsafe_code)]
#[target_feature(enable = "avx2")]
fn in_order(sum: __m256i) -> __m256i {
    let mut sum = sum;
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {0} */", inout(ymm_reg) sum, options(nomem, nostack, preserves_flags)) };
    sum
}

/// Sums of a weight group.
#[repr(align(32))]
struct Group<const R: usize>([Lanes; R]);

/// `sums = fma(a, b, sums)` for half `t` of the lanes, and with minima then `sums = fma(m, weighted, sums)`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add<const F: u8>(sums: &mut Lanes, t: usize, [a, b]: [__m256; 2], m: __m256, weighted: f32) {
    let (halves, _) = sums.as_chunks_mut::<8>();
    let mut sum = _mm256_fmadd_ps(a, b, _mm256_loadu_ps(&halves[t]));
    if F == Q4_MIN {
        sum = _mm256_fmadd_ps(m, _mm256_set1_ps(weighted), sum);
    }
    _mm256_storeu_ps(&mut halves[t], sum);
}

/// Channels `4 j .. 4 j + 4` of the outputs of a tile, eight and eight.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn weights<const F: u8, const PACKED: bool>(codes: &[u8], j: usize) -> [__m256i; 2] {
    let (codes, _) = codes.as_chunks::<64>();
    let mask = _mm256_set1_epi8(15);
    let packed = F != Q8 && PACKED;
    let (halves, _) = codes[if packed { j % 4 } else { j }].as_chunks::<32>();
    let w = [_mm256_loadu_si256(&halves[0]), _mm256_loadu_si256(&halves[1])];
    match packed {
        false => w,
        true if j < 4 => [_mm256_and_si256(w[0], mask), _mm256_and_si256(w[1], mask)],
        true => [
            _mm256_and_si256(_mm256_srli_epi16::<4>(w[0]), mask),
            _mm256_and_si256(_mm256_srli_epi16::<4>(w[1]), mask),
        ],
    }
}

/// The scales (`k` = 0) or minima (`k` = 1) of a group.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn floats_at<const PACKED: bool>(floats: &[u8], k: usize) -> [__m256; 2] {
    if PACKED {
        let (halves, _) = floats.as_chunks::<16>();
        [
            _mm256_cvtph_ps(_mm_loadu_si128(&halves[2 * k])),
            _mm256_cvtph_ps(_mm_loadu_si128(&halves[2 * k + 1])),
        ]
    } else {
        let (lanes, _) = floats.as_chunks::<32>();
        [
            _mm256_castsi256_ps(_mm256_loadu_si256(&lanes[2 * k])),
            _mm256_castsi256_ps(_mm256_loadu_si256(&lanes[2 * k + 1])),
        ]
    }
}

/// The even or the odd bytes, as 16-bit integers.
#[inline]
#[target_feature(enable = "avx2")]
fn words(w: __m256i, odd: usize) -> __m256i {
    _mm256_srai_epi16::<8>(if odd == 1 { w } else { _mm256_slli_epi16::<8>(w) })
}

/// Codes in every 32-bit lane, through a vector load: a broadcast from memory needs no shuffle.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(codes: &[i8; 4]) -> __m256i {
    _mm256_broadcastd_epi32(_mm_loadu_si32(codes))
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
        let Some((inverse, scale)) = scales::<i8>(_mm_cvtsi128_si32(top) as u32) else {
            *group = ActivationGroup::not_finite();
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
