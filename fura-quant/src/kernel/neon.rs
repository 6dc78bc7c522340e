//! ARM64: one register holds 4 output rows x 4 channels, so a tile is four quads of outputs. The eight weight
//! registers of 32 channels of a quad are unpacked once and used for all rows of a block.
//!
//! This file is the baseline, and the frame of the tiers that only replace the dot products. Baseline products are
//! summed in 16 bits: 4-bit codes over 32 channels of an output (16 x 15 x 127 = 30480), 8-bit codes over two products
//! (2 x 128 x 127 = 32512), then widened. A row of 16-bit codes is a pair of rows of bytes ([`crate::code`]), whose dot
//! products are put together.

use crate::ROW_BLOCK;
use crate::activations::{ActivationGroup, ROUND, RowBlock, for_each_group, scales};
use crate::code::{Code, RowPair};
use crate::kernel::{Q4, Q8};
use safe_unaligned_simd::aarch64::{vld1_u8, vld1q_f32, vld1q_s8, vld1q_u8, vst1q_s8};
use std::arch::aarch64::*;

/// Defines `multiply` for a tier: its features, the most rows it takes at once (a multiple of 4, at most 12), how it
/// unpacks 32 channels of a quad, and its exact dot products of these with a pair of rows; unpacking and dot products
/// apart for a single row. A macro, because a generic function would not have the features of what it calls.
macro_rules! kernel {
    (
        $features:literal, rows: $most:literal,
        pair: $weights:ident, $dots:ident, single: $single_weights:ident, $single_dots:ident
    ) => {
        #[target_feature(enable = $features)]
        pub(super) fn multiply<C: crate::Code>(
            w: &crate::matrix::PackedMatrix<'_>,
            x: crate::activations::ActivationRows<'_, C>,
            tiles: std::ops::Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            crate::kernel::by_format!(w.format(), run(w, x, tiles, out, stride))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn run<const F: u8, const K: usize, C: crate::Code>(
            w: &crate::matrix::PackedMatrix<'_>,
            x: crate::activations::ActivationRows<'_, C>,
            tiles: std::ops::Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            crate::kernel::for_each_tile(w, x, tiles, out, stride, |tile, x, mut target| {
                for k in 0..x.rows().div_ceil(crate::ROW_BLOCK) {
                    let (groups, rows) = x.block(k);
                    let most = $most / 2 * C::ROWS_OF_PAIR;
                    for row in (0..rows).step_by(most) {
                        let first = (k * crate::ROW_BLOCK, row);
                        let rows = most.min(rows - row);
                        let pairs = rows.div_ceil(C::ROWS_OF_PAIR);
                        // With few rows their codes fit the registers beside several quads' sums, and the tile is read
                        // as it lies.
                        if rows == 1 && !C::WIDE {
                            quads::<F, K, 1, 1, 4, C>(tile, groups, first, rows, &mut target);
                        } else if pairs == 1 {
                            quads::<F, K, 2, 1, 4, C>(tile, groups, first, rows, &mut target);
                        } else if $most == 4 || pairs == 2 {
                            quads::<F, K, 4, 2, 1, C>(tile, groups, first, rows, &mut target);
                        } else if pairs <= 4 {
                            quads::<F, K, 8, 4, 1, C>(tile, groups, first, rows, &mut target);
                        } else {
                            quads::<F, K, 12, 6, 1, C>(tile, groups, first, rows, &mut target);
                        }
                    }
                }
            });
        }

        /// Rows against all quads of a tile that have outputs, `Q` quads at a time; the rest as for `block`.
        #[inline]
        #[target_feature(enable = $features)]
        fn quads<const F: u8, const K: usize, const R: usize, const P: usize, const Q: usize, C: crate::Code>(
            tile: &[u8],
            groups: &[crate::RowBlock<C>],
            first: (usize, usize),
            rows: usize,
            target: &mut crate::kernel::Target<'_>,
        ) {
            for quad in (0..target.width.div_ceil(4)).step_by(Q) {
                block::<F, K, R, P, Q, C>(tile, quad, groups, first, rows, target);
            }
        }

        /// The `rows` rows from `first.1` on of the row block whose first row is `first.0`, computed as `R` rows, which
        /// are `P` pairs (or one single row), against quads `quad .. quad + Q` of a tile.
        #[inline]
        #[target_feature(enable = $features)]
        fn block<const F: u8, const K: usize, const R: usize, const P: usize, const Q: usize, C: crate::Code>(
            tile: &[u8],
            quad: usize,
            groups: &[crate::RowBlock<C>],
            first: (usize, usize),
            rows: usize,
            target: &mut crate::kernel::Target<'_>,
        ) {
            use crate::code::RowPair;
            use crate::kernel::neon::{halves, of_pairs};
            use crate::kernel::{Q4_MIN, packed_bytes, unrolled};
            use safe_unaligned_simd::aarch64::{vld1_f32, vld1_s32, vst1q_f32};
            use std::arch::aarch64::*;
            let mut acc = [[[vdupq_n_f32(0.0); 2]; P]; Q];
            let (codes, n) = packed_bytes(F, K);
            let pair = first.1 / C::ROWS_OF_PAIR;
            for (b, x) in tile.chunks_exact(n).zip(groups.chunks_exact(K)) {
                let (codes, rest) = b.split_at(codes);
                let (floats, _) = rest.as_chunks::<8>();
                let mut t = [[[vdupq_n_f32(0.0); 2]; P]; Q];
                for (codes, x) in codes.chunks_exact(codes.len() / K).zip(x) {
                    // Those of a block from row `first.1` on are at least P.
                    let pairs: &[RowPair; P] = x.codes.as_ref()[pair..].first_chunk().expect("P pairs");
                    let scales: [[f32; 2]; P] = of_pairs::<C, _, P>(&x.scale, pair);
                    let offsets: [[i32; 2]; P] = of_pairs::<C, _, P>(&x.offset, pair);
                    unrolled!(q < Q of 4, {
                        let d = halves(&floats[quad + q]);
                        let w = if R == 1 {
                            $single_weights::<F>(codes, quad + q)
                        } else {
                            $weights::<F>(codes, quad + q)
                        };
                        unrolled!(p < P of 6, {
                            let (scale, mut offset) = (vld1_f32(&scales[p]), vld1_s32(&offsets[p]));
                            if C::WIDE {
                                offset = vset_lane_s32::<0>(0, offset);
                            }
                            let mut dots = if R == 1 {
                                $single_dots::<F>(&w, &pairs[p], offset)
                            } else {
                                $dots::<F>(&w, &pairs[p], offset)
                            };
                            if C::WIDE {
                                dots[0] = vmlaq_n_s32(dots[1], dots[0], 255);
                            }
                            let dots = [vcvtq_f32_s32(dots[0]), vcvtq_f32_s32(dots[1])];
                            if K == 1 {
                                let (d0, d1) = (vmulq_lane_f32::<0>(d, scale), vmulq_lane_f32::<1>(d, scale));
                                acc[q][p][0] = vfmaq_f32(acc[q][p][0], d0, dots[0]);
                                acc[q][p][1] = vfmaq_f32(acc[q][p][1], d1, dots[1]);
                            } else {
                                t[q][p][0] = vfmaq_lane_f32::<0>(t[q][p][0], dots[0], scale);
                                t[q][p][1] = vfmaq_lane_f32::<1>(t[q][p][1], dots[1], scale);
                            }
                        });
                    });
                }
                if K > 1 {
                    unrolled!(q < Q of 4, {
                        let d = halves(&floats[quad + q]);
                        unrolled!(p < P of 6, {
                            acc[q][p][0] = vfmaq_f32(acc[q][p][0], d, t[q][p][0]);
                            acc[q][p][1] = vfmaq_f32(acc[q][p][1], d, t[q][p][1]);
                        });
                    });
                }
                if F == Q4_MIN {
                    let mut weighted: [[f32; 2]; P] = of_pairs::<C, _, P>(&x[0].weighted, pair);
                    for x in &x[1..] {
                        let next: [[f32; 2]; P] = of_pairs::<C, _, P>(&x.weighted, pair);
                        for (sum, next) in weighted.as_flattened_mut().iter_mut().zip(next.as_flattened()) {
                            *sum += next;
                        }
                    }
                    unrolled!(p < P of 6, {
                        let weighted = vld1_f32(&weighted[p]);
                        unrolled!(q < Q of 4, {
                            let m = halves(&floats[4 + quad + q]);
                            acc[q][p][0] = vfmaq_lane_f32::<0>(acc[q][p][0], m, weighted);
                            acc[q][p][1] = vfmaq_lane_f32::<1>(acc[q][p][1], m, weighted);
                        });
                    });
                }
            }
            for (q, acc) in acc.iter().enumerate() {
                // Of a pair that is one row, the second sums are of its low bytes, and nobody's.
                for r in 0..rows {
                    let acc = acc[r / C::ROWS_OF_PAIR][r % C::ROWS_OF_PAIR];
                    let mut lanes = [0.0f32; 4];
                    vst1q_f32(&mut lanes, acc);
                    target.store(first.0 + first.1 + r, 4 * (quad + q), lanes);
                }
            }
        }
    };
}
pub(super) use kernel;

/// What each row of `P` pairs has, from a pair on; twice where a pair is one row.
#[inline(always)]
pub(super) fn of_pairs<C: Code, T: Copy, const P: usize>(
    values: &[T; ROW_BLOCK],
    pair: usize,
) -> [[T; 2]; P] {
    if C::WIDE {
        values[pair..].first_chunk::<P>().expect("P rows").map(|value| [value; 2])
    } else {
        *values.as_chunks().0[pair..].first_chunk().expect("P pairs")
    }
}

// 8 weights + 8 activations + 4 sums + temporaries stay within 32 registers; more rows spill.
kernel!("neon", rows: 4, pair: weights, dots, single: weights, dots);

/// Unpacks 32 channels of a quad of outputs: register `j` holds channels `4 j .. 4 j + 4` of each. 4-bit codes stay
/// unsigned.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn weights<const F: u8>(codes: &[u8], quad: usize) -> [int8x16_t; 8] {
    // 64 bytes are 4 channels of the 16 outputs, 16 of them a quad's.
    let (parts, _) = codes.as_chunks::<16>();
    let (parts, _) = parts.as_chunks::<4>();
    let mut w = [vdupq_n_s8(0); 8];
    if F == Q8 {
        for j in 0..8 {
            w[j] = vreinterpretq_s8_u8(vld1q_u8(&parts[j][quad]));
        }
    } else {
        for j in 0..4 {
            [w[j], w[j + 4]] = nibbles(vld1q_u8(&parts[j][quad]));
        }
    }
    w
}

