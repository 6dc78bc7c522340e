//! The kernels, one file for each tier, and the only place that may call them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dotprod;
#[cfg(target_arch = "aarch64")]
mod neon_i8mm;
#[cfg(target_arch = "x86_64")]
mod panel;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod streams;

use crate::activations::{ActivationRows, RowBlock};
use crate::code::Code;
use crate::matrix::PackedMatrix;
use fura_simd::{Isa, Tier};
use std::ops::Range;

/// Runs the kernel of the tier; [`PackedMatrix::multiply`] has checked every shape.
#[allow(unsafe_code)]
pub(crate) fn multiply<C: Code>(
    isa: Isa,
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
) {
    match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::multiply(w, x, tiles, out, stride) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::multiply(w, x, tiles, out, stride) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon => unsafe { neon::multiply(w, x, tiles, out, stride) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::NeonDot => unsafe { neon_dotprod::multiply(w, x, tiles, out, stride) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::NeonI8mm => unsafe { neon_i8mm::multiply(w, x, tiles, out, stride) },
        _ => scalar::multiply(w, x, tiles, out, stride),
    }
}

/// Quantizes rows; [`crate::Activations::quantize`] has sized `groups`.
#[allow(unsafe_code)]
pub(crate) fn quantize(isa: Isa, x: &[f32], d_in: usize, groups: &mut [RowBlock]) {
    match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::quantize(x, d_in, groups) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::quantize(x, d_in, groups) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon | Tier::NeonDot | Tier::NeonI8mm => unsafe { neon::quantize(x, d_in, groups) },
        _ => scalar::quantize(x, d_in, groups),
    }
}

/// Quantizes rows to 16 bits, on every tier alike: they are few.
pub(crate) fn quantize_wide(x: &[f32], d_in: usize, groups: &mut [RowBlock<i16>]) {
    scalar::quantize(x, d_in, groups);
}

/// The kinds of codes, as const parameters of kernels. Another const parameter is the number of activation groups
/// of a weight group: 1, 2 or 4.
const Q4: u8 = 0;
const Q4_MIN: u8 = 1;
const Q8: u8 = 2;

/// Calls a kernel with the const parameters of a format; its other parameter follows from the arguments.
macro_rules! by_format {
    ($format:expr, $run:ident $args:tt) => {{
        use crate::format::{Format, Group};
        use crate::kernel::{Q4, Q4_MIN, Q8};
        match $format {
            Format::Q4(Group::G32) => $run::<Q4, 1, _> $args,
            Format::Q4(Group::G64) => $run::<Q4, 2, _> $args,
            Format::Q4(Group::G128) => $run::<Q4, 4, _> $args,
            Format::Q4Min(Group::G32) => $run::<Q4_MIN, 1, _> $args,
            Format::Q4Min(Group::G64) => $run::<Q4_MIN, 2, _> $args,
            Format::Q4Min(Group::G128) => $run::<Q4_MIN, 4, _> $args,
            Format::Q8 => $run::<Q8, 1, _> $args,
        }
    }};
}
use by_format;

/// Bytes of a packed group of 16 rows: its codes, and all of it.
const fn packed_bytes(kind: u8, parts: usize) -> (usize, usize) {
    match kind {
        Q4 => (256 * parts, 256 * parts + 32),
        Q4_MIN => (256 * parts, 256 * parts + 64),
        _ => (512, 512 + 32),
    }
}

/// What the minima of a weight group are multiplied by: for each row the sum of its activation groups' weighted sums,
/// in order.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn weighted<const K: usize, C: Code>(parts: &[RowBlock<C>]) -> [f32; crate::ROW_BLOCK] {
    let mut sum = parts[0].weighted;
    for part in &parts[1..K] {
        for (sum, weighted) in sum.iter_mut().zip(&part.weighted) {
            *sum += weighted;
        }
    }
    sum
}

/// Where one tile's results go: `rows` rows, `stride` apart, `width` (at most 16) outputs each.
struct Target<'a> {
    out: &'a mut [f32],
    stride: usize,
    width: usize,
}

impl Target<'_> {
    /// Stores lanes `first ..` of a row; lanes past the width are padding and are dropped.
    #[inline(always)]
    fn store<const N: usize>(&mut self, row: usize, first: usize, lanes: [f32; N]) {
        let out = &mut self.out[row * self.stride..];
        if let Some(whole) = out.get_mut(first..first + N)
            && self.width >= first + N
        {
            whole.copy_from_slice(&lanes);
        } else if self.width > first {
            let n = self.width - first;
            out[first..self.width].copy_from_slice(&lanes[..n]);
        }
    }
}

/// Runs the body for `0 .. R`, unrolled (a loop this long stays rolled otherwise, and the accumulators of a rolled loop
/// live in memory). The most that `R` can be is a literal.
macro_rules! unrolled {
    ($k:ident < $R:tt of 2, $body:block) => { unrolled!(@ $k $R $body 0 1) };
    ($k:ident < $R:tt of 3, $body:block) => { unrolled!(@ $k $R $body 0 1 2) };
    ($k:ident < $R:tt of 4, $body:block) => { unrolled!(@ $k $R $body 0 1 2 3) };
    ($k:ident < $R:tt of 6, $body:block) => { unrolled!(@ $k $R $body 0 1 2 3 4 5) };
    ($k:ident < $R:tt of 8, $body:block) => { unrolled!(@ $k $R $body 0 1 2 3 4 5 6 7) };
    (@ $k:ident $R:tt $body:block $($n:literal)*) => {{
        $({ let $k: usize = $n; if $k < $R $body })*
    }};
}
use unrolled;

/// Rows handled against one pass over the tiles: their codes (1.4 `PANEL x d_in` bytes: 19 KB at d_in = 576) stay
/// in a second-level cache while the tiles go by, and a tile (up to 16 x d_in / 2 bytes) stays in the first.
const PANEL: usize = 2 * crate::ROW_BLOCK;

/// Walks panels of rows, then tiles, then blocks of `R` rows with the rest one by one.
#[inline(always)]
fn for_each_tile<C: Code>(
    w: &PackedMatrix<'_>,
    x: ActivationRows<'_, C>,
    tiles: Range<usize>,
    out: &mut [f32],
    stride: usize,
    mut run: impl FnMut(&[u8], ActivationRows<'_, C>, Target<'_>),
) {
    let mut first = 0;
    while first < x.rows() {
        let rows = PANEL.min(x.rows() - first);
        let panel = x.slice(first, rows);
        for tile in tiles.clone() {
            let column = (tile - tiles.start) * crate::TILE;
            let width = crate::TILE.min(w.d_out() - tile * crate::TILE);
            let target = Target { out: &mut out[first * stride + column..], stride, width };
            run(w.tile(tile), panel, target);
        }
        first += rows;
    }
}
