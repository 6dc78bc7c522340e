//! Byte-level BPE: pieces of a text are cut into bytes, and adjacent tokens merged by rank.

use std::collections::HashMap;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::merges::{Merges, Workspace};
use super::pre_tokenizer::Splitter;
use super::{PreTokenizer, TokenizerError};

/// The tables of a byte-level BPE vocabulary.
#[derive(Debug, Clone)]
pub(super) struct Bpe {
    pub(super) pre: PreTokenizer,
    pub(super) splitter: Splitter,
    /// Whether text is brought into Unicode's normalization form C first.
    pub(super) nfc: bool,
    pub(super) byte_ids: [Option<u32>; 256],
    pub(super) merges: Merges,
    /// Pieces that are tokens as they are, for pre-tokenizers that prefer those to merging.
    pub(super) whole_pieces: Option<HashMap<Box<[u8]>, u32>>,
}

impl Bpe {
    /// Encodes a stretch of text without special tokens.
    pub(super) fn encode(
        &self,
        text: &str,
        work: &mut Workspace,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let composed = match self.nfc && is_nfc_quick(text.chars()) != IsNormalized::Yes {
            true => Some(text.nfc().collect::<String>()),
            false => None,
        };
        self.splitter.split(composed.as_deref().unwrap_or(text), |piece| {
            let bytes = piece.as_bytes();
            if let Some(&id) = self.whole_pieces.as_ref().and_then(|whole| whole.get(bytes)) {
                out.push(id);
                return;
            }
            let id = |byte: u8| self.byte_ids[usize::from(byte)];
            // Tokens on the two sides of a byte left out are not neighbours and do not merge.
            for run in bytes.split(|&byte| id(byte).is_none()) {
                self.merges.apply(run.iter().filter_map(|&byte| id(byte)), work, out);
            }
        })
    }
}
