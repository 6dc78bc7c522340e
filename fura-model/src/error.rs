//! What can go wrong between a file and its logits.

use std::path::PathBuf;

/// Errors of loading and running a model. Every message is one line: file, field, what was expected, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file could not be read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The GGUF container is damaged.
    #[error(transparent)]
    Gguf(#[from] crate::gguf::GgufError),
    /// A folder of the transformers layout is damaged or of an unknown kind.
    #[error(transparent)]
    Folder(#[from] crate::folder::FolderError),
    /// The tokenizer metadata is damaged or of an unknown kind.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::TokenizerError),
    /// The file asks for something this engine does not compute.
    #[error("{}: {feature} is not supported; {advice}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The feature, as the file names it.
        feature: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// A tensor has another shape than the hyperparameters say.
    #[error("{}: tensor '{tensor}' is {found:?}, expected {expected:?} (GGUF order); the file is inconsistent", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// Tensor name.
        tensor: String,
        /// Dimensions found.
        found: Vec<usize>,
        /// Dimensions expected.
        expected: Vec<usize>,
    },
    /// A hyperparameter is impossible.
    #[error("{}: metadata '{key}' is {found}, expected {expected}", file.display())]
    Metadata {
        /// The file.
        file: PathBuf,
        /// Metadata key.
        key: String,
        /// Value found.
        found: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// Quantized weights are damaged.
    #[error("{}: tensor '{tensor}': {source}", file.display())]
    Weights {
        /// The file.
        file: PathBuf,
        /// Tensor name.
        tensor: String,
        /// What is wrong.
        source: fura_quant::QuantError,
    },
    /// A block spectrum could not be computed.
    #[error("{}: tensor '{tensor}': {source}", file.display())]
    Spectrum {
        /// The file.
        file: PathBuf,
        /// Tensor name.
        tensor: String,
        /// What is wrong.
        source: fura_core::spectrum::SpectrumError,
    },
    /// The linears do not form a layout.
    #[error("{}: {source}", file.display())]
    Layout {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: fura_core::layout::LayoutError,
    },
    /// A pack file is damaged or of another version.
    #[error("{}: {field} at byte {offset}: {problem}; delete the file, it is made again from the model", file.display())]
    Pack {
        /// The pack file.
        file: PathBuf,
        /// Field of the pack.
        field: &'static str,
        /// Where in the file.
        offset: usize,
        /// What is wrong.
        problem: String,
    },
    /// Making a pack was ended by its progress callback; nothing is left of it.
    #[error("{}: making its pack was interrupted; it is made from the start when the model is opened again", file.display())]
    Interrupted {
        /// The model's file.
        file: PathBuf,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    Token {
        /// The id.
        id: u32,
        /// Vocabulary size.
        vocab: usize,
    },
    /// More rows or positions than the workspace was planned for.
    #[error("{what}: {asked} needed, {planned} planned; plan a larger workspace or shorten the prompt")]
    Capacity {
        /// What ran out.
        what: &'static str,
        /// How much was asked for.
        asked: usize,
        /// How much there is.
        planned: usize,
    },
    /// A sampling setting is impossible.
    #[error("{setting} is {value}, expected {expected}")]
    Sampling {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: f32,
        /// What would be accepted.
        expected: &'static str,
    },
    /// Legal answers that cannot be told apart.
    #[error("legal answers '{first}' and '{second}': {problem}")]
    Choices {
        /// One answer.
        first: String,
        /// The other.
        second: String,
        /// Why they clash.
        problem: &'static str,
    },
    /// The pool has more threads than the buffers were made for.
    #[error(
        "the thread pool is larger than the buffers were made for; make them for the pool's thread count"
    )]
    Threads,
}
