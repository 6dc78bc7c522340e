//! The specification, one output at a time.

use super::for_each_tile;
use crate::activations::ActivationRows;
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
                let group = &x.row(row)[g];
                for (lane, acc) in acc.iter_mut().enumerate() {
                    let dot: i32 = (0..GROUP).map(|k| code(format, block, lane, k) * i32::from(group.codes[k])).sum();
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
