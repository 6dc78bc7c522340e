//! What can be wrong with a GGUF file.

use std::fmt;
use std::path::PathBuf;

use super::TensorKind;

/// Where in which file something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file, as the caller named it.
    pub file: PathBuf,
    /// The header field, metadata key or tensor.
    pub field: String,
    /// The byte offset in the file at which the offending bytes or their record start.
    pub offset: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at byte {})", self.file.display(), self.field, self.offset)
    }
}

/// A GGUF file that cannot be used, or a lookup in one that failed.
///
/// Every message is one line: file, field, byte offset, what was expected, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file does not start with the four bytes `GGUF`.
    #[error("{at}: found '{found}', expected 'GGUF'; this is not a GGUF model, download or convert one")]
    NotGguf {
        /// Where.
        at: Box<Location>,
        /// The bytes found, escaped.
        found: String,
    },
    /// The version reads as if the file were written on a big-endian machine.
    #[error(
        "{at}: big-endian file (version {version} byte-swapped); use the little-endian conversion of this model"
    )]
    BigEndian {
        /// Where.
        at: Box<Location>,
        /// The version after swapping the bytes.
        version: u32,
    },
    /// A version other than 2 and 3.
    #[error("{at}: version {version}, expected 2 or 3; convert the model again with a current converter")]
    Version {
        /// Where.
        at: Box<Location>,
        /// The version found.
        version: u32,
    },
    /// The file ends inside a header, metadata or tensor record.
    #[error(
        "{at}: needs {need} bytes but the file has only {left} more; the file is truncated or damaged, download it again"
    )]
    Truncated {
        /// Where.
        at: Box<Location>,
        /// Bytes that the field needs.
        need: u64,
        /// Bytes left in the file.
        left: usize,
    },
    /// A count of records or array elements that the rest of the file cannot hold.
    #[error(
        "{at}: count {count} cannot fit in the {left} bytes left; the file is truncated or damaged, download it again"
    )]
    Count {
        /// Where.
        at: Box<Location>,
        /// The count found.
        count: u64,
        /// Bytes left in the file.
        left: usize,
    },
    /// More records than any model needs.
    #[error("{at}: count {count}, expected at most {limit}; the file is damaged, download it again")]
    TooMany {
        /// Where.
        at: Box<Location>,
        /// The count found.
        count: u64,
        /// The largest count accepted.
        limit: u64,
    },
    /// A metadata key of zero length or longer than 65535 bytes.
    #[error(
        "{at}: key of {len} bytes, expected 1 to 65535; the file is damaged, download or convert it again"
    )]
    KeyLength {
        /// Where.
        at: Box<Location>,
        /// The length found.
        len: usize,
    },
    /// A tensor name of zero length or longer than 64 bytes.
    #[error(
        "{at}: tensor name of {len} bytes, expected 1 to 64; the file is damaged, download or convert it again"
    )]
    NameLength {
        /// Where.
        at: Box<Location>,
        /// The length found.
        len: usize,
    },
    /// A key, a tensor name or a string value that is not UTF-8.
    #[error("{at}: not valid UTF-8; the file is damaged, download or convert it again")]
    Utf8 {
        /// Where.
        at: Box<Location>,
    },
    /// The same metadata key twice.
    #[error("{at}: duplicate key, first at byte {first}; convert the model again with a current converter")]
    DuplicateKey {
        /// Where.
        at: Box<Location>,
        /// Byte offset of the first record.
        first: usize,
    },
    /// The same tensor name twice.
    #[error(
        "{at}: duplicate tensor name, first at byte {first}; convert the model again with a current converter"
    )]
    DuplicateTensor {
        /// Where.
        at: Box<Location>,
        /// Byte offset of the first record.
        first: usize,
    },
    /// A metadata value type that the format does not define.
    #[error(
        "{at}: value type {code}, expected 0 to 12; the file is damaged or of a newer format, convert it again"
    )]
    ValueType {
        /// Where.
        at: Box<Location>,
        /// The type number found.
        code: u32,
    },
    /// An array of arrays.
    #[error(
        "{at}: array of arrays, expected an array of scalars or strings; convert the model again without this key"
    )]
    NestedArray {
        /// Where.
        at: Box<Location>,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("{at}: boolean byte {byte}, expected 0 or 1; the file is damaged, download or convert it again")]
    Bool {
        /// Where.
        at: Box<Location>,
        /// The byte found.
        byte: u8,
    },
    /// `general.alignment` that is not a power of two of at least 8.
    #[error("{at}: alignment {found}, expected a power of two >= 8; convert the model again")]
    Alignment {
        /// Where.
        at: Box<Location>,
        /// The alignment found.
        found: u32,
    },
    /// A tensor with no or more than four dimensions.
    #[error("{at}: {count} dimensions, expected 1 to 4; the file is damaged, download or convert it again")]
    DimensionCount {
        /// Where.
        at: Box<Location>,
        /// The count found.
        count: u32,
    },
    /// A tensor dimension of zero.
    #[error(
        "{at}: dimension {index} is 0, expected at least 1; the file is damaged, download or convert it again"
    )]
    ZeroDimension {
        /// Where.
        at: Box<Location>,
        /// Which dimension, 0 = the fastest.
        index: usize,
    },
    /// A shape whose size in elements or bytes does not fit in memory addresses.
    #[error("{at}: shape {dims:?} overflows; the file is damaged, download or convert it again")]
    ShapeOverflow {
        /// Where.
        at: Box<Location>,
        /// The dimensions found, fastest first.
        dims: Vec<u64>,
    },
    /// A tensor type that this crate does not know.
    #[error(
        "{at}: tensor type {code} is not supported; use a Q4_0, Q4_1, Q8_0, F16, BF16 or K-quant conversion of this model"
    )]
    TensorKind {
        /// Where.
        at: Box<Location>,
        /// The type number found.
        code: u32,
    },
    /// Rows that do not consist of whole quantization blocks.
    #[error(
        "{at}: rows of {row} elements, expected a multiple of the {kind} block of {block}; convert the model again to another type"
    )]
    PartialBlock {
        /// Where.
        at: Box<Location>,
        /// Row length in elements.
        row: usize,
        /// The tensor's type.
        kind: TensorKind,
        /// Block length in elements.
        block: usize,
    },
    /// A tensor offset that is not a multiple of the alignment.
    #[error(
        "{at}: data offset {found}, expected a multiple of the alignment {alignment}; convert the model again"
    )]
    Misaligned {
        /// Where.
        at: Box<Location>,
        /// The offset found, relative to the data section.
        found: u64,
        /// The file's alignment.
        alignment: usize,
    },
    /// Tensor data beyond the end of the file.
    #[error(
        "{at}: data ends at byte {end} but the file has {len} bytes; the file is truncated or one part of several, download it again or join its parts"
    )]
    PastEnd {
        /// Where.
        at: Box<Location>,
        /// The byte offset at which the data would end.
        end: u64,
        /// Length of the file.
        len: usize,
    },
    /// Two tensors that share bytes.
    #[error(
        "{at}: data overlaps that of tensor '{other}'; the file is damaged, download or convert it again"
    )]
    Overlap {
        /// Where.
        at: Box<Location>,
        /// The other tensor.
        other: String,
    },
    /// A second GGUF header after the data of the first.
    #[error(
        "{at}: another GGUF file follows; shards must not be concatenated, keep them as separate files or merge them with a GGUF merge tool"
    )]
    Joined {
        /// Where.
        at: Box<Location>,
    },
    /// The files of a split model that do not belong together.
    #[error("{}: {problem}; keep all files of the model in one folder with the names they were published under", .file.display())]
    Split {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A metadata key that the caller needs and the file lacks.
    #[error("{}: metadata key '{key}' is missing, expected {expected}; convert the model again with a current converter", .file.display())]
    MissingKey {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The type the caller expected.
        expected: &'static str,
    },
    /// A metadata value of another type than the caller needs.
    #[error(
        "{at}: value must be {expected}, found {found}; convert the model again with a current converter"
    )]
    WrongType {
        /// Where.
        at: Box<Location>,
        /// The type the caller expected.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// A tensor that the caller needs and the file lacks.
    #[error("{}: tensor '{name}' is missing; the file is incomplete or of another architecture, download it again", .file.display())]
    MissingTensor {
        /// The file.
        file: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A block scale or an element that is infinite or not a number.
    #[error(
        "{at}: block {block} holds a scale or value that is not finite; the weights are damaged, download or quantize them again"
    )]
    NonFinite {
        /// Where: the offset is that of the offending number.
        at: Box<Location>,
        /// Index of the block in the tensor (of the element, for unquantized types).
        block: usize,
    },
    /// Tensor data given to a writer that does not have the size of its shape.
    #[error(
        "tensor '{name}': {found} bytes of data, expected {expected} for its shape and type; pass the whole tensor"
    )]
    DataLength {
        /// The tensor.
        name: String,
        /// Bytes that shape and type need.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
}
