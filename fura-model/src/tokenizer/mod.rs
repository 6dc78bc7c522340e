//! Tokenizers, built from the metadata of the model's own GGUF file: byte-level BPE and SentencePiece.
//!
//! Byte-level BPE cuts text into pieces ([`PreTokenizer`]); each piece's bytes become one token each, and adjacent
//! tokens are merged in the order of the merge table. SentencePiece joins adjacent characters, best score first; it
//! usually puts a space before the text, which decoding gives back. Both take linear or n log n time on any text. Where the
//! vocabulary is Qwen2's, or `tokenizer.json` says so, text is composed first (Unicode's normalization form C); there is no
//! other text normalization.
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

mod bpe;
mod byte_alphabet;
mod error;
mod load;
mod merges;
mod pre_tokenizer;
mod sentencepiece;
mod special;
mod stream;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use error::TokenizerError;
pub use pre_tokenizer::PreTokenizer;
pub use stream::TokenStream;
pub use vocabulary::TokenKind;

use crate::gguf::Gguf;

use bpe::Bpe;
use sentencepiece::SentencePiece;
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

/// How text that holds no special tokens is encoded.
#[derive(Debug, Clone)]
enum Algorithm {
    Bpe(Box<Bpe>),
    SentencePiece(Box<SentencePiece>),
}

/// Working memory of the algorithms.
#[derive(Debug, Default)]
struct Workspace {
    merges: merges::Workspace,
    pieces: sentencepiece::Workspace,
}

/// A tokenizer. See the [module's example](self).
#[derive(Debug, Clone)]
pub struct Tokenizer {
    algorithm: Algorithm,
    special_texts: SpecialTexts,
    /// Those of user-defined tokens, if they are found in any text: SentencePiece's way.
    user_texts: Option<SpecialTexts>,
    vocabulary: Vocabulary,
    roles: SpecialIds,
    add_bos: bool,
}

