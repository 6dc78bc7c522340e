//! Many rows: a piece of a weight tile is unpacked once and used for all rows of a panel.
//!
//! Unpacking costs as much as multiplying with one or two rows, so with more rows it is done ahead, into a buffer on
//! the stack that stays in the first-level cache. Rows go by in panels that stay in the second. Sums between pieces
//! are kept as f32, which changes no bit.

use super::{Q4_MIN, Q8, packed_bytes};
use crate::activations::{ActivationRows, ROW_BLOCK, RowBlock};
use crate::code::{Code, RowPair};
use crate::format::TILE;
use crate::matrix::PackedMatrix;
use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::mem::MaybeUninit;
use std::ops::Range;

/// One f32 for each output of a tile.
pub(super) type Lanes = [f32; TILE];

/// Rows of a pass. For both instruction sets more would not be faster, and fewer of them are wasted at the end.
pub(super) const ROWS: usize = 4;
/// Activation groups of a piece at most: a multiple of every weight group's. With more, sums are loaded and stored less
/// often; three tiles of 20 groups still fit a first-level cache of 48 KiB.
const PIECE: usize = 20;
/// Row blocks of a panel at most.
const BLOCKS: usize = 24;
/// Bytes of activations that a panel may take in the second-level cache, as far as one row block allows. Where that
/// cache is smaller they come from the third: every group of a row is used for three tiles, so a few bytes a cycle do.
const PANEL_BYTES: usize = 1 << 20;
/// Bytes of an unpacked piece of a tile.
const PIECE_BYTES: usize = PIECE * (512 + 2 * size_of::<Lanes>());

/// Bytes of a group of 16 rows: its codes, and all of it. An unpacked group has one byte a code, byte `64 j + 4 r + i`
/// being channel `4 j + i` of row `r` for each 32 channels, then the scales and minima as f32.
#[inline(always)]
pub(super) const fn group_bytes(kind: u8, parts: usize, packed: bool) -> (usize, usize) {
    match kind {
        _ if packed => packed_bytes(kind, parts),
        Q4_MIN => (512 * parts, 512 * parts + 2 * size_of::<Lanes>()),
        _ => (512 * parts, 512 * parts + size_of::<Lanes>()),
    }
}

/// Unpacked pieces of `T` tiles, group by group side by side. Aligned, since loads that cross a cache line cost two.
#[repr(align(64))]
struct Pieces<const T: usize>([[u8; PIECE_BYTES]; T]);

/// Sums of the row blocks of a panel.
#[repr(align(64))]
struct Sums<const T: usize>([MaybeUninit<[RowSums<T>; ROW_BLOCK / ROWS]>; BLOCKS]);

/// Sums of the rows of a pass: rows, tiles, outputs.
pub(super) type RowSums<const T: usize> = [[Lanes; T]; ROWS];

/// Rows of a pass, within a row block.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    codes: &'a [RowPair],
    pub scale: &'a [f32; ROWS],
    pub offset: &'a [i32; ROWS],
}

impl<'a> Rows<'a> {
    /// Rows `4 quad .. 4 quad + 4`.
    #[inline(always)]
    pub fn new<C: Code>(x: &'a RowBlock<C>, quad: usize) -> Self {
        let pairs = ROWS / C::ROWS_OF_PAIR;
        Self {
            codes: &x.codes.as_ref()[quad * pairs..][..pairs],
            scale: &x.scale.as_chunks().0[quad],
            offset: &x.offset.as_chunks().0[quad],
        }
    }

    /// The codes of channels `4 j .. 4 j + 4` of a row of 8-bit codes.
    #[inline(always)]
    pub fn four(&self, row: usize, j: usize) -> &'a [i8; 4] {
        &self.codes[row / 2][j / 2][row % 2].as_chunks().0[j % 2]
    }

    /// The codes of channels `4 j` and `4 j + 2` of a row of 16-bit codes, or of the channels after these.
    #[inline(always)]
    pub fn two(&self, row: usize, j: usize, odd: usize) -> &'a [i8; 4] {
        &self.codes[row][j / 2][j % 2].as_chunks().0[odd]
    }
}

