//! The memory map: the crate's only unsafe code.

use crate::error::ModelError;
use crate::gguf::ShardName;
use std::fs::File;
use std::path::{Path, PathBuf};

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

/// Maps the files of a GGUF model: `path` is its file, any file of a split model, or a folder that holds nothing else
/// that ends in `.gguf`. In order.
///
/// # Errors
/// A file that is missing or unreadable, by name, or a folder with several models.
pub(crate) fn open_gguf(path: &Path) -> Result<Vec<(PathBuf, Map)>, ModelError> {
    let file = if path.is_dir() { only_model(path)? } else { path.to_owned() };
    let files = match ShardName::parse(&file) {
        Some(name) => (0..name.count()).map(|i| name.path(i)).collect(),
        None => vec![file],
    };
    files.into_iter().map(|file| Map::open(&file).map(|map| (file, map))).collect()
}

/// The only model in a folder.
fn only_model(folder: &Path) -> Result<PathBuf, ModelError> {
    let io = |source| ModelError::Io { file: folder.to_owned(), source };
    let mut files = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>())
        .map_err(io)?;
    files.retain(|f| f.extension().is_some_and(|e| e == "gguf"));
    files.sort();
    let Some(first) = files.first() else { return Err(io(std::io::Error::other("no .gguf file in it"))) };
    let one = match ShardName::parse(first) {
        Some(name) => files.iter().all(|f| ShardName::parse(f).as_ref() == Some(&name)),
        None => files.len() == 1,
    };
    if one {
        return Ok(first.clone());
    }
    let names: Vec<_> = files.iter().filter_map(|f| f.file_name()).map(|f| f.to_string_lossy()).collect();
    Err(io(std::io::Error::other(format!("several models in it, name one: {}", names.join(", ")))))
}
