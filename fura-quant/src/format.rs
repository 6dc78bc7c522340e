//! Group formats and the packed tile layout.

/// Channels that share one scale.
pub const GROUP: usize = 32;
/// Output rows of one packed tile: one AVX-512 register of f32 lanes.
pub const TILE: usize = 16;

/// How a weight `w` is coded; `d` (and `m`) are one f16 for each group of 32 channels of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `w = d (q - 8)`, `q` in 0..16. GGUF's Q4_0.
    Q4,
    /// `w = d q + m`, `q` in 0..16. GGUF's Q4_1.
    Q4Min,
    /// `w = d q`, `q` in -128..128. GGUF's Q8_0.
    Q8,
}

impl Format {
    /// Bytes of one packed group of a tile: 16 rows x 32 channels of codes, then 16 scales, then (with
    /// minima) 16 minima.
    ///
    /// 4-bit codes: byte `64 j + 4 r + i` holds channel `4 j + i` of row `r` in its low nibble and channel
    /// `16 + 4 j + i` in its high nibble, for `j` in 0..4, `i` in 0..4. 8-bit codes: byte `64 j + 4 r + i`
    /// holds channel `4 j + i`, for `j` in 0..8. Scales and minima are little-endian f16.
    pub const fn packed_group(self) -> usize {
        match self {
            Format::Q4 => 256 + 32,
            Format::Q4Min => 256 + 64,
            Format::Q8 => 512 + 32,
        }
    }

    /// Bytes of one source group: 32 channels of one row as GGUF stores them.
    pub const fn source_group(self) -> usize {
        match self {
            Format::Q4 => 18,
            Format::Q4Min => 20,
            Format::Q8 => 34,
        }
    }

    /// Bytes of a packed matrix; `None` on overflow.
    pub fn packed_len(self, d_out: usize, d_in: usize) -> Option<usize> {
        d_out.div_ceil(TILE).checked_mul(d_in / GROUP)?.checked_mul(self.packed_group())
    }

    /// A short stable name, used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Q4 => "q4",
            Format::Q4Min => "q4min",
            Format::Q8 => "q8",
        }
    }

    /// The format of that [`Format::name`].
    pub fn from_name(name: &str) -> Option<Format> {
        [Format::Q4, Format::Q4Min, Format::Q8].into_iter().find(|f| f.name() == name)
    }
}