/// Packed bytes that will be needed next, one stretch in each of `T` tiles: asked for a few lines with each group of a
/// pass, since more at once would keep the loads of the pass waiting.
#[derive(Clone, Copy)]
pub(super) struct Ahead<const T: usize> {
    start: [*const u8; T],
    /// Lines of each stretch, and with each group.
    lines: usize,
    each: usize,
}

impl<const T: usize> Ahead<T> {
    /// Stretches of `bytes`, asked for by `groups` in all.
    fn new(start: [*const u8; T], bytes: usize, groups: usize) -> Self {
        let lines = bytes.div_ceil(64);
        Self { start, lines, each: lines.div_ceil(groups) }
    }

    /// What is left after so many groups, if anything is.
    fn from(self, groups: usize) -> Option<Self> {
        let done = groups * self.each;
        (done < self.lines).then(|| Self { start: self.start.map(|p| p.wrapping_add(64 * done)), ..self })
    }

    /// That of one tile.
    pub fn of(&self, tile: usize) -> Ahead<1> {
        Ahead { start: [self.start[tile]], lines: self.lines, each: self.each }
    }
}

/// What a pass asks for while it goes from group to group: of itself nothing, so that a pass without it has no code for it.
pub(super) trait Lookahead: Copy {
    fn prefetch(&mut self);
}

impl Lookahead for () {
    #[inline(always)]
    fn prefetch(&mut self) {}
}

impl<const T: usize> Lookahead for Ahead<T> {
    /// In the second-level cache, since unpacked pieces fill most of the first.
    #[inline(always)]
    fn prefetch(&mut self) {
        for _ in 0..self.each {
            for start in &mut self.start {
                prefetch_second(*start);
                *start = start.wrapping_add(64);
            }
        }
    }
}

