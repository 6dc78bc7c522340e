//! What can be wrong with a model's tokenizer.

use std::path::PathBuf;

use crate::gguf::{GgufError, Location};

use super::PreTokenizer;

/// A tokenizer that cannot be built from a file's metadata, or a text that cannot be split.
///
/// Every message is one line: file, metadata key, byte offset, what was expected, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A metadata key is missing or of the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// `tokenizer.ggml.model` is neither `gpt2`, the name for byte-level BPE, nor `llama`, that for SentencePiece.
    #[error(
        "{at}: tokenizer model '{found}', expected 'gpt2' (byte-level BPE) or 'llama' (SentencePiece); use a model with such a tokenizer"
    )]
    Model {
        /// Where.
        at: Box<Location>,
        /// The model found.
        found: String,
    },
    /// `tokenizer.ggml.pre` is missing.
    #[error("{}: metadata key 'tokenizer.ggml.pre' is missing, expected one of {}; convert the model again or name the pre-tokenizer (--pre NAME)", .file.display(), PreTokenizer::known())]
    MissingPre {
        /// The file.
        file: PathBuf,
    },
    /// `tokenizer.ggml.pre` names a pre-tokenizer that this crate does not implement.
    #[error(
        "{at}: unknown pre-tokenizer '{found}', expected one of {}; use another model or name a pre-tokenizer known to split alike (--pre NAME)",
        PreTokenizer::known()
    )]
    UnknownPre {
        /// Where.
        at: Box<Location>,
        /// The name found.
        found: String,
    },
    /// More tokens than any model has.
    #[error("{at}: {count} tokens, expected 1 to {limit}; the file is damaged, download or convert it again")]
    TokenCount {
        /// Where.
        at: Box<Location>,
        /// The count found.
        count: usize,
        /// The largest count accepted.
        limit: usize,
    },
    /// A token's text that is not UTF-8.
    #[error("{at}: token {id} is not valid UTF-8; the file is damaged, download or convert it again")]
    TokenUtf8 {
        /// Where.
        at: Box<Location>,
        /// The token.
        id: u32,
    },
    /// Two tokens with the same text.
    #[error(
        "{at}: token {id} has the same text '{text}' as token {first}; the file is damaged, convert it again"
    )]
    DuplicateToken {
        /// Where.
        at: Box<Location>,
        /// The token.
        id: u32,
        /// The earlier token.
        first: u32,
        /// Their text, escaped.
        text: String,
    },
    /// `tokenizer.ggml.token_type` has another length than the vocabulary.
    #[error(
        "{at}: {found} token types, expected one for each of {expected} tokens; the file is damaged, convert it again"
    )]
    KindCount {
        /// Where.
        at: Box<Location>,
        /// Types found.
        found: usize,
        /// Tokens in the vocabulary.
        expected: usize,
    },
    /// `tokenizer.ggml.scores` has another length than the vocabulary.
    #[error(
        "{at}: {found} scores, expected one for each of {expected} tokens; the file is damaged, convert it again"
    )]
    ScoreCount {
        /// Where.
        at: Box<Location>,
        /// Scores found.
        found: usize,
        /// Tokens in the vocabulary.
        expected: usize,
    },
    /// A score that is not a number.
    #[error("{at}: the score of token {id} is not a number; the file is damaged, convert it again")]
    Score {
        /// Where.
        at: Box<Location>,
        /// The token.
        id: u32,
    },
    /// A token of kind "byte" that does not name one.
    #[error(
        "{at}: byte token {id} is '{text}', expected the form <0x0A>; the file is damaged, convert it again"
    )]
    ByteToken {
        /// Where.
        at: Box<Location>,
        /// The token.
        id: u32,
        /// Its text, escaped.
        text: String,
    },
    /// A text normalization that this crate does not do.
    #[error("{at}: text normalization is not supported; use another model")]
    Normalization {
        /// Where.
        at: Box<Location>,
    },
    /// A token type that the format does not define.
    #[error("{at}: token {id} has type {found}, expected 0 to 6; the file is damaged, convert it again")]
    Kind {
        /// Where.
        at: Box<Location>,
        /// The token.
        id: u32,
        /// The type found.
        found: i32,
    },
    /// A special token id outside the vocabulary.
    #[error(
        "{at}: token id {id}, expected less than the vocabulary's {len}; the file is damaged, convert it again"
    )]
    IdRange {
        /// Where.
        at: Box<Location>,
        /// The id found.
        id: u32,
        /// Tokens in the vocabulary.
        len: usize,
    },
    /// `tokenizer.ggml.add_bos_token` asks for a token that the file does not name.
    #[error(
        "{at}: a begin-of-sequence token is asked for but 'tokenizer.ggml.bos_token_id' is missing; convert the model again"
    )]
    MissingBos {
        /// Where.
        at: Box<Location>,
    },
    /// A merge that is not two texts with one space between.
    #[error(
        "{at}: merge {index} is '{text}', expected two token texts with a space between; the file is damaged, convert it again"
    )]
    MergeForm {
        /// Where.
        at: Box<Location>,
        /// The merge.
        index: usize,
        /// Its text, escaped.
        text: String,
    },
    /// A merge of or into a text that is no token.
    #[error("{at}: merge {index} names '{text}', which is no token; the file is damaged, convert it again")]
    MergeToken {
        /// Where.
        at: Box<Location>,
        /// The merge.
        index: usize,
        /// The unknown text, escaped.
        text: String,
    },
    /// A control token that plain text would produce: a byte's token or the result of a merge.
    #[error(
        "{at}: control token {id} would be produced by plain text; the file is damaged or hostile, convert it again"
    )]
    ReachableControl {
        /// Where.
        at: Box<Location>,
        /// The token.
        id: u32,
    },
    /// No token stands for a single byte, so nothing can be encoded.
    #[error(
        "{at}: no single-byte tokens, expected a byte-level vocabulary; the file is damaged, convert it again"
    )]
    NoBytes {
        /// Where.
        at: Box<Location>,
    },
    /// The splitting of a text failed.
    #[error("text cannot be split into words: {source}; report this text as a bug")]
    Split {
        /// The regular expression engine's error.
        source: Box<fancy_regex::Error>,
    },
}

impl From<fancy_regex::Error> for TokenizerError {
    fn from(source: fancy_regex::Error) -> Self {
        Self::Split { source: Box::new(source) }
    }
}