/// The low and the high nibbles.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn nibbles(both: uint8x16_t) -> [int8x16_t; 2] {
    [vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8::<4>(both))]
}

/// Four f16 as f32.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn halves(bytes: &[u8; 8]) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(vreinterpret_u16_u8(vld1_u8(bytes))))
}

/// The codes of a pair of rows: register `k` holds channels `8 k .. 8 k + 8` of the first, then of the second.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn activations(pair: &RowPair) -> [int8x16_t; 4] {
    let (codes, _) = pair.as_flattened().as_flattened().as_chunks::<16>();
    [vld1q_s8(&codes[0]), vld1q_s8(&codes[1]), vld1q_s8(&codes[2]), vld1q_s8(&codes[3])]
}

/// The dot products of a quad's weights with each row of a pair; `offset` is added for [`Q4`].
#[inline]
#[target_feature(enable = "neon")]
fn dots<const F: u8>(w: &[int8x16_t; 8], pair: &RowPair, offset: int32x2_t) -> [int32x4_t; 2] {
    let x = activations(pair);
    let mut sums = [vdupq_n_s32(0); 2];
    if F == Q4 {
        sums = [vdupq_lane_s32::<0>(offset), vdupq_lane_s32::<1>(offset)];
    }
    [sum::<F, 0, 1>(sums[0], w, &x), sum::<F, 2, 3>(sums[1], w, &x)]
}

