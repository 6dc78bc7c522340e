//! ARM64: one register holds 4 output rows x 4 channels, so a tile is done in four quads of outputs. The eight
//! weight registers of a quad's group are unpacked once and used for all rows of a block.
//!
//! This file is the baseline, and the frame of the tiers that only replace the dot product of a group. Baseline
//! products are summed in 16 bits: 4-bit codes over the whole group (8 x 15 x 127 = 15240), 8-bit codes over
//! two registers (2 x 128 x 127 = 32512), then widened.
//!
//! There is no `smmla` (i8mm) tier. It multiplies 2 rows x 8 channels by 2 outputs x 8 channels, and neither the
//! tiles (4 outputs x 4 channels) nor the rows lie like that: for 6 rows x 4 outputs of a group it takes 24 `smmla`
//! and 26 permutes (8 of weights, 12 of activations, 6 of results) where `sdot` takes 48 and no permutes.

use crate::format::{Format, GROUP};
use safe_unaligned_simd::aarch64::{vld1_u8, vld1q_s8, vld1q_u8};
use std::arch::aarch64::*;

pub(super) const Q4: u8 = 0;
pub(super) const Q4_MIN: u8 = 1;
pub(super) const Q8: u8 = 2;

/// Defines `multiply` for a tier from its features, the rows it takes at once (4 to 12) and its exact dot products
/// of a group, one for 4-bit and one for 8-bit weights. A macro, because a generic function would not have the
/// features of what it calls.
macro_rules! kernel {
    ($features:literal, $rows:literal, $dot4:ident, $dot8:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn multiply(
            w: &crate::matrix::PackedMatrix<'_>,
            x: crate::activations::ActivationRows<'_>,
            tiles: std::ops::Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            use crate::format::Format;
            use crate::kernel::neon::{Q4, Q4_MIN, Q8};
            match w.format() {
                Format::Q4 => run::<Q4>(w, x, tiles, out, stride),
                Format::Q4Min => run::<Q4_MIN>(w, x, tiles, out, stride),
                Format::Q8 => run::<Q8>(w, x, tiles, out, stride),
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn run<const F: u8>(
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
                        let mut row = 0;
                        while row + $rows <= rows {
                            block::<F, $rows>(tile, quad, groups, row, first, &mut target);
                            row += $rows;
                        }
                        while row + 4 <= rows {
                            block::<F, 4>(tile, quad, groups, row, first, &mut target);
                            row += 4;
                        }
                        match rows - row {
                            1 => block::<F, 1>(tile, quad, groups, row, first, &mut target),
                            2 => block::<F, 2>(tile, quad, groups, row, first, &mut target),
                            3 => block::<F, 3>(tile, quad, groups, row, first, &mut target),
                            _ => {}
                        }
                    }
                }
            });
        }

        /// Rows `row .. row + R` of the row block that starts at row `first`, against a quad of a tile.
        #[inline]
        #[target_feature(enable = $features)]
        fn block<const F: u8, const R: usize>(
            tile: &[u8],
            quad: usize,
            groups: &[crate::RowBlock],
            row: usize,
            first: usize,
            target: &mut crate::kernel::Target<'_>,
        ) {
            use crate::kernel::each_row;
            use crate::kernel::neon::{self, Q4_MIN, Q8};
            use std::arch::aarch64::{vdupq_n_f32, vfmaq_n_f32};
            let mut acc = [vdupq_n_f32(0.0); R];
            for (b, x) in tile.chunks_exact(neon::packed_group(F)).zip(groups) {
                // The block has 12 rows and row + R <= 12, so the conversion cannot fail.
                let x: &[crate::ActivationGroup; R] = x[row..row + R].first_chunk().expect("R rows");
                let neon::Weights { codes, d, m } = neon::weights::<F>(b, quad);
                each_row!(r < R, {
                    let dot = if F == Q8 { $dot8(&codes, &x[r].codes) } else { $dot4(&codes, &x[r].codes) };
                    acc[r] = neon::add_group(acc[r], d, x[r].scale, dot);
                    if F == Q4_MIN {
                        acc[r] = vfmaq_n_f32(acc[r], m, x[r].weighted);
                    }
                });
            }
            for (r, acc) in acc.iter().enumerate() {
                let mut lanes = [0.0f32; 4];
                safe_unaligned_simd::aarch64::vst1q_f32(&mut lanes, *acc);
                target.store(first + row + r, 4 * quad, lanes);
            }
        }
    };
}
pub(super) use kernel;

