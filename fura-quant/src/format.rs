//! Group formats and the packed tile layout.

/// Channels that share one activation scale, and the smallest weight group.
pub const GROUP: usize = 32;
/// Output rows of one packed tile: one AVX-512 register of f32 lanes.
pub const TILE: usize = 16;

/// Input channels of a row that share one weight scale (and minimum).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// 32 channels, GGUF's.
    G32,
    /// 64 channels.
    G64,
    /// 128 channels.
    G128,
}

impl Group {
    /// All sizes, smallest first.
    pub const ALL: [Group; 3] = [Group::G32, Group::G64, Group::G128];

    /// Number of channels.
    pub const fn channels(self) -> usize {
        match self {
            Group::G32 => 32,
            Group::G64 => 64,
            Group::G128 => 128,
        }
    }
}

/// How a weight `w` is coded; `d` (and `m`) are one f16 for each group of channels of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `w = d (q - 8)`, `q` in 0..16. With groups of 32 GGUF's Q4_0.
    Q4(Group),
    /// `w = d q + m`, `q` in 0..16. With groups of 32 GGUF's Q4_1.
    Q4Min(Group),
    /// `w = d q`, `q` in -128..128, groups of 32. GGUF's Q8_0.
    Q8,
}

impl Format {
    /// Every format, each with every group size it has.
    pub const ALL: [Format; 7] = [
        Format::Q4(Group::G32),
        Format::Q4(Group::G64),
        Format::Q4(Group::G128),
        Format::Q4Min(Group::G32),
        Format::Q4Min(Group::G64),
        Format::Q4Min(Group::G128),
        Format::Q8,
    ];

    /// Channels that share one scale.
    pub const fn group(self) -> usize {
        match self {
            Format::Q4(group) | Format::Q4Min(group) => group.channels(),
            Format::Q8 => GROUP,
        }
    }

    /// Whether groups have a minimum.
    pub const fn has_minimum(self) -> bool {
        matches!(self, Format::Q4Min(_))
    }

    /// Bytes of the codes of one row of a group.
    pub(crate) const fn row_codes(self) -> usize {
        match self {
            Format::Q8 => GROUP,
            _ => self.group() / 2,
        }
    }

    /// Bytes of one packed group of a tile: codes of 16 rows, then 16 scales, then (with minima) 16 minima.
    ///
    /// 4-bit codes come 32 channels after 32 channels, 256 bytes each: byte `64 j + 4 r + i` holds channel
    /// `4 j + i` of row `r` in its low nibble and channel `16 + 4 j + i` in its high nibble, for `j` in 0..4, `i`
    /// in 0..4. 8-bit codes: byte `64 j + 4 r + i` holds channel `4 j + i`, for `j` in 0..8. Scales and minima are
    /// little-endian f16.
    pub const fn packed_group(self) -> usize {
        TILE * self.source_group()
    }

    /// Bytes of one source group: one row's scale, its minimum if it has one, and its codes. 4-bit codes come 32
    /// channels after 32 channels, 16 bytes each: byte `i` holds channel `i` in its low and channel `16 + i` in its
    /// high nibble. Groups of 32 are thus the blocks of GGUF.
    pub const fn source_group(self) -> usize {
        self.row_codes() + if self.has_minimum() { 4 } else { 2 }
    }

    /// Bytes of one packed tile: 16 rows of `d_in` channels.
    pub const fn packed_tile(self, d_in: usize) -> usize {
        d_in / self.group() * self.packed_group()
    }

    /// Bytes of a packed matrix; `None` on overflow.
    pub fn packed_len(self, d_out: usize, d_in: usize) -> Option<usize> {
        d_out.div_ceil(TILE).checked_mul(d_in / self.group())?.checked_mul(self.packed_group())
    }

    /// A short stable name, used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Q4(Group::G32) => "q4",
            Format::Q4(Group::G64) => "q4-64",
            Format::Q4(Group::G128) => "q4-128",
            Format::Q4Min(Group::G32) => "q4min",
            Format::Q4Min(Group::G64) => "q4min-64",
            Format::Q4Min(Group::G128) => "q4min-128",
            Format::Q8 => "q8",
        }
    }

    /// The format of that [`Format::name`].
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.name() == name)
    }
}
