//! The vocabulary by id, with the kinds of `tokenizer.ggml.token_type`.

use super::super::FolderError;
use super::SPACE;
use super::definition::Definition;
use crate::gguf::printable;
use std::collections::HashMap;
use std::path::Path;

/// The kinds of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// Texts and kinds by id.
pub(super) struct Tokens {
    pub(super) texts: Vec<String>,
    pub(super) kinds: Vec<i32>,
    pub(super) ids: HashMap<String, u32>,
}

impl Tokens {
    pub(super) fn new(
        file: &Path,
        definition: &Definition,
        vocab: Option<usize>,
    ) -> Result<Self, FolderError> {
        let bad = |field: String, found: String, expected: String| FolderError::Field {
            file: file.to_owned(),
            field,
            found,
            expected,
        };
        // Every token takes several bytes of the file, so there are not too many.
        let named = definition.model.vocab.0.len() + definition.added_tokens.len();
        let vocab = vocab.unwrap_or_else(|| {
            let added = definition.added_tokens.iter().map(|added| added.id as usize);
            let ids = definition.model.vocab.0.iter().map(|(_, id)| *id as usize).chain(added);
            ids.max().map_or(0, |last| last.saturating_add(1)).min(named)
        });
        let mut texts: Vec<Option<&str>> = vec![None; vocab];
        let mut kinds = vec![NORMAL; vocab];
        let mut put = |id: u32, text, field: &str| match texts.get_mut(id as usize) {
            None => Err(bad(field.to_owned(), format!("id {id}"), format!("ids below {vocab}"))),
            Some(Some(other)) if *other != text => {
                let found = format!("'{}' with id {id}", printable(text));
                Err(bad(field.to_owned(), found, format!("'{}' as before", printable(other))))
            }
            Some(place) => {
                *place = Some(text);
                Ok(())
            }
        };
        for (text, id) in &definition.model.vocab.0 {
            put(*id, text, "model.vocab")?;
        }
        for added in &definition.added_tokens {
            put(added.id, &added.content, "added_tokens")?;
        }
        let fallback = definition.model.byte_fallback;
        let texts: Vec<String> = (0..)
            .zip(texts)
            .zip(&mut kinds)
            .map(|((id, text), kind): ((u32, _), _)| match text {
                Some(text) => {
                    let byte = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
                    if fallback && byte.is_some_and(|t| t.len() == 2 && u8::from_str_radix(t, 16).is_ok()) {
                        *kind = BYTE;
                    }
                    text.to_owned()
                }
                None => {
                    // Rows of the embedding that no text reaches.
                    *kind = UNUSED;
                    format!("[PAD{id}]")
                }
            })
            .collect();
        for added in &definition.added_tokens {
            let unknown = definition.model.unk_token.as_ref() == Some(&added.content);
            kinds[added.id as usize] = match (unknown && fallback, added.special) {
                (true, _) => UNKNOWN,
                (_, true) => CONTROL,
                // Looked for before spaces are written so, these are found by merging alone.
                (_, false) if fallback && added.content.contains(SPACE) => NORMAL,
                (_, false) => USER_DEFINED,
            };
        }
        let mut ids = HashMap::with_capacity(texts.len());
        for (id, text) in (0..).zip(&texts) {
            if let Some(first) = ids.insert(text.clone(), id) {
                let found = format!("'{}' with ids {first} and {id}", printable(text));
                return Err(bad("model.vocab".to_owned(), found, "each text once".to_owned()));
            }
        }
        Ok(Self { texts, kinds, ids })
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }
}
