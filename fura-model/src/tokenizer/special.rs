//! Special tokens: their texts, and which of them start and end things.

use std::collections::HashMap;
use std::ops::Range;

use crate::gguf::Gguf;

use super::TokenizerError;
use super::vocabulary::{TokenKind, Vocabulary};

/// Texts of tokens that end a turn or the text in some model family, most specific first. Files often
/// name only one of a model's several end tokens in their metadata.
const TURN_ENDS: [&str; 5] = ["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>"];
const OTHER_ENDS: [&str; 2] = ["<|end_of_text|>", "<|eom_id|>"];

/// Whether a token's text marks a turn or a role, whatever kind the file gives it: text must never become it.
pub(super) fn is_turn_marker(text: &str) -> bool {
    let known = ["<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<s>", "</s>", "[INST]", "[/INST]"];
    known.contains(&text) || (text.starts_with("<|") && text.ends_with("|>"))
}

/// The ids of tokens with a role.
#[derive(Debug, Clone, Default)]
pub(super) struct SpecialIds {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) eot: Option<u32>,
    pub(super) eom: Option<u32>,
    pub(super) unknown: Option<u32>,
    /// Sorted, without repetition.
    pub(super) stop: Vec<u32>,
}

impl SpecialIds {
    pub(super) fn load(gguf: &Gguf<'_>, ids: &HashMap<&str, u32>) -> Result<Self, TokenizerError> {
        let role = |key: &str| match gguf.opt_u32(key)? {
            Some(id) if id as usize >= ids.len() => {
                Err(TokenizerError::IdRange { at: gguf.location(key), id, len: ids.len() })
            }
            id => Ok(id),
        };
        let by_text = |text: &&str| ids.get(text).copied();
        let bos = role("tokenizer.ggml.bos_token_id")?;
        let eos = role("tokenizer.ggml.eos_token_id")?;
        let eot = role("tokenizer.ggml.eot_token_id")?.or_else(|| TURN_ENDS.iter().find_map(by_text));
        let eom = role("tokenizer.ggml.eom_token_id")?.or_else(|| by_text(&"<|eom_id|>"));
        let unknown = role("tokenizer.ggml.unknown_token_id")?;
        let named = [eos, eot, eom].into_iter().flatten();
        let known = TURN_ENDS.iter().chain(&OTHER_ENDS).filter_map(by_text);
        // Our own key, for files that name several.
        let mut more = Vec::new();
        for id in gguf.opt_i32s("fura.stop_token_ids")?.into_iter().flatten() {
            let id = id.cast_unsigned();
            if id as usize >= ids.len() {
                let at = gguf.location("fura.stop_token_ids");
                return Err(TokenizerError::IdRange { at, id, len: ids.len() });
            }
            more.push(id);
        }
        let mut stop: Vec<u32> = named.chain(known).chain(more).collect();
        stop.sort_unstable();
        stop.dedup();
        Ok(Self { bos, eos, eot, eom, unknown, stop })
    }

    /// Whether `id` has a role that makes it a control token, whatever the file says of its kind.
    pub(super) fn is_control(&self, id: u32) -> bool {
        self.bos == Some(id) || self.stop.binary_search(&id).is_ok()
    }
}

/// Finds the texts of some kinds of tokens, such as control tokens, in a text.
#[derive(Debug, Clone)]
pub(super) struct SpecialTexts {
    ids: HashMap<Box<[u8]>, u32>,
    /// The lengths that occur, longest first.
    lengths: Vec<usize>,
    /// The bytes that a text can start with.
    starts: [bool; 256],
}

impl SpecialTexts {
    pub(super) fn new(vocabulary: &Vocabulary, wanted: impl Fn(TokenKind) -> bool) -> Self {
        let mut ids: HashMap<Box<[u8]>, u32> = HashMap::new();
        let mut starts = [false; 256];
        for (id, kind, bytes) in vocabulary.iter() {
            if let (true, Some(&first)) = (wanted(kind), bytes.first()) {
                starts[usize::from(first)] = true;
                ids.insert(bytes.into(), id);
            }
        }
        let mut lengths: Vec<usize> = ids.keys().map(|text| text.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        Self { ids, lengths, starts }
    }

    /// All texts, in no order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.ids.keys().map(|text| &**text)
    }

    /// The id of the special token with exactly this text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text.as_bytes()).copied()
    }

    /// The first special text in `text`, the longest of those that start there.
    pub(super) fn find(&self, text: &str) -> Option<(Range<usize>, u32)> {
        let bytes = text.as_bytes();
        let mut candidates = (0..bytes.len()).filter(|&start| self.starts[usize::from(bytes[start])]);
        candidates.find_map(|start| {
            self.lengths.iter().find_map(|&len| {
                let end = start.checked_add(len)?;
                let id = self.ids.get(bytes.get(start..end)?)?;
                Some((start..end, *id))
            })
        })
    }
}
