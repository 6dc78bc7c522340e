//! A few rows: how fast weights come from memory is all that counts.
//!
//! What is too large for the second-level cache is read as four streams, a quarter of the tiles each and a KiB of one
//! after a KiB of the next. A processor's prefetchers follow a stream to the end of its page of 4 KiB at most, so several
//! keep more of memory busy than one: 12 GB/s instead of 9 for plain reading, where this was measured.

use super::panel::{ROWS, RowSums, prefetch};
use super::{Target, packed_bytes};
use crate::activations::{ActivationRows, RowBlock};
use crate::code::Code;
use crate::format::TILE;
use crate::matrix::PackedMatrix;
use std::ops::Range;

const STREAMS: usize = 4;
/// Activation groups of a step with several streams: a multiple of every weight group's.
const STEP: usize = 4;
/// Bytes from which several streams pay.
const LARGE: usize = 4 << 20;
/// Prefetches what follows a packed group a KiB later: the next step of its stream. A pass does so group by group, since
/// more at once would keep its own loads waiting.
#[inline(always)]
pub(super) fn prefetch_ahead(group: &[u8]) {
    prefetch(group.as_ptr().wrapping_add(1024), group.len().div_ceil(64));
}

/// Walks the tiles for the rows of one row block. `pass(packed, x, sums)` adds the products of some groups of a tile to
/// its sums; there are at most four rows.
#[inline(always)]
pub(super) fn for_each_step<const F: u8, const K: usize, C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
    pass: impl Fn(&[u8], &[RowBlock<C>], &mut RowSums<1>),
) {
    let (x, rows) = x.block(0);
    let n = packed_bytes(F, K).1;
    let large = tiles.len() * w.tile(tiles.start).len() >= LARGE;
    let (streams, step) = if large { (STREAMS, STEP) } else { (1, x.len()) };
    let part = tiles.len().div_ceil(streams);
    for first in tiles.start..tiles.start + part {
        let streams = (first..tiles.end).step_by(part);
        let mut sums = [[[[0.0; TILE]]; ROWS]; STREAMS];
        for start in (0..x.len()).step_by(step) {
            let x = &x[start..(start + step).min(x.len())];
            for (tile, sums) in streams.clone().zip(&mut sums) {
                let groups = &w.tile(tile)[start / K * n..][..x.len() / K * n];
                pass(groups, x, sums);
            }
        }
        for (tile, sums) in streams.zip(&sums) {
            let column = (tile - tiles.start) * TILE;
            let width = TILE.min(w.d_out() - tile * TILE);
            let mut target = Target { out: &mut out[column..], stride, width };
            for (row, [sums]) in sums[..rows].iter().enumerate() {
                target.store(row, 0, *sums);
            }
        }
    }
}
