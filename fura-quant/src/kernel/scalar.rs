//! The specification, one output at a time.

use super::for_each_tile;
use crate::activations::{ActivationGroup, ActivationRows, ROUND, RowBlock, for_each_group, scales};
use crate::format::{Format, GROUP, TILE};
use crate::matrix::{PackedMatrix, code, minimum, scale};
use std::ops::Range;

pub(super) fn multiply(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    let format = w.format();
    for_each_tile(w, x, tiles, out, stride, |tile, x, mut target| {
        for row in 0..x.rows() {
            let mut acc = [0.0f32; TILE];
            for (g, block) in tile.chunks_exact(format.packed_group()).enumerate() {
                let group = x.group(row, g);
                for (lane, acc) in acc.iter_mut().enumerate() {
                    let dot: i32 =
                        (0..GROUP).map(|k| code(format, block, lane, k) * i32::from(group.codes[k])).sum();
                    *acc = (scale(format, block, lane) * group.scale).mul_add(dot as f32, *acc);
                    if format == Format::Q4Min {
                        *acc = minimum(format, block, lane).mul_add(group.weighted, *acc);
                    }
                }
            }
            target.store(row, 0, acc);
        }
    });
}

pub(super) fn quantize(x: &[f32], d_in: usize, groups: &mut [RowBlock]) {
    for_each_group(x, d_in, groups, |x, group| {
        let top = x.iter().map(|v| v.to_bits() & 0x7fff_ffff).fold(0, u32::max);
        let Some((inverse, scale)) = scales(top) else {
            *group = ActivationGroup::NOT_FINITE;
            return;
        };
        let mut sum = 0;
        for (code, v) in group.codes.iter_mut().zip(x) {
            let q = (v * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
            *code = q as i8;
            sum += q;
        }
        group.scale = scale;
        group.sum = sum;
        group.weighted = scale * sum as f32;
    });
}
