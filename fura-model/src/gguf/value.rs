//! Metadata values.

use std::fmt;

/// The type of a metadata value or of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// 8-bit unsigned.
    U8,
    /// 8-bit signed.
    I8,
    /// 16-bit unsigned.
    U16,
    /// 16-bit signed.
    I16,
    /// 32-bit unsigned.
    U32,
    /// 32-bit signed.
    I32,
    /// 32-bit float.
    F32,
    /// One byte, 0 or 1.
    Bool,
    /// Length-prefixed bytes, UTF-8 by convention.
    String,
    /// A one-dimensional array.
    Array,
    /// 64-bit unsigned.
    U64,
    /// 64-bit signed.
    I64,
    /// 64-bit float.
    F64,
}

impl ValueKind {
    /// Every kind; its index is its number in the file.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The kind with number `code` in the file.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The kind's number in the file.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The fewest bytes that a value of this kind takes; exact for all but strings and arrays.
    pub(super) fn min_size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        })
    }
}

/// A metadata value, borrowing the file's bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// 8-bit unsigned.
    U8(u8),
    /// 8-bit signed.
    I8(i8),
    /// 16-bit unsigned.
    U16(u16),
    /// 16-bit signed.
    I16(i16),
    /// 32-bit unsigned.
    U32(u32),
    /// 32-bit signed.
    I32(i32),
    /// 32-bit float.
    F32(f32),
    /// Boolean.
    Bool(bool),
    /// The string's bytes; the format does not promise UTF-8.
    String(&'a [u8]),
    /// A one-dimensional array.
    Array(Array<'a>),
    /// 64-bit unsigned.
    U64(u64),
    /// 64-bit signed.
    I64(i64),
    /// 64-bit float.
    F64(f64),
}

impl Value<'_> {
    /// The value's type.
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        match self {
            Self::U8(_) => ValueKind::U8,
            Self::I8(_) => ValueKind::I8,
            Self::U16(_) => ValueKind::U16,
            Self::I16(_) => ValueKind::I16,
            Self::U32(_) => ValueKind::U32,
            Self::I32(_) => ValueKind::I32,
            Self::F32(_) => ValueKind::F32,
            Self::Bool(_) => ValueKind::Bool,
            Self::String(_) => ValueKind::String,
            Self::Array(_) => ValueKind::Array,
            Self::U64(_) => ValueKind::U64,
            Self::I64(_) => ValueKind::I64,
            Self::F64(_) => ValueKind::F64,
        }
    }

    /// The value's type in words, such as `array of i32`.
    pub(super) fn type_name(&self) -> String {
        match self {
            Self::Array(array) => format!("array of {}", array.kind),
            _ => self.kind().to_string(),
        }
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::U32(value)
    }
}

impl From<f32> for Value<'_> {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::String(value.as_bytes())
    }
}

/// An array value: its elements are still encoded, and known to be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array<'a> {
    pub(super) kind: ValueKind,
    pub(super) len: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The elements' type.
    #[must_use]
    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of an array of strings; `None` for any other array.
    #[must_use]
    pub fn strings(&self) -> Option<Strings<'a>> {
        (self.kind == ValueKind::String).then_some(Strings { left: self.len, bytes: self.bytes })
    }

    /// The 4-byte elements; `None` unless the elements are of `kind`, which must be a 4-byte kind.
    pub(super) fn words(&self, kind: ValueKind) -> Option<impl ExactSizeIterator<Item = [u8; 4]> + use<'a>> {
        (self.kind == kind).then(|| self.bytes.as_chunks::<4>().0.iter().copied())
    }
}

/// Iterates over the strings of an array as bytes, without copying.
#[derive(Debug, Clone)]
pub struct Strings<'a> {
    left: usize,
    bytes: &'a [u8],
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // The parser has walked these strings, so every read but that after the last one succeeds.
        let (len, rest) = self.bytes.split_first_chunk::<8>()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        self.bytes = rest;
        self.left -= 1;
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Strings<'_> {}
