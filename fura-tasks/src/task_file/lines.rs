//! The lines of a file, read within bounds.

use std::io::{BufRead, Read};

use super::LINE_LIMIT;
use super::error::{Place, TaskFileError};

/// The lines of a JSON Lines file that are not blank, with their places and the hash of all bytes.
pub(crate) struct Lines<'a, R> {
    file: &'a str,
    reader: R,
    number: usize,
    bytes: Vec<u8>,
    hasher: blake3::Hasher,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(crate) fn new(file: &'a str, reader: R) -> Self {
        Self { file, reader, number: 0, bytes: Vec::new(), hasher: blake3::Hasher::new() }
    }

    /// The next line, without its end; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<(Place<'a>, &str)>, TaskFileError> {
        let length = loop {
            if !self.read()? {
                return Ok(None);
            }
            let length = end(&self.bytes);
            if !self.bytes[..length].iter().all(u8::is_ascii_whitespace) {
                break length;
            }
        };
        let place = Place { file: self.file, line: self.number };
        if length > LINE_LIMIT {
            return Err(place.line_too_long());
        }
        let line = std::str::from_utf8(&self.bytes[..length]);
        line.map(|line| Some((place, line))).map_err(|e| place.not_utf8(e.valid_up_to()))
    }

    /// Reads the next line, or the beginning of one that is too long; false at the end.
    fn read(&mut self) -> Result<bool, TaskFileError> {
        self.number += 1;
        self.bytes.clear();
        // One byte more than the limit and a two-byte line end shows that a line is too long.
        let mut limited = self.reader.by_ref().take(LINE_LIMIT as u64 + 3);
        let count = limited
            .read_until(b'\n', &mut self.bytes)
            .map_err(|source| TaskFileError::Read { file: self.file.to_owned(), source })?;
        self.hasher.update(&self.bytes);
        Ok(count > 0)
    }

    /// The BLAKE3 hash of the bytes read so far; of the whole file after the last line.
    pub(crate) fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }
}

/// The length of a line without its end.
fn end(bytes: &[u8]) -> usize {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    line.strip_suffix(b"\r").unwrap_or(line).len()
}