/// Adds the dot products with the row whose channels `8 k .. 8 k + 8` lie in lanes `A` and `B` of register `k`.
#[inline]
#[target_feature(enable = "neon")]
fn sum<const F: u8, const A: i32, const B: i32>(
    sum: int32x4_t,
    w: &[int8x16_t; 8],
    x: &[int8x16_t; 4],
) -> int32x4_t {
    if F == Q8 {
        let (mut low, mut high) = (vdupq_n_s32(0), vdupq_n_s32(0));
        for k in 0..4 {
            let [a, b] = broadcast::<A, B>(x[k]);
            let pair = vmull_s8(vget_low_s8(w[2 * k]), vget_low_s8(a));
            low = vpadalq_s16(low, vmlal_s8(pair, vget_low_s8(w[2 * k + 1]), vget_low_s8(b)));
            high = vpadalq_s16(high, vmlal_high_s8(vmull_high_s8(w[2 * k], a), w[2 * k + 1], b));
        }
        return vpaddq_s32(low, high);
    }
    let [a, b] = broadcast::<A, B>(x[0]);
    let mut low = vmlal_s8(vmull_s8(vget_low_s8(w[0]), vget_low_s8(a)), vget_low_s8(w[1]), vget_low_s8(b));
    let mut high = vmlal_high_s8(vmull_high_s8(w[0], a), w[1], b);
    for k in 1..4 {
        let [a, b] = broadcast::<A, B>(x[k]);
        low = vmlal_s8(low, vget_low_s8(w[2 * k]), vget_low_s8(a));
        high = vmlal_high_s8(high, w[2 * k], a);
        low = vmlal_s8(low, vget_low_s8(w[2 * k + 1]), vget_low_s8(b));
        high = vmlal_high_s8(high, w[2 * k + 1], b);
    }
    // Two of the four 16-bit sums of an output are added in 16 bits, which holds a whole group.
    vpadalq_s16(sum, vpaddq_s16(low, high))
}

