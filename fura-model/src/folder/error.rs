//! What can be wrong with a folder of the transformers layout.

use std::path::PathBuf;

/// A folder with `config.json` that cannot be used.
///
/// Every message is one line: file, field, what was expected, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file is not the JSON that it should be.
    #[error("{}: at byte {offset}: {problem}; the file is damaged, download it again", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Where in the file.
        offset: usize,
        /// What is wrong.
        problem: String,
    },
    /// The header of a safetensors file contradicts itself or the file's length.
    #[error("{}: '{tensor}' (header at byte {offset}): {problem}; the file is damaged, download it again", file.display())]
    Header {
        /// The file.
        file: PathBuf,
        /// The tensor, or the part of the file.
        tensor: String,
        /// Where in the file.
        offset: usize,
        /// What is wrong.
        problem: String,
    },
    /// A field has an impossible value or is missing.
    #[error("{}: '{field}' is {found}, expected {expected}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The field, with its parents.
        field: String,
        /// Value found.
        found: String,
        /// What would be accepted.
        expected: String,
    },
    /// The folder asks for something that this engine does not compute.
    #[error("{}: {feature} is not supported; {advice}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The feature, as the file names it.
        feature: String,
        /// What to do instead.
        advice: &'static str,
    },
}
