//! Byte-level BPE, built from the metadata of the model's own GGUF file.
//!
//! Text is cut into pieces ([`PreTokenizer`]), each piece's bytes become one token each, and adjacent
//! tokens are merged in the order of the merge table. Both steps take linear or n log n time on any text.
//! There is no text normalization.
//!
//! Control tokens, which mark turns and ends, are out of reach of plain text: [`Specials::Ignore`], which
//! is for all text that a user or a model wrote, never gives one, and a file in which it could is refused.
//!
//! ```
//! use std::path::Path;
//! use fura_model::gguf::{Gguf, GgufWriter};
//! use fura_model::tokenizer::{Specials, Tokenizer};
//!
//! let mut writer = GgufWriter::new();
//! writer
//!     .kv("tokenizer.ggml.model", "gpt2")
//!     .kv("tokenizer.ggml.pre", "gpt-2")
//!     .strings("tokenizer.ggml.tokens", &["h", "i", "<", "|", "e", ">", "hi", "<|e|>"])
//!     .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 1, 1, 1, 1, 3])
//!     .strings("tokenizer.ggml.merges", &["h i"])
//!     .kv("tokenizer.ggml.eos_token_id", 7_u32);
//! let bytes = writer.finish()?;
//! let tokenizer = Tokenizer::from_gguf(&Gguf::parse(&bytes, Path::new("tiny.gguf"))?)?;
//!
//! assert_eq!(tokenizer.encode("hi<|e|>", Specials::Parse)?, [6, 7]);
//! assert_eq!(tokenizer.encode("hi<|e|>", Specials::Ignore)?, [6, 2, 3, 4, 3, 5]);
//! assert_eq!(tokenizer.decode_lossy(&[6, 7]), "hi<|e|>");
//! assert!(tokenizer.is_stop(7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod byte_alphabet;
mod error;
mod load;
mod merges;
mod pre_tokenizer;
mod special;
mod stream;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::HashMap;

pub use error::TokenizerError;
pub use pre_tokenizer::PreTokenizer;
pub use stream::TokenStream;
pub use vocabulary::TokenKind;

use crate::gguf::Gguf;

use merges::{Merges, Workspace};
use pre_tokenizer::Splitter;
use special::{SpecialIds, SpecialTexts};
use vocabulary::Vocabulary;

/// What to do with the texts of control and user-defined tokens in the text to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Specials {
    /// They are text like any other: the only choice for text that the program did not write itself.
    Ignore,
    /// They become their tokens; where several match, the leftmost and then the longest wins.
    Parse,
}

/// A byte-level BPE tokenizer. See the [module's example](self).
#[derive(Debug, Clone)]
pub struct Tokenizer {
    pre: PreTokenizer,
    splitter: Splitter,
    special_texts: SpecialTexts,
    vocabulary: Vocabulary,
    byte_ids: [Option<u32>; 256],
    merges: Merges,
    /// Pieces that are tokens as they are, for pre-tokenizers that prefer those to merging.
    whole_pieces: Option<HashMap<Box<[u8]>, u32>>,
    roles: SpecialIds,
    add_bos: bool,
}

