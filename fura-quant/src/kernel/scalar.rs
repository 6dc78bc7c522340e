//! The specification, one output at a time.

use super::for_each_tile;
use crate::activations::{ActivationGroup, ActivationRows, ROUND, RowBlock, for_each_group, scales};
use crate::code::Code;
use crate::format::{GROUP, TILE};
use crate::matrix::{PackedMatrix, code, minimum, scale};
use std::ops::Range;

pub(super) fn multiply<C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    let format = w.format();
    let (n, parts) = (format.packed_group(), format.group() / GROUP);
    for_each_tile(w, x, tiles, out, stride, |tile, x, mut target| {
        for row in 0..x.rows() {
            let mut acc = [0.0f32; TILE];
            for (g, block) in tile.chunks_exact(n).enumerate() {
                let group = |k| x.group(row, g * parts + k);
                for (lane, acc) in acc.iter_mut().enumerate() {
                    let dot = |k: usize, codes: &[C; GROUP]| -> f32 {
                        let code = |i| code(format, block, lane, k * GROUP + i);
                        codes.iter().enumerate().map(|(i, x)| code(i) * (*x).into()).sum::<i32>() as f32
                    };
                    let d = scale(format, block, lane);
                    let mut weighted = group(0).weighted;
                    if parts == 1 {
                        *acc = (d * group(0).scale).mul_add(dot(0, &group(0).codes), *acc);
                    } else {
                        let mut t = 0.0f32;
                        for k in 0..parts {
                            t = group(k).scale.mul_add(dot(k, &group(k).codes), t);
                        }
                        *acc = d.mul_add(t, *acc);
                        for k in 1..parts {
                            weighted += group(k).weighted;
                        }
                    }
                    if format.has_minimum() {
                        *acc = minimum(format, block, lane).mul_add(weighted, *acc);
                    }
                }
            }
            target.store(row, 0, acc);
        }
    });
}

pub(super) fn quantize<C: Code>(x: &[f32], d_in: usize, groups: &mut [RowBlock<C>]) {
    for_each_group(x, d_in, groups, |x, group| {
        let top = x.iter().map(|v| v.to_bits() & 0x7fff_ffff).fold(0, u32::max);
        let Some((inverse, scale)) = scales::<C>(top) else {
            *group = ActivationGroup::not_finite();
            return;
        };
        let mut sum = 0;
        for (code, v) in group.codes.iter_mut().zip(x) {
            let q = (v * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
            *code = C::from_integer(q);
            sum += q;
        }
        group.scale = scale;
        group.sum = sum;
        group.weighted = scale * sum as f32;
    });
}