// 8 weights + 8 activations + 4 accumulators + temporaries stay within 32 registers; more rows spill.
kernel!("neon", 4, dot4, dot8);

/// A group of four outputs: register `j` of the codes holds channels `4 j .. 4 j + 4` of each.
pub(super) struct Weights {
    pub(super) codes: [int8x16_t; 8],
    pub(super) d: float32x4_t,
    pub(super) m: float32x4_t,
}

pub(super) const fn packed_group(format: u8) -> usize {
    match format {
        Q4 => Format::Q4.packed_group(),
        Q4_MIN => Format::Q4Min.packed_group(),
        _ => Format::Q8.packed_group(),
    }
}

/// Unpacks a quad of a packed group; the minima are 0 for formats without.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn weights<const F: u8>(group: &[u8], quad: usize) -> Weights {
    let (bytes, floats) = group.split_at(if F == Q8 { 512 } else { 256 });
    // 64 bytes are 4 channels of the 16 outputs, 16 of them a quad's.
    let (parts, _) = bytes.as_chunks::<16>();
    let (parts, _) = parts.as_chunks::<4>();
    let mut codes = [vdupq_n_s8(0); 8];
    if F == Q8 {
        for j in 0..8 {
            codes[j] = vreinterpretq_s8_u8(vld1q_u8(&parts[j][quad]));
        }
    } else {
        let offset = vdupq_n_s8(if F == Q4 { 8 } else { 0 });
        for j in 0..4 {
            let both = vld1q_u8(&parts[j][quad]);
            let (low, high) = (vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8::<4>(both));
            codes[j] = vsubq_s8(vreinterpretq_s8_u8(low), offset);
            codes[j + 4] = vsubq_s8(vreinterpretq_s8_u8(high), offset);
        }
    }
    let (floats, _) = floats.as_chunks::<8>();
    let m = if F == Q4_MIN { halves(&floats[4 + quad]) } else { vdupq_n_f32(0.0) };
    Weights { codes, d: halves(&floats[quad]), m }
}

/// Four f16 as f32.
#[inline]
#[target_feature(enable = "neon")]
fn halves(bytes: &[u8; 8]) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(vreinterpret_u16_u8(vld1_u8(bytes))))
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn add_group(acc: float32x4_t, d: float32x4_t, scale: f32, dot: int32x4_t) -> float32x4_t {
    vfmaq_f32(acc, vmulq_n_f32(d, scale), vcvtq_f32_s32(dot))
}

/// The activation codes of a group, 16 channels a register.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn activations(codes: &[i8; GROUP]) -> [int8x16_t; 2] {
    let (halves, _) = codes.as_chunks::<16>();
    [vld1q_s8(&halves[0]), vld1q_s8(&halves[1])]
}

/// Register `j` holds channels `4 j .. 4 j + 4`, four times.
#[inline]
#[target_feature(enable = "neon")]
fn broadcast(codes: &[i8; GROUP]) -> [int8x16_t; 8] {
    let [a, b] = activations(codes).map(|codes| vreinterpretq_s32_s8(codes));
    [
        vdupq_laneq_s32::<0>(a),
        vdupq_laneq_s32::<1>(a),
        vdupq_laneq_s32::<2>(a),
        vdupq_laneq_s32::<3>(a),
        vdupq_laneq_s32::<0>(b),
        vdupq_laneq_s32::<1>(b),
        vdupq_laneq_s32::<2>(b),
        vdupq_laneq_s32::<3>(b),
    ]
    .map(|four| vreinterpretq_s8_s32(four))
}

#[inline]
#[target_feature(enable = "neon")]
fn dot4(w: &[int8x16_t; 8], codes: &[i8; GROUP]) -> int32x4_t {
    let x = broadcast(codes);
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
fn dot8(w: &[int8x16_t; 8], codes: &[i8; GROUP]) -> int32x4_t {
    let x = broadcast(codes);
    let (mut low, mut high) = (vdupq_n_s32(0), vdupq_n_s32(0));
    for j in [0, 2, 4, 6] {
        let pair = vmull_s8(vget_low_s8(w[j]), vget_low_s8(x[j]));
        low = vpadalq_s16(low, vmlal_s8(pair, vget_low_s8(w[j + 1]), vget_low_s8(x[j + 1])));
        high = vpadalq_s16(high, vmlal_high_s8(vmull_high_s8(w[j], x[j]), w[j + 1], x[j + 1]));
    }
    vpaddq_s32(low, high)
}
