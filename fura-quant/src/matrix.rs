//! Packed matrices and the products `y = W x` of quantized rows.

use crate::activations::ActivationRows;
use crate::code::Code;
use crate::format::{Format, TILE};
use crate::source::{QuantError, SourceMatrix, check_shape};
use fura_simd::Isa;
use half::f16;
use std::ops::Range;

/// A packed weight matrix over borrowed (usually memory-mapped) bytes.
#[derive(Clone, Copy, Debug)]
pub struct PackedMatrix<'a> {
    format: Format,
    d_out: usize,
    d_in: usize,
    bytes: &'a [u8],
}

impl<'a> PackedMatrix<'a> {
    /// Checks the byte count against the shape. The contents need no check: every byte pattern is a weight.
    ///
    /// # Errors
    /// [`QuantError::Shape`] or [`QuantError::Length`].
    pub fn new(format: Format, d_out: usize, d_in: usize, bytes: &'a [u8]) -> Result<Self, QuantError> {
        check_shape(format, d_out, d_in, format.packed_len(d_out, d_in), bytes.len())?;
        Ok(Self { format, d_out, d_in, bytes })
    }

    /// Output rows.
    pub fn d_out(&self) -> usize {
        self.d_out
    }

    /// Input channels.
    pub fn d_in(&self) -> usize {
        self.d_in
    }

    /// The group format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Number of 16-row tiles.
    pub fn tiles(&self) -> usize {
        self.d_out.div_ceil(TILE)
    }

    /// Bytes of one tile: its groups in order.
    pub(crate) fn tile(&self, tile: usize) -> &'a [u8] {
        let n = self.format.packed_tile(self.d_in);
        &self.bytes[tile * n..(tile + 1) * n]
    }

    /// The matrix product `out[r][o] = sum_i W[o][i] x[r][i]` for the outputs of `tiles`, in the canonical
    /// order (C1). The integer dot product `dot` of 32 channels is exact, then rounded to f32 (which codes of 16 bits
    /// need); for [`Format::Q4`] it runs over `q - 8`.
    /// Then weight groups in order, starting from `acc = 0`:
    ///
    /// * groups of 32: `acc = fma(d * scale, dot, acc)`, and with a minimum `acc = fma(m, scale * sum, acc)`;
    /// * groups of 64 and 128: `t = fma(scale_k, dot_k, t)` over their activation groups `k` in order, from `t = 0`;
    ///   then `acc = fma(d, t, acc)`, and with a minimum `acc = fma(m, u, acc)`, `u` being the sum of
    ///   `scale_k * sum_k`, in order.
    ///
    /// `scale` and `sum` are those of [`ActivationGroup`](crate::ActivationGroup).
    ///
    /// `out` holds `x.rows()` rows, `stride` apart, each starting with output `16 * tiles.start`.
    ///
    /// # Panics
    /// If the shapes disagree or `out` is too short.
    pub fn multiply<C: Code>(
        &self,
        isa: Isa,
        x: ActivationRows<'_, C>,
        tiles: Range<usize>,
        out: &mut [f32],
        stride: usize,
    ) {
        assert_eq!(x.d_in(), self.d_in, "multiply: the rows have another width than the matrix");
        if tiles.is_empty() || x.rows() == 0 {
            return;
        }
        assert!(tiles.end <= self.tiles(), "multiply: tile out of range");
        let width = (tiles.end * TILE).min(self.d_out) - tiles.start * TILE;
        assert!(
            stride >= width && out.len() >= (x.rows() - 1) * stride + width,
            "multiply: output too short"
        );
        C::multiply(isa, self, x, tiles, out, stride);
    }

    /// Decodes one row to f32, without loss: the same values as the source's.
    ///
    /// # Panics
    /// If `row` is out of range or `out` is not `d_in` long.
    pub fn decode_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.d_out && out.len() == self.d_in);
        let tile = self.tile(row / TILE);
        let (n, format) = (self.format.packed_group(), self.format);
        for (block, out) in tile.chunks_exact(n).zip(out.chunks_exact_mut(format.group())) {
            let (d, m) = (scale(format, block, row % TILE), minimum(format, block, row % TILE));
            for (channel, o) in out.iter_mut().enumerate() {
                let q = code(format, block, row % TILE, channel);
                *o = if format.has_minimum() { d * q as f32 + m } else { d * q as f32 };
            }
        }
    }
}

/// Packs a whole matrix. Large files are packed tile by tile with [`SourceMatrix::pack_tile`] instead.
///
/// # Errors
/// [`QuantError::Scale`] if a scale or minimum is not finite.
pub fn pack(source: &SourceMatrix<'_>) -> Result<Vec<u8>, QuantError> {
    let n = source.format().packed_tile(source.d_in());
    let mut bytes = vec![0; source.d_out().div_ceil(TILE) * n];
    for (t, out) in bytes.chunks_exact_mut(n).enumerate() {
        source.pack_tile(t, out)?;
    }
    Ok(bytes)
}

/// Code of one row and channel of a packed group; the offset of 8 is taken off for [`Format::Q4`].
pub(crate) fn code(format: Format, block: &[u8], row: usize, channel: usize) -> i32 {
    if format == Format::Q8 {
        return i32::from(block[channel / 4 * 64 + row * 4 + channel % 4] as i8);
    }
    let c = channel % 16;
    let byte = block[channel / 32 * 256 + c / 4 * 64 + row * 4 + c % 4];
    let q = i32::from(if channel % 32 < 16 { byte & 15 } else { byte >> 4 });
    if format.has_minimum() { q } else { q - 8 }
}

/// Scale of one row of a packed group.
pub(crate) fn scale(format: Format, block: &[u8], row: usize) -> f32 {
    half_at(block, TILE * format.row_codes() + 2 * row)
}

/// Minimum of one row of a packed group, 0 for formats without.
pub(crate) fn minimum(format: Format, block: &[u8], row: usize) -> f32 {
    if format.has_minimum() { half_at(block, TILE * format.row_codes() + 2 * TILE + 2 * row) } else { 0.0 }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