impl Tokenizer {
    /// Builds the tokenizer that the file describes.
    ///
    /// # Errors
    /// See [`TokenizerError`]: missing or mistyped metadata, another tokenizer than byte-level BPE, an
    /// unknown pre-tokenizer, and everything inconsistent.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, TokenizerError> {
        load::load(gguf, load::named_pre(gguf)?)
    }

    /// As [`from_gguf`](Self::from_gguf), but with a pre-tokenizer of the caller's choice: for files that
    /// name none or an unknown one.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf), except for the pre-tokenizer.
    pub fn with_pre_tokenizer(gguf: &Gguf<'_>, pre: PreTokenizer) -> Result<Self, TokenizerError> {
        load::load(gguf, pre)
    }

    /// Encodes `text`. Nothing is added at its start or end.
    ///
    /// Bytes that are [missing](Self::missing_bytes) from the vocabulary are left out.
    ///
    /// # Errors
    /// [`TokenizerError::Split`] if the regular expression engine gives up.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, TokenizerError> {
        let mut out = Vec::new();
        self.encode_into(text, specials, &mut out)?;
        Ok(out)
    }

    /// As [`encode`](Self::encode), appending to `out`.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode); `out` then holds the tokens of a part of the text.
    pub fn encode_into(
        &self,
        text: &str,
        specials: Specials,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut work = Workspace::default();
        let mut rest = text;
        if specials == Specials::Parse {
            while let Some((range, id)) = self.special_texts.find(rest) {
                self.encode_text(&rest[..range.start], &mut work, out)?;
                out.push(id);
                rest = &rest[range.end..];
            }
        }
        self.encode_text(rest, &mut work, out)
    }

    fn encode_text(
        &self,
        text: &str,
        work: &mut Workspace,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        self.splitter.split(text, |piece| {
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

    /// The bytes that `ids` stand for; not UTF-8 if a character's tokens are incomplete. Control tokens
    /// give their text; ids outside the vocabulary give U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        self.decode_into(ids, &mut out);
        out
    }

    /// As [`decode`](Self::decode), appending to `out`.
    pub fn decode_into(&self, ids: &[u32], out: &mut Vec<u8>) {
        for &id in ids {
            out.extend(self.token_bytes(id).unwrap_or("\u{fffd}".as_bytes()));
        }
    }

    /// As [`decode`](Self::decode), with U+FFFD for whatever is not UTF-8.
    #[must_use]
    pub fn decode_lossy(&self, ids: &[u32]) -> String {
        String::from_utf8_lossy(&self.decode(ids)).into_owned()
    }

    /// A decoder for tokens that arrive one at a time.
    #[must_use]
    pub fn stream(&self) -> TokenStream<'_> {
        TokenStream::new(self)
    }

    /// The number of tokens.
    #[must_use]
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The bytes that token `id` stands for; `None` outside the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes(id)
    }

    /// The kind of token `id`; `None` outside the vocabulary.
    #[must_use]
    pub fn token_kind(&self, id: u32) -> Option<TokenKind> {
        self.vocabulary.kind(id)
    }

    /// Whether `id` is a control token: of that kind in the file, or with a role such as end of turn.
    #[must_use]
    pub fn is_control(&self, id: u32) -> bool {
        self.token_kind(id) == Some(TokenKind::Control)
    }

    /// The control or user-defined token with exactly this text, such as `<|im_start|>`.
    #[must_use]
    pub fn special_id(&self, text: &str) -> Option<u32> {
        self.special_texts.id(text)
    }

    /// The begin-of-sequence token.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.roles.bos
    }

    /// The end-of-sequence token.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.roles.eos
    }

    /// The end-of-turn token: as the file says, else the token with a known end-of-turn text.
    #[must_use]
    pub fn eot(&self) -> Option<u32> {
        self.roles.eot
    }

    /// The end-of-message token, with which a model hands over to a tool.
    #[must_use]
    pub fn eom(&self) -> Option<u32> {
        self.roles.eom
    }

    /// The tokens after which generation ends: eos, eot, eom and every token with the text of a known end
    /// token; sorted.
    #[must_use]
    pub fn stop_ids(&self) -> &[u32] {
        &self.roles.stop
    }

    /// Whether generation ends after `id`.
    #[must_use]
    pub fn is_stop(&self, id: u32) -> bool {
        self.roles.stop.binary_search(&id).is_ok()
    }

    /// Whether raw text, as opposed to text from a chat template, should start with [`bos`](Self::bos).
    /// If so, there is one.
    #[must_use]
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// The pre-tokenizer in use.
    #[must_use]
    pub fn pre_tokenizer(&self) -> PreTokenizer {
        self.pre
    }

    /// The byte values that no token stands for: text that holds them is encoded without them. Some
    /// vocabularies lack rare control characters, and those that no UTF-8 text holds.
    pub fn missing_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&byte| self.byte_ids[usize::from(byte)].is_none())
    }
}
