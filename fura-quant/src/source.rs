//! Group blocks, row-major: decoding to f32 and packing into tiles, both without loss.

use crate::format::{Format, GROUP, TILE};
use half::f16;

/// A row-major matrix of group blocks ([`Format::source_group`]; those of GGUF for groups of 32).
#[derive(Clone, Copy, Debug)]
pub struct SourceMatrix<'a> {
    format: Format,
    d_out: usize,
    d_in: usize,
    bytes: &'a [u8],
}

/// Why bytes are not a quantized matrix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// `d_in` does not divide into groups, or a dimension is zero.
    #[error("a {d_out} x {d_in} matrix cannot be cut into groups of {group} input channels")]
    Shape {
        /// Channels of a group.
        group: usize,
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
    /// A value to be quantized is NaN, infinite or too large for an f16 scale.
    #[error(
        "row {row}, channel {channel}: {value} cannot be quantized, values must be finite and at most {limit} in magnitude"
    )]
    Value {
        /// Row.
        row: usize,
        /// Channel within the row.
        channel: usize,
        /// The value.
        value: f32,
        /// The largest magnitude of the format.
        limit: f32,
    },
}

impl QuantError {
    /// The same with the row counted from the first of the matrix instead of the first of tile `tile`.
    pub(crate) fn in_tile(self, tile: usize) -> Self {
        match self {
            QuantError::Value { row, channel, value, limit } => {
                QuantError::Value { row: tile * TILE + row, channel, value, limit }
            }
            other => other,
        }
    }
}

/// Whether rows divide into groups and `found` bytes are what the shape takes.
pub(crate) fn check_shape(
    format: Format,
    d_out: usize,
    d_in: usize,
    expected: Option<usize>,
    found: usize,
) -> Result<(), QuantError> {
    if d_out == 0 || d_in == 0 || !d_in.is_multiple_of(format.group()) {
        return Err(QuantError::Shape { group: format.group(), d_out, d_in });
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
        let groups = d_in / format.group();
        let expected = groups.checked_mul(format.source_group()).and_then(|n| n.checked_mul(d_out));
        check_shape(format, d_out, d_in, expected, bytes.len())?;
        Ok(Self { format, d_out, d_in, bytes })
    }

    fn group(&self, row: usize, group: usize) -> &'a [u8] {
        let n = self.format.source_group();
        let at = (row * (self.d_in / self.format.group()) + group) * n;
        &self.bytes[at..at + n]
    }

    /// Decodes channels `first .. first + out.len()` of a row; both ends are multiples of 32.
    ///
    /// # Panics
    /// If they are not, or lie outside the row.
    pub fn decode(&self, row: usize, first: usize, out: &mut [f32]) {
        assert!(
            first.is_multiple_of(GROUP) && out.len().is_multiple_of(GROUP) && first + out.len() <= self.d_in
        );
        let n = self.format.group();
        for (k, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let channel = first + k * GROUP;
            let (d, m, codes) = split(self.format, self.group(row, channel / n));
            for (i, o) in out.iter_mut().enumerate() {
                let q = code(self.format, codes, channel % n + i);
                // Two roundings, as the format defines it; codes are exact in f32.
                *o = match self.format {
                    Format::Q4(_) => d * f32::from(q as i8 - 8),
                    Format::Q4Min(_) => d * f32::from(q) + m,
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
    /// If `out` is not [`Format::packed_tile`] bytes or the tile lies outside the matrix.
    pub fn pack_tile(&self, tile: usize, out: &mut [u8]) -> Result<(), QuantError> {
        assert!(tile < self.d_out.div_ceil(TILE) && out.len() == self.format.packed_tile(self.d_in));
        for (g, out) in out.chunks_exact_mut(self.format.packed_group()).enumerate() {
            out.fill(0);
            for r in 0..TILE.min(self.d_out - tile * TILE) {
                let row = tile * TILE + r;
                let block = self.group(row, g);
                let (d, m, codes) = split(self.format, block);
                if !d.is_finite() || !m.is_finite() {
                    return Err(QuantError::Scale { row, group: g });
                }
                let floats = &block[..block.len() - codes.len()];
                place(self.format, out, r, |channel| code(self.format, codes, channel), floats);
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
    if format.has_minimum() { (half(0), half(2), &block[4..]) } else { (half(0), 0.0, &block[2..]) }
}

/// Code of channel `i` of a source group.
fn code(format: Format, codes: &[u8], i: usize) -> u8 {
    if format == Format::Q8 {
        return codes[i];
    }
    let byte = codes[i / 32 * 16 + i % 16];
    if i % 32 < 16 { byte & 15 } else { byte >> 4 }
}

/// Writes row `r` of a packed group that holds zeros there: its codes, and the bytes of its scale and minimum.
pub(crate) fn place(format: Format, out: &mut [u8], r: usize, code: impl Fn(usize) -> u8, floats: &[u8]) {
    for channel in 0..format.group() {
        let q = code(channel);
        if format == Format::Q8 {
            out[channel / 4 * 64 + r * 4 + channel % 4] = q;
        } else {
            let c = channel % 16;
            let at = channel / 32 * 256 + c / 4 * 64 + r * 4 + c % 4;
            out[at] |= if channel % 32 < 16 { q } else { q << 4 };
        }
    }
    let (floats, _) = floats.as_chunks::<2>();
    for (k, bytes) in floats.iter().enumerate() {
        out[TILE * format.row_codes() + 2 * TILE * k + 2 * r..][..2].copy_from_slice(bytes);
    }
}
