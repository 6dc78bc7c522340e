//! ARM64: one register holds 4 output rows x 4 channels, so a tile is done in four quads of outputs. The eight
//! weight registers of a quad's group are unpacked once and used for all rows of a block.
//!
//! This file is the baseline, and the frame of the tiers that only replace the dot product of a group. Baseline
//! products are summed in 16 bits: 4-bit codes over the whole group (8 x 15 x 127 = 15240), 8-bit codes over
//! two registers (2 x 128 x 127 = 32512), then widened.

use crate::activations::RowPair;
use crate::kernel::{Q4, Q8};
use safe_unaligned_simd::aarch64::{vld1_s8, vld1_u8, vld1q_u8};
use std::arch::aarch64::*;

/// Defines `multiply` for a tier from its features, the rows it takes at once (an even number, and how many pairs that
/// is) and its exact dot products of 32 channels with a pair of rows, one for 4-bit and one for 8-bit weights. A
/// macro, because a generic function would not have the features of what it calls.
macro_rules! kernel {
    ($features:literal, $rows:literal, $pairs:literal, $dot4:ident, $dot8:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn multiply(
            w: &crate::matrix::PackedMatrix<'_>,
            x: crate::activations::ActivationRows<'_>,
            tiles: std::ops::Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            crate::kernel::by_format!(w.format(), run(w, x, tiles, out, stride))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn run<const F: u8, const K: usize>(
            w: &crate::matrix::PackedMatrix<'_>,
            x: crate::activations::ActivationRows<'_>,
            tiles: std::ops::Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            crate::kernel::for_each_tile(w, x, tiles, out, stride, |tile, x, mut target| {
                for quad in 0..target.width.div_ceil(4) {
                    for k in 0..x.rows().div_ceil(crate::ROW_BLOCK) {
                        let (groups, rows) = x.block(k);
                        let first = k * crate::ROW_BLOCK;
                        for row in (0..rows).step_by($rows) {
                            let rows = $rows.min(rows - row);
                            if rows > 2 {
                                block::<F, K, $rows, $pairs>(
                                    tile,
                                    quad,
                                    groups,
                                    row,
                                    first,
                                    rows,
                                    &mut target,
                                );
                            } else {
                                block::<F, K, 2, 1>(tile, quad, groups, row, first, rows, &mut target);
                            }
                        }
                    }
                }
            });
        }

        /// Rows `row .. row + rows` of the row block that starts at row `first`, computed as `R`, which are `P` pairs,
        /// against a quad of a tile.
        #[inline]
        #[target_feature(enable = $features)]
        fn block<const F: u8, const K: usize, const R: usize, const P: usize>(
            tile: &[u8],
            quad: usize,
            groups: &[crate::RowBlock],
            row: usize,
            first: usize,
            rows: usize,
            target: &mut crate::kernel::Target<'_>,
        ) {
            use crate::activations::RowPair;
            use crate::kernel::neon::{add_group, halves, weights};
            use crate::kernel::{Q4_MIN, Q8, unrolled, packed_bytes, weighted};
            use std::arch::aarch64::{vcvtq_f32_s32, vdupq_n_f32, vfmaq_f32, vfmaq_n_f32};
            let mut acc = [vdupq_n_f32(0.0); R];
            let (codes, n) = packed_bytes(F, K);
            for (b, x) in tile.chunks_exact(n).zip(groups.chunks_exact(K)) {
                let (codes, rest) = b.split_at(codes);
                let (floats, _) = rest.as_chunks::<8>();
                let d = halves(&floats[quad]);
                let mut t = [vdupq_n_f32(0.0); R];
                for (codes, x) in codes.chunks_exact(codes.len() / K).zip(x) {
                    // The block has 6 pairs and 12 rows, and row + R <= 12, so neither conversion can fail.
                    let pairs: &[RowPair; P] = x.codes[row / 2..].first_chunk().expect("P pairs");
                    let scale: &[f32; R] = x.scale[row..].first_chunk().expect("R rows");
                    let w = weights::<F>(codes, quad);
                    unrolled!(p < P of 3, {
                        let dots = if F == Q8 { $dot8(&w, &pairs[p]) } else { $dot4(&w, &pairs[p]) };
                        let (r, s) = (2 * p, 2 * p + 1);
                        if K == 1 {
                            acc[r] = add_group(acc[r], d, scale[r], dots[0]);
                            acc[s] = add_group(acc[s], d, scale[s], dots[1]);
                        } else {
                            t[r] = vfmaq_n_f32(t[r], vcvtq_f32_s32(dots[0]), scale[r]);
                            t[s] = vfmaq_n_f32(t[s], vcvtq_f32_s32(dots[1]), scale[s]);
                        }
                    });
                }
                if K > 1 {
                    unrolled!(r < R of 6, { acc[r] = vfmaq_f32(acc[r], d, t[r]) });
                }
                if F == Q4_MIN {
                    let m = halves(&floats[4 + quad]);
                    let weighted = weighted::<K>(x);
                    // As above.
                    let weighted: &[f32; R] = weighted[row..].first_chunk().expect("R rows");
                    unrolled!(r < R of 6, { acc[r] = vfmaq_n_f32(acc[r], m, weighted[r]) });
                }
            }
            for (r, acc) in acc[..rows].iter().enumerate() {
                let mut lanes = [0.0f32; 4];
                safe_unaligned_simd::aarch64::vst1q_f32(&mut lanes, *acc);
                target.store(first + row + r, 4 * quad, lanes);
            }
        }
    };
}
pub(super) use kernel;

// 8 weights + 8 activations + 4 accumulators + temporaries stay within 32 registers; more rows spill.
kernel!("neon", 4, 2, dot4, dot8);

/// Unpacks 32 channels of a quad of outputs: register `j` holds channels `4 j .. 4 j + 4` of each.
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
        let offset = vdupq_n_s8(if F == Q4 { 8 } else { 0 });
        for j in 0..4 {
            let both = vld1q_u8(&parts[j][quad]);
            let (low, high) = (vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8::<4>(both));
            w[j] = vsubq_s8(vreinterpretq_s8_u8(low), offset);
            w[j + 4] = vsubq_s8(vreinterpretq_s8_u8(high), offset);
        }
    }
    w
}

