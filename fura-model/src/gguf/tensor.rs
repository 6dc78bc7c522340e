//! Tensor records and the storage types of their elements.

use std::fmt;
use std::ops::Range;

/// How a tensor's elements are stored.
///
/// Quantized types store blocks of [`block_len`](Self::block_len) elements of one row in
/// [`block_bytes`](Self::block_bytes) bytes. Reading a file accepts all of these; which of them can be
/// computed with is up to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types, reason = "the names that the format and its tools use")]
#[non_exhaustive]
pub enum TensorKind {
    /// 32-bit float.
    F32,
    /// IEEE half-precision float.
    F16,
    /// bfloat16.
    BF16,
    /// 4 bits, f16 scale per 32.
    Q4_0,
    /// 4 bits, f16 scale and minimum per 32.
    Q4_1,
    /// 5 bits, f16 scale per 32.
    Q5_0,
    /// 5 bits, f16 scale and minimum per 32.
    Q5_1,
    /// 8 bits, f16 scale per 32.
    Q8_0,
    /// 2 bits in super-blocks of 256.
    Q2_K,
    /// 3 bits in super-blocks of 256.
    Q3_K,
    /// 4 bits in super-blocks of 256.
    Q4_K,
    /// 5 bits in super-blocks of 256.
    Q5_K,
    /// 6 bits in super-blocks of 256.
    Q6_K,
    /// 4-bit codes of a fixed non-linear table, f16 scale per 32.
    IQ4_NL,
    /// 4-bit floats (E2M1), power-of-two scale (E8M0) per 32.
    MXFP4,
}

/// Number in the file, name, elements per block, bytes per block.
type Layout = (u32, &'static str, usize, usize);

impl TensorKind {
    const ALL: [Self; 15] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_NL,
        Self::MXFP4,
    ];

    /// Source: `enum ggml_type` and the block structs of `ggml-common.h` in `ggml-org/ggml`.
    const fn layout(self) -> Layout {
        match self {
            Self::F32 => (0, "F32", 1, 4),
            Self::F16 => (1, "F16", 1, 2),
            Self::BF16 => (30, "BF16", 1, 2),
            Self::Q4_0 => (2, "Q4_0", 32, 18),
            Self::Q4_1 => (3, "Q4_1", 32, 20),
            Self::Q5_0 => (6, "Q5_0", 32, 22),
            Self::Q5_1 => (7, "Q5_1", 32, 24),
            Self::Q8_0 => (8, "Q8_0", 32, 34),
            Self::Q2_K => (10, "Q2_K", 256, 84),
            Self::Q3_K => (11, "Q3_K", 256, 110),
            Self::Q4_K => (12, "Q4_K", 256, 144),
            Self::Q5_K => (13, "Q5_K", 256, 176),
            Self::Q6_K => (14, "Q6_K", 256, 210),
            Self::IQ4_NL => (20, "IQ4_NL", 32, 18),
            Self::MXFP4 => (39, "MXFP4", 32, 17),
        }
    }

    /// The kind with number `code` in the file.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The kind of that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind's number in the file.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.layout().0
    }

    /// The kind's usual name, such as `Q4_1`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.layout().1
    }

    /// Elements per block; 1 for unquantized types.
    #[must_use]
    pub const fn block_len(self) -> usize {
        self.layout().2
    }

    /// Bytes per block.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.layout().3
    }

    /// The bytes that a tensor of this kind and of shape `dims` takes, if that number fits in `usize`;
    /// rows must consist of whole blocks.
    #[must_use]
    pub fn storage_bytes(self, dims: &[usize]) -> Option<usize> {
        let elements = dims.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim))?;
        (elements / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for TensorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One tensor record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// One to four dimensions, none of them 0, fastest first: a linear layer's are `[d_in, d_out]`.
    pub dims: Vec<usize>,
    /// How the elements are stored.
    pub kind: TensorKind,
    /// Which file of a split model holds the data, from 0.
    pub part: usize,
    /// The data's absolute byte range in that file.
    pub range: Range<usize>,
    /// The absolute byte offset of this record, for messages.
    pub record: usize,
}

impl TensorInfo {
    /// The number of elements: the product of the dimensions.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }
}