impl Tokenizer {
    /// Builds the tokenizer that the file describes.
    ///
    /// # Errors
    /// See [`TokenizerError`]: missing or mistyped metadata, another tokenizer than byte-level BPE and
    /// SentencePiece, an unknown pre-tokenizer, and everything inconsistent.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, TokenizerError> {
        load::load(gguf, None)
    }

    /// Builds the tokenizer of a folder with `tokenizer.json` and, if they are there, `tokenizer_config.json`,
    /// `generation_config.json` and `chat_template.jinja`. [`Model::open`](crate::Model::open) does this itself.
    ///
    /// # Errors
    /// See [`FolderError`](crate::FolderError): another algorithm than byte-pair encoding, an unknown way to cut or
    /// normalize text, and everything inconsistent, by file and field.
    pub fn from_folder(folder: &std::path::Path) -> Result<Self, crate::ModelError> {
        crate::folder::tokenizer(folder)
    }

    /// As [`from_gguf`](Self::from_gguf), but with a pre-tokenizer of the caller's choice: for files that
    /// name none or an unknown one. It means nothing to SentencePiece.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf), except for the pre-tokenizer.
    pub fn with_pre_tokenizer(gguf: &Gguf<'_>, pre: PreTokenizer) -> Result<Self, TokenizerError> {
        load::load(gguf, Some(pre))
    }

    /// Encodes raw text that a sequence begins with: after [`bos`](Self::bos), if the [file wants it](Self::add_bos).
    /// What a chat template wrote is no raw text.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_beginning(&self, text: &str, specials: Specials) -> Result<Vec<u32>, TokenizerError> {
        let mut out: Vec<u32> = self.bos().filter(|_| self.add_bos).into_iter().collect();
        self.encode_into(text, specials, &mut out)?;
        Ok(out)
    }

    /// Whether `ids` begin with [`bos`](Self::bos) twice, which no model was trained on.
    #[must_use]
    pub fn begins_twice(&self, ids: &[u32]) -> bool {
        matches!(ids, [first, second, ..] if first == second && self.bos() == Some(*first))
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
        self.encode_part(text, specials, true, out)
    }

    /// As [`encode_into`](Self::encode_into), of a part of a text that comes `first` in it or after a special token.
    pub(crate) fn encode_part(
        &self,
        text: &str,
        specials: Specials,
        mut first: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut work = Workspace::default();
        let texts = match specials {
            Specials::Parse => Some(&self.special_texts),
            Specials::Ignore => self.user_texts.as_ref(),
        };
        // Before the tokens of runs of spaces are looked for: to SentencePiece a U+2581 in a text is a space.
        let spaced = match &self.algorithm {
            Algorithm::SentencePiece(_) if text.contains('\u{2581}') => Some(text.replace('\u{2581}', " ")),
            _ => None,
        };
        let mut rest = spaced.as_deref().unwrap_or(text);
        while let Some((range, id)) = texts.and_then(|texts| texts.find(rest)) {
            self.encode_text(&rest[..range.start], first, &mut work, out)?;
            first = false;
            out.push(id);
            rest = self.after_special(id, &rest[range.end..]);
        }
        self.encode_text(rest, first, &mut work, out)
    }

    /// Encodes text between special tokens.
    fn encode_text(
        &self,
        text: &str,
        first: bool,
        work: &mut Workspace,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match &self.algorithm {
            Algorithm::Bpe(bpe) => bpe.encode(text, &mut work.merges, out),
            Algorithm::SentencePiece(pieces) => {
                pieces.encode(&self.vocabulary, text, first, &mut work.pieces, out);
                Ok(())
            }
        }
    }

    /// The first control or user-defined token's text in `text`, the longest of those that start there.
    pub(crate) fn find_special(&self, text: &str) -> Option<(std::ops::Range<usize>, u32)> {
        self.special_texts.find(text)
    }

    /// The texts of all control and user-defined tokens.
    pub(crate) fn special_texts(&self) -> impl Iterator<Item = &[u8]> {
        self.special_texts.texts()
    }

    /// What of `rest`, which follows special token `id`, is text: white space may not be.
    pub(crate) fn after_special<'t>(&self, id: u32, rest: &'t str) -> &'t str {
        let strips = match &self.algorithm {
            Algorithm::SentencePiece(pieces) => {
                let keeps = self.roles.bos == Some(id) || self.token_bytes(id) == Some(b"<|endoftext|>");
                pieces.spaces.strip_after_special && self.is_control(id) && !keeps
            }
            Algorithm::Bpe(_) => false,
        };
        if strips { rest.trim_start() } else { rest }
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

    /// The tokens after which generation ends: eos, eot, eom, every token with the text of a known end
    /// token, and in a [`Model`](crate::Model) the one that ends a turn in its chat template; sorted.
    #[must_use]
    pub fn stop_ids(&self) -> &[u32] {
        &self.roles.stop
    }

    /// Makes control token `id` one that ends generation.
    pub(crate) fn stop_at(&mut self, id: u32) {
        if let (true, Err(place)) = (self.is_control(id), self.roles.stop.binary_search(&id)) {
            self.roles.stop.insert(place, id);
        }
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

    /// The pre-tokenizer in use; `None` for SentencePiece, which has none.
    #[must_use]
    pub fn pre_tokenizer(&self) -> Option<PreTokenizer> {
        match &self.algorithm {
            Algorithm::Bpe(bpe) => Some(bpe.pre),
            Algorithm::SentencePiece(_) => None,
        }
    }

    /// The byte values that no token stands for: text that holds them is encoded without them. Some
    /// vocabularies lack rare control characters, and those that no UTF-8 text holds. SentencePiece has tokens for
    /// whole characters too, and an unknown token for what is left.
    pub fn missing_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let byte_ids = match &self.algorithm {
            Algorithm::Bpe(bpe) => &bpe.byte_ids,
            Algorithm::SentencePiece(pieces) => pieces.byte_ids(),
        };
        (0..=u8::MAX).filter(|&byte| byte_ids[usize::from(byte)].is_none())
    }
}