/// Four f16 as f32.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn halves(bytes: &[u8; 8]) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(vreinterpret_u16_u8(vld1_u8(bytes))))
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn add_group(acc: float32x4_t, d: float32x4_t, scale: f32, dot: int32x4_t) -> float32x4_t {
    vfmaq_f32(acc, vmulq_n_f32(d, scale), vcvtq_f32_s32(dot))
}

/// The codes of a pair of rows: register `k` holds channels `8 k .. 8 k + 8` of the first, then of the second.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn activations(pair: &RowPair) -> [int8x16_t; 4] {
    let load = |k: usize| {
        let [first, second] = &pair[k];
        vcombine_s8(vld1_s8(first), vld1_s8(second))
    };
    [load(0), load(1), load(2), load(3)]
}

/// For each row of a pair: register `j` holds channels `4 j .. 4 j + 4`, four times.
#[inline]
#[target_feature(enable = "neon")]
fn broadcast(pair: &RowPair) -> [[int8x16_t; 8]; 2] {
    let mut x = [[vdupq_n_s8(0); 8]; 2];
    for (k, both) in activations(pair).into_iter().enumerate() {
        let both = vreinterpretq_s32_s8(both);
        x[0][2 * k] = vreinterpretq_s8_s32(vdupq_laneq_s32::<0>(both));
        x[0][2 * k + 1] = vreinterpretq_s8_s32(vdupq_laneq_s32::<1>(both));
        x[1][2 * k] = vreinterpretq_s8_s32(vdupq_laneq_s32::<2>(both));
        x[1][2 * k + 1] = vreinterpretq_s8_s32(vdupq_laneq_s32::<3>(both));
    }
    x
}

#[inline]
#[target_feature(enable = "neon")]
fn dot4(w: &[int8x16_t; 8], pair: &RowPair) -> [int32x4_t; 2] {
    let x = broadcast(pair);
    [sum4(w, &x[0]), sum4(w, &x[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn sum4(w: &[int8x16_t; 8], x: &[int8x16_t; 8]) -> int32x4_t {
    let mut low = vmull_s8(vget_low_s8(w[0]), vget_low_s8(x[0]));
    let mut high = vmull_high_s8(w[0], x[0]);
    for j in 1..8 {
        low = vmlal_s8(low, vget_low_s8(w[j]), vget_low_s8(x[j]));
        high = vmlal_high_s8(high, w[j], x[j]);
    }
    vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high))
}

#[inline]
#[target_feature(enable = "neon")]
fn dot8(w: &[int8x16_t; 8], pair: &RowPair) -> [int32x4_t; 2] {
    let x = broadcast(pair);
    [sum8(w, &x[0]), sum8(w, &x[1])]
}

#[inline]
#[target_feature(enable = "neon")]
fn sum8(w: &[int8x16_t; 8], x: &[int8x16_t; 8]) -> int32x4_t {
    let (mut low, mut high) = (vdupq_n_s32(0), vdupq_n_s32(0));
    for j in [0, 2, 4, 6] {
        let pair = vmull_s8(vget_low_s8(w[j]), vget_low_s8(x[j]));
        low = vpadalq_s16(low, vmlal_s8(pair, vget_low_s8(w[j + 1]), vget_low_s8(x[j + 1])));
        high = vpadalq_s16(high, vmlal_high_s8(vmull_high_s8(w[j], x[j]), w[j + 1], x[j + 1]));
    }
    vpaddq_s32(low, high)
}
