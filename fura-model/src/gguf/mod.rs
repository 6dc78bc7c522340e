//! GGUF files, versions 2 and 3: a reader that trusts nothing, and a small writer.
//!
//! A GGUF file is a header (magic, version, two counts), metadata records, tensor records, and a data
//! section that starts at the next multiple of `general.alignment`. All numbers are little-endian. The
//! format is specified in `docs/gguf.md` of the `ggml-org/ggml` repository.
//!
//! [`Gguf::parse`] works on a byte slice, which the caller usually memory-maps. Every length, count,
//! offset and type is checked against the bytes that exist *before* it is used or anything is allocated
//! for it, so a damaged or hostile file gives one [`GgufError`] that names the file, the record and the
//! byte offset; it never panics. Strings and arrays stay in the file's bytes.
//!
//! ```
//! use std::path::Path;
//! use fura_model::gguf::{Gguf, GgufWriter, TensorKind};
//!
//! let mut writer = GgufWriter::new();
//! writer.kv("general.architecture", "llama").kv("llama.block_count", 2_u32);
//! writer.tensor("output_norm.weight", &[4], TensorKind::F32, vec![0; 16]);
//! let bytes = writer.finish()?;
//!
//! let gguf = Gguf::parse(&bytes, Path::new("tiny.gguf"))?;
//! assert_eq!(gguf.u32("llama.block_count")?, 2);
//! assert_eq!(gguf.tensor("output_norm.weight").unwrap().dims, [4]);
//! assert!(gguf.u32("llama.context_length").unwrap_err().to_string().contains("is missing"));
//! # Ok::<(), fura_model::gguf::GgufError>(())
//! ```

mod cursor;
mod dequantize;
mod error;
mod metadata;
mod parse;
mod scales;
mod split;
mod tensor;
#[cfg(test)]
mod tests;
mod value;
mod writer;

use crate::grouped::Grouped;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

pub use dequantize::DECODE_GROUP;
pub use error::{GgufError, Location};
pub use split::ShardName;
pub use tensor::{TensorInfo, TensorKind};
pub use value::{Array, Strings, Value, ValueKind};
pub use writer::GgufWriter;

pub(crate) use cursor::printable;
pub(crate) use dequantize::{
    IQ4_NL_VALUES, MXFP4_DOUBLED, f16, five_bits, k_nibble, mxfp4_half_scale, nibble, scale_min,
};
use metadata::Entry;

/// The alignment of tensor data when the file has no `general.alignment`, in bytes.
pub const DEFAULT_ALIGNMENT: usize = 32;

/// The metadata and the tensor records of one GGUF file, or of the files of a split model, borrowing their bytes.
///
/// See the [module's example](self).
#[derive(Debug, Clone)]
pub struct Gguf<'a> {
    /// The file, or the files of a split model in order.
    parts: Vec<Part<'a>>,
    /// The first file's name.
    file: PathBuf,
    version: u32,
    alignment: usize,
    entries: Vec<Entry<'a>>,
    by_key: HashMap<&'a str, usize>,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<&'a str, usize>,
    /// Matrices of a folder that are 4-bit groups of another kind than GGUF's, by the names of their tensors.
    pub(crate) grouped: BTreeMap<String, Grouped<'a>>,
}

/// One file's bytes and its name.
#[derive(Debug, Clone)]
struct Part<'a> {
    bytes: &'a [u8],
    file: PathBuf,
}

impl<'a> Gguf<'a> {
    /// Reads the header, the metadata and the tensor records of the whole file `bytes`.
    ///
    /// `file` is only used in error messages. After success every tensor's byte range lies inside
    /// `bytes`, is aligned, holds exactly its shape, and overlaps no other tensor.
    ///
    /// # Errors
    /// Any violation of the format; see [`GgufError`].
    pub fn parse(bytes: &'a [u8], file: &Path) -> Result<Self, GgufError> {
        parse::parse(bytes, file)
    }

    /// The file's name as given to [`Gguf::parse`].
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The format version, 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of tensor data, in bytes.
    #[must_use]
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// Every tensor record, in file order.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`, if the file has it.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&i| &self.tensors[i])
    }

    /// The shape of the tensor called `name`, in groups of any kind or not; fastest first.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let grouped = self.grouped.get(name).map(|g| vec![g.shape[1], g.shape[0]]);
        grouped.or_else(|| self.tensor(name).map(|t| t.dims.clone()))
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`] if the file has no tensor of that name.
    pub fn require_tensor(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        self.tensor(name)
            .ok_or_else(|| GgufError::MissingTensor { file: self.file.clone(), name: name.to_owned() })
    }

    /// The bytes of the tensor called `name`.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`] if the file has no tensor of that name.
    pub fn tensor_data(&self, name: &str) -> Result<&'a [u8], GgufError> {
        let tensor = self.require_tensor(name)?;
        Ok(&self.parts[tensor.part].bytes[tensor.range.clone()])
    }
}
