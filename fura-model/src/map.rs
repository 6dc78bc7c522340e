//! The memory map: the crate's only unsafe code.

use crate::error::ModelError;
use std::fs::File;
use std::path::Path;

/// A read-only map of a whole file.
#[derive(Debug)]
pub(crate) struct Map(memmap2::Mmap);

impl Map {
    /// Maps a file.
    #[allow(unsafe_code)]
    pub(crate) fn open(path: &Path) -> Result<Map, ModelError> {
        let io = |source| ModelError::Io { file: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(io(std::io::Error::other("not a regular file")));
        }
        // SAFETY: the map is read-only and private to this value. Bytes change under it only if another
        // process writes the file in place; our own writers always write a new file and rename it, and
        // every reader validates ranges against the mapped length and treats contents as untrusted.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        Ok(Map(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
