//! A bounds-checked little-endian reader that knows what it is reading, for error messages.

use std::path::Path;

use super::{GgufError, Location};

/// What the cursor is reading.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'a> {
    /// A header field.
    Header(&'static str),
    /// The n-th metadata record, its key not yet known.
    Record(u64),
    /// The value of a metadata key.
    Key(&'a str),
    /// The n-th tensor record, its name not yet known.
    TensorRecord(u64),
    /// A named tensor.
    Tensor(&'a str),
}

impl Field<'_> {
    /// The field in words, safe to print: names from the file are escaped and cut.
    fn describe(self) -> String {
        match self {
            Field::Header(name) => name.to_owned(),
            Field::Record(i) => format!("metadata record {i}"),
            Field::Key(key) => format!("metadata key '{}'", printable(key)),
            Field::TensorRecord(i) => format!("tensor record {i}"),
            Field::Tensor(name) => format!("tensor '{}'", printable(name)),
        }
    }
}

/// At most 80 characters of `text`, with control characters escaped, so that messages stay one line.
pub(crate) fn printable(text: &str) -> String {
    let mut out: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        out.push_str("...");
    }
    out
}

/// Builds the location of `field` at `offset`.
pub(super) fn locate(file: &Path, field: Field<'_>, offset: usize) -> Box<Location> {
    Box::new(Location { file: file.to_path_buf(), field: field.describe(), offset })
}

#[derive(Debug)]
pub(super) struct Cursor<'a, 'p> {
    bytes: &'a [u8],
    pos: usize,
    pub(super) file: &'p Path,
    pub(super) field: Field<'a>,
}

impl<'a, 'p> Cursor<'a, 'p> {
    pub(super) fn new(bytes: &'a [u8], file: &'p Path) -> Self {
        Self { bytes, pos: 0, file, field: Field::Header("magic") }
    }

    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.pos
    }

    /// The bytes from `start`, an earlier position, up to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.pos]
    }

    /// The location of the current field at `offset`.
    pub(super) fn at(&self, offset: usize) -> Box<Location> {
        locate(self.file, self.field, offset)
    }

    /// The next `n` bytes.
    pub(super) fn take(&mut self, n: u64) -> Result<&'a [u8], GgufError> {
        let rest = &self.bytes[self.pos..];
        match usize::try_from(n).ok().and_then(|n| rest.get(..n)) {
            Some(head) => {
                self.pos += head.len();
                Ok(head)
            }
            None => Err(GgufError::Truncated { at: self.at(self.pos), need: n, left: rest.len() }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, GgufError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, GgufError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string: its length in bytes as u64, then its bytes.
    pub(super) fn string(&mut self) -> Result<&'a [u8], GgufError> {
        let len = self.u64()?;
        self.take(len)
    }

    /// A count of records that take at least `size` bytes each, refused if they cannot all exist.
    pub(super) fn count(&mut self, size: usize) -> Result<u64, GgufError> {
        let start = self.pos;
        let count = self.u64()?;
        if count > (self.left() / size) as u64 {
            return Err(GgufError::Count { at: self.at(start), count, left: self.left() });
        }
        Ok(count)
    }
}
