//! GGUF group blocks, row-major: decoding to f32 and packing into tiles, both without loss.

use crate::format::{Format, GROUP, TILE};
use half::f16;

/// A row-major matrix of GGUF group blocks: `d_out` rows of `d_in / 32` blocks.
#[derive(Clone, Copy, Debug)]
pub struct SourceMatrix<'a> {
    format: Format,
    d_out: usize,
    d_in: usize,
    bytes: &'a [u8],
}

/// Why bytes are not a quantized matrix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// `d_in` does not divide into groups, or a dimension is zero.
    #[error("a {d_out} x {d_in} matrix cannot be cut into groups of 32 input channels")]
    Shape {
        /// Rows.
        d_out: usize,
        /// Columns.
        d_in: usize,
    },
    /// The byte count does not match the shape.
    #[error("a {d_out} x {d_in} {format} matrix takes {expected} bytes, found {found}")]
    Length {
        /// Format name.
        format: &'static str,
        /// Rows.
        d_out: usize,
        /// Columns.
        d_in: usize,
        /// Bytes the shape needs.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A scale or minimum is infinite or NaN.
    #[error("row {row}, group {group}: the scale or minimum is not finite; the file is damaged")]
    Scale {
        /// Output row.
        row: usize,
        /// Group within the row.
        group: usize,
    },
}

/// Whether rows divide into groups and `found` bytes are what the shape takes.
pub(crate) fn check_shape(
    format: Format,
    d_out: usize,
    d_in: usize,
    expected: Option<usize>,
    found: usize,
) -> Result<(), QuantError> {
    if d_out == 0 || d_in == 0 || !d_in.is_multiple_of(GROUP) {
        return Err(QuantError::Shape { d_out, d_in });
    }
    if expected != Some(found) {
        let expected = expected.unwrap_or(usize::MAX);
        return Err(QuantError::Length { format: format.name(), d_out, d_in, expected, found });
    }
    Ok(())
}

impl<'a> SourceMatrix<'a> {
    /// Checks the byte count against the shape.
    ///
    /// # Errors
    /// [`QuantError::Shape`] or [`QuantError::Length`].
    pub fn new(format: Format, d_out: usize, d_in: usize, bytes: &'a [u8]) -> Result<Self, QuantError> {
        let expected = (d_in / GROUP).checked_mul(format.source_group()).and_then(|n| n.checked_mul(d_out));
        check_shape(format, d_out, d_in, expected, bytes.len())?;
        Ok(Self { format, d_out, d_in, bytes })
    }

    fn group(&self, row: usize, group: usize) -> &'a [u8] {
        let n = self.format.source_group();
        let at = (row * (self.d_in / GROUP) + group) * n;
        &self.bytes[at..at + n]
    }

    /// Decodes channels `first .. first + out.len()` of a row; both ends fall on group boundaries.
    ///
    /// # Panics
    /// If the range is not whole groups inside the row.
    pub fn decode(&self, row: usize, first: usize, out: &mut [f32]) {
        assert!(
            first.is_multiple_of(GROUP) && out.len().is_multiple_of(GROUP) && first + out.len() <= self.d_in
        );
        for (k, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let (d, m, codes) = split(self.format, self.group(row, first / GROUP + k));
            for (i, o) in out.iter_mut().enumerate() {
                let q = code(self.format, codes, i);
                // Two roundings, as the format defines it; codes are exact in f32.
                *o = match self.format {
                    Format::Q4 => d * f32::from(q as i8 - 8),
                    Format::Q4Min => d * f32::from(q) + m,
                    Format::Q8 => d * f32::from(q as i8),
                };
            }
        }
    }

    /// Packs the tile of rows `16 tile .. 16 tile + 16` into `out`; rows past `d_out` are zero weights.
    ///
    /// # Errors
    /// [`QuantError::Scale`] if a scale or minimum is not finite.
    ///
    /// # Panics
    /// If `out` is not `d_in / 32 * packed_group` bytes or the tile lies outside the matrix.
    pub fn pack_tile(&self, tile: usize, out: &mut [u8]) -> Result<(), QuantError> {
        let n = self.format.packed_group();
        assert!(tile < self.d_out.div_ceil(TILE) && out.len() == self.d_in / GROUP * n);
        let four_bit = self.format != Format::Q8;
        let scales_at = if four_bit { 256 } else { 512 };
        for (g, out) in out.chunks_exact_mut(n).enumerate() {
            out.fill(0);
            for r in 0..TILE.min(self.d_out - tile * TILE) {
                let row = tile * TILE + r;
                let block = self.group(row, g);
                let (d, m, codes) = split(self.format, block);
                if !d.is_finite() || !m.is_finite() {
                    return Err(QuantError::Scale { row, group: g });
                }
                for channel in 0..GROUP {
                    let q = code(self.format, codes, channel);
                    if four_bit {
                        let c = channel % 16;
                        out[c / 4 * 64 + r * 4 + c % 4] |= if channel < 16 { q } else { q << 4 };
                    } else {
                        out[channel / 4 * 64 + r * 4 + channel % 4] = q;
                    }
                }
                out[scales_at + 2 * r..][..2].copy_from_slice(&block[..2]);
                if self.format == Format::Q4Min {
                    out[288 + 2 * r..][..2].copy_from_slice(&block[2..4]);
                }
            }
        }
        Ok(())
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
}

/// Scale, minimum (0 if none) and code bytes of a source group.
fn split(format: Format, block: &[u8]) -> (f32, f32, &[u8]) {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    match format {
        Format::Q4 | Format::Q8 => (half(0), 0.0, &block[2..]),
        Format::Q4Min => (half(0), half(2), &block[4..]),
    }
}

/// Code of channel `i`: 4-bit groups keep channels 0..16 in the low nibbles and 16..32 in the high ones.
fn code(format: Format, codes: &[u8], i: usize) -> u8 {
    match format {
        Format::Q8 => codes[i],
        _ if i < 16 => codes[i] & 15,
        _ => codes[i - 16] >> 4,
    }
}
