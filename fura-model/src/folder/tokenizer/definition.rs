//! What `tokenizer.json` may say; anything else is refused by name.

use super::super::FolderError;
use super::super::json::{self, Pairs};
use crate::gguf::printable;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    #[serde(default, rename = "version")]
    pub(super) _version: Value,
    #[serde(default, rename = "truncation")]
    pub(super) _truncation: Value,
    #[serde(default, rename = "padding")]
    pub(super) _padding: Value,
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(default)]
    pub(super) post_processor: Value,
    #[serde(default, rename = "decoder")]
    pub(super) _decoder: Value,
    pub(super) model: Bpe,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) special: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default, rename = "normalized")]
    pub(super) _normalized: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bpe {
    #[serde(default, rename = "type")]
    pub(super) _type: Value,
    #[serde(default)]
    pub(super) dropout: Option<f64>,
    #[serde(default)]
    pub(super) unk_token: Option<String>,
    #[serde(default)]
    pub(super) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(super) end_of_word_suffix: Option<String>,
    /// Runs of unknown characters; there are none where every byte has a token, and byte-level vocabularies drop them.
    #[serde(default, rename = "fuse_unk")]
    pub(super) _fuse_unk: bool,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    pub(super) vocab: Pairs<u32>,
    pub(super) merges: Vec<Merge>,
}

/// A merge as one text with a space, or as two texts.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Merge {
    Joined(String),
    Pair([String; 2]),
}

/// Refuses other algorithms than byte-pair encoding by name, before their tables are read.
pub(super) fn check_model(file: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default, rename = "type")]
        kind: Option<String>,
    }
    #[derive(Deserialize)]
    struct Outline {
        model: Kind,
    }
    let Outline { model } = json::parse(file, 0, bytes)?;
    match model.kind {
        Some(kind) if kind != "BPE" => Err(FolderError::Field {
            file: file.to_owned(),
            field: "model.type".to_owned(),
            found: printable(&kind),
            expected: "BPE".to_owned(),
        }),
        _ => Ok(()),
    }
}