/// Walks panels of rows, then `T` tiles at a time (their number is a multiple of that), then pieces of the tiles, then
/// the rows of a pass. `halves` converts 16 f16. `pass(tiles, x, quad, rows, sums)` adds the products of rows `4 quad .. 4
/// quad + 4` of a row block, of which `rows` are there, with the unpacked pieces of `T` tiles to their sums. Bits of `flip`
/// are flipped in 8-bit codes.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn for_each_piece<const F: u8, const K: usize, const T: usize, C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
    flip: u8,
    halves: impl Fn(&[u8; 32]) -> Lanes,
    pass: impl Fn(&[u8], &[RowBlock<C>], usize, usize, Option<Ahead<T>>, &mut RowSums<T>),
) {
    let groups = w.d_in() / crate::GROUP;
    let (packed, unpacked) = (packed_bytes(F, K).1, group_bytes(F, K, false).1);
    // Panels and pieces of even size: a last panel of few rows would unpack as much as the others, and a last piece of
    // few groups would move as many sums.
    let blocks = (PANEL_BYTES / (groups * size_of::<RowBlock<C>>())).clamp(1, BLOCKS);
    let panels = x.rows().div_ceil(blocks * ROW_BLOCK);
    let panel = x.rows().div_ceil(panels).next_multiple_of(ROW_BLOCK);
    let piece = groups.div_ceil(groups.div_ceil(PIECE)).next_multiple_of(K);
    let mut pieces = Pieces([[0; PIECE_BYTES]; T]);
    let mut sums = Sums([MaybeUninit::uninit(); BLOCKS]);
    for first in (0..x.rows()).step_by(panel) {
        let rows = panel.min(x.rows() - first);
        let x = x.slice(first, rows);
        let sums = &mut sums.0[..rows.div_ceil(ROW_BLOCK)];
        for tile in tiles.clone().step_by(T) {
            let width = (T * TILE).min(w.d_out() - tile * TILE);
            for start in (0..groups).step_by(piece) {
                let n = piece.min(groups - start);
                let pieces = &mut pieces.0.as_flattened_mut()[..n / K * T * unpacked];
                let end = start + n;
                for t in 0..T {
                    let from = w.tile(tile + t)[start / K * packed..].chunks_exact(packed);
                    for (from, to) in from.zip(pieces.chunks_exact_mut(unpacked).skip(t).step_by(T)) {
                        unpack::<F, K>(from, to, flip, &halves);
                    }
                }
                // What follows: the next piece of these tiles, or the first of the next ones.
                let (next, from) = if end < groups { (0, end / K * packed) } else { (T, 0) };
                let tile_bytes = groups / K * packed;
                let ahead = Ahead::new(
                    std::array::from_fn(|t| {
                        w.tile(tile).as_ptr().wrapping_add((t + next) * tile_bytes + from)
                    }),
                    piece / K * packed,
                    n / K * rows.div_ceil(ROWS),
                );
                for (k, sums) in sums.iter_mut().enumerate() {
                    let (x, rows) = x.block(k);
                    let sums = match start {
                        0 => sums.write([[[[0.0; TILE]; T]; ROWS]; ROW_BLOCK / ROWS]),
                        // SAFETY: written with the first piece of the tiles.
                        _ => unsafe { sums.assume_init_mut() },
                    };
                    for (quad, sums) in sums.iter_mut().enumerate().take(rows.div_ceil(ROWS)) {
                        let row = first + k * ROW_BLOCK + quad * ROWS;
                        let rows = ROWS.min(rows - quad * ROWS);
                        let to = &mut out[row * stride + (tile - tiles.start) * TILE..];
                        let ahead = ahead.from((k * ROW_BLOCK / ROWS + quad) * (n / K));
                        if end == groups {
                            // Lines that the next pass will store to; unaligned results begin one more. Not further ahead:
                            // rows a multiple of 4 KiB apart share a few lines of the cache.
                            for row in ROWS..2 * ROWS {
                                prefetch(to.as_ptr().wrapping_add(row * stride).cast(), T + 1);
                            }
                        }
                        pass(pieces, &x[start..end], quad, rows, ahead, sums);
                        // Stored a few at a time, since stores wait for memory while the next rows are multiplied.
                        if end == groups {
                            for (to, sums) in to.chunks_mut(stride).zip(&sums[..rows]) {
                                store(&mut to[..width], sums);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Stores what fits of a row's sums.
#[inline(always)]
fn store(to: &mut [f32], sums: &[Lanes]) {
    let (whole, rest) = to.as_chunks_mut::<TILE>();
    // One by one, since a copy of a length that is only known here is a call.
    for (to, from) in whole.iter_mut().zip(sums) {
        *to = *from;
    }
    if let Some(last) = sums.get(whole.len()) {
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Asks for cache lines that are about to be read or written. They may lie anywhere, even outside the data at hand.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn prefetch(start: *const u8, lines: usize) {
    for k in 0..lines {
        // SAFETY: a prefetch is a hint, it never faults wherever it points; every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64 * k).cast()) };
    }
}

/// Asks the second-level cache for a line.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch_second(line: *const u8) {
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
}

/// Unpacks a group of 16 rows.
#[inline(always)]
fn unpack<const F: u8, const K: usize>(
    from: &[u8],
    to: &mut [u8],
    flip: u8,
    halves: &impl Fn(&[u8; 32]) -> Lanes,
) {
    let (from, from_floats) = from.split_at(packed_bytes(F, K).0);
    let (to, to_floats) = to.split_at_mut(group_bytes(F, K, false).0);
    if F == Q8 {
        for (from, to) in from.iter().zip(to) {
            *to = from ^ flip;
        }
    } else {
        for (from, to) in from.as_chunks::<256>().0.iter().zip(to.as_chunks_mut::<512>().0) {
            let (low, high) = to.split_at_mut(256);
            for ((both, low), high) in from.iter().zip(low).zip(high) {
                *low = both & 15;
                *high = both >> 4;
            }
        }
    }
    for (from, to) in from_floats.as_chunks::<32>().0.iter().zip(to_floats.as_chunks_mut::<64>().0) {
        for (to, lane) in to.as_chunks_mut::<4>().0.iter_mut().zip(halves(from)) {
            *to = lane.to_ne_bytes();
        }
    }
}