/// Four channels from lane `A` and four from lane `B`, four times each.
#[inline]
#[target_feature(enable = "neon")]
fn broadcast<const A: i32, const B: i32>(x: int8x16_t) -> [int8x16_t; 2] {
    let x = vreinterpretq_s32_s8(x);
    [vreinterpretq_s8_s32(vdupq_laneq_s32::<A>(x)), vreinterpretq_s8_s32(vdupq_laneq_s32::<B>(x))]
}

/// For every tier.
#[target_feature(enable = "neon")]
pub(super) fn quantize(x: &[f32], d_in: usize, groups: &mut [RowBlock]) {
    for_each_group(x, d_in, groups, |x, group| {
        let (x, _) = x.as_chunks::<4>();
        let mut top = vdupq_n_u32(0);
        for x in x {
            top = vmaxq_u32(top, vbicq_u32(vreinterpretq_u32_f32(vld1q_f32(x)), vdupq_n_u32(0x8000_0000)));
        }
        let Some((inverse, scale)) = scales::<i8>(vmaxvq_u32(top)) else {
            *group = ActivationGroup::not_finite();
            return;
        };
        // The low bits of the shifted values are the codes, in two's complement: keep a byte of each.
        let (codes, _) = group.codes.as_chunks_mut::<16>();
        let mut pairs = vdupq_n_s16(0);
        for (k, codes) in codes.iter_mut().enumerate() {
            let a = vuzp1q_s16(shifted(&x[4 * k], inverse), shifted(&x[4 * k + 1], inverse));
            let b = vuzp1q_s16(shifted(&x[4 * k + 2], inverse), shifted(&x[4 * k + 3], inverse));
            let bytes = vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b));
            vst1q_s8(codes, bytes);
            pairs = vpadalq_s8(pairs, bytes);
        }
        let sum = vaddlvq_s16(pairs);
        group.scale = scale;
        group.sum = sum;
        group.weighted = scale * sum as f32;
    });
}

/// Four values times `inverse`, rounded: the low bits of each 32.
#[inline]
#[target_feature(enable = "neon")]
fn shifted(x: &[f32; 4], inverse: f32) -> int16x8_t {
    vreinterpretq_s16_f32(vaddq_f32(vmulq_n_f32(vld1q_f32(x), inverse), vdupq_n_f32(ROUND)))
}
