//! SentencePiece's byte-pair model: adjacent pieces are joined, best score first.
//!
//! Source: Kudo and Richardson, arXiv 1808.06226, and the `llama` vocabulary of `ggml-org/llama.cpp`. Spaces are
//! written U+2581 in the file; here they are spaces everywhere, and the caller makes spaces of those in a text.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::merges::{self, Merges};
use super::vocabulary::{TokenKind, Vocabulary};

/// The pieces of a vocabulary, their scores, and the tokens of single bytes.
#[derive(Debug, Clone)]
pub(super) struct SentencePiece {
    /// Tokens that text can become, in order of their bytes.
    by_bytes: Vec<u32>,
    joins: Joins,
    byte_ids: [Option<u32>; 256],
    unknown: Option<u32>,
    pub(super) spaces: Spaces,
}

/// Which neighbours are joined, and in what order.
#[derive(Debug, Clone)]
pub(super) enum Joins {
    /// Those that make a piece, best score first; one score for each token.
    Scores(Vec<f32>),
    /// Those of a table, in its order.
    Table(CharacterMerges),
}

/// A merge table over characters: what `tokenizer.json` makes of a SentencePiece model.
#[derive(Debug, Clone)]
pub(super) struct CharacterMerges {
    pub(super) characters: HashMap<char, u32>,
    pub(super) merges: Merges,
}

/// What becomes of spaces around special tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spaces {
    /// Whether a space is put before a text, and before what follows a special token.
    pub(super) before: bool,
    /// Whether only a text's beginning gets that space, and only if it has none.
    pub(super) first_only: bool,
    /// Whether white space after a special token other than the first ones is not text (Phi-3).
    pub(super) strip_after_special: bool,
}

/// Working memory of [`SentencePiece::encode`].
#[derive(Debug, Default)]
pub(super) struct Workspace {
    text: Vec<u8>,
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Candidate>,
    merges: merges::Workspace,
}

/// A piece of the text in a doubly linked list; `usize::MAX` ends it. A joined piece has length 0.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: usize,
    len: usize,
    prev: usize,
    next: usize,
}

/// Two neighbours that could be joined.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    /// Their joint length when they were found: if it has changed, the candidate is out of date.
    len: usize,
}

impl Ord for Candidate {
    /// Better scores first, then earlier places.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl SentencePiece {
    /// `unknown` stands for characters that are neither pieces nor bytes.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        joins: Joins,
        byte_ids: [Option<u32>; 256],
        unknown: Option<u32>,
        spaces: Spaces,
    ) -> Self {
        let piece = |kind| matches!(kind, TokenKind::Normal | TokenKind::UserDefined);
        let mut by_bytes: Vec<u32> = vocabulary
            .iter()
            .filter(|(_, kind, bytes)| piece(*kind) && !bytes.is_empty())
            .map(|(id, ..)| id)
            .collect();
        by_bytes.sort_by_key(|id| vocabulary.bytes(*id));
        Self { by_bytes, joins, byte_ids, unknown, spaces }
    }

    pub(super) fn byte_ids(&self) -> &[Option<u32>; 256] {
        &self.byte_ids
    }

    fn find(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Option<u32> {
        let at = self.by_bytes.partition_point(|id| vocabulary.bytes(*id) < Some(bytes));
        self.by_bytes.get(at).copied().filter(|id| vocabulary.bytes(*id) == Some(bytes))
    }

    /// Encodes a stretch of text that comes `first` or after a special token, after a space if the vocabulary wants it.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        first: bool,
        work: &mut Workspace,
        out: &mut Vec<u32>,
    ) {
        if text.is_empty() {
            return;
        }
        let wanted = !self.spaces.first_only || first && !text.starts_with(' ');
        let space = (self.spaces.before && wanted).then_some(' ');
        let characters = space.into_iter().chain(text.chars());
        let scores = match &self.joins {
            Joins::Scores(scores) => scores,
            Joins::Table(table) => {
                let mut ids = Vec::with_capacity(text.len());
                for c in characters {
                    match table.characters.get(&c) {
                        Some(id) => ids.push(*id),
                        None => self.bytes_or_unknown(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut ids),
                    }
                }
                table.merges.apply(ids.into_iter(), &mut work.merges, out);
                return;
            }
        };
        let Workspace { text: bytes, symbols, queue, .. } = work;
        bytes.clear();
        symbols.clear();
        queue.clear();
        for c in characters {
            let (start, i) = (bytes.len(), symbols.len());
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            symbols.push(Symbol { start, len: bytes.len() - start, prev: i.wrapping_sub(1), next: i + 1 });
        }
        if let Some(last) = symbols.last_mut() {
            last.next = usize::MAX;
        }
        let candidate = |symbols: &[Symbol], left: usize| {
            let a = symbols.get(left)?;
            let b = symbols.get(a.next)?;
            let len = a.len + b.len;
            let id = self.find(vocabulary, &bytes[a.start..a.start + len])?;
            Some(Candidate { score: scores[id as usize], left, right: a.next, len })
        };
        queue.extend((0..symbols.len()).filter_map(|left| candidate(symbols, left)));
        while let Some(Candidate { left, right, len, .. }) = queue.pop() {
            let (a, b) = (symbols[left], symbols[right]);
            if a.len == 0 || b.len == 0 || a.len + b.len != len {
                continue;
            }
            symbols[right].len = 0;
            symbols[left].len = len;
            symbols[left].next = b.next;
            if let Some(next) = symbols.get_mut(b.next) {
                next.prev = left;
            }
            queue.extend([a.prev, left].into_iter().filter_map(|left| candidate(symbols, left)));
        }
        let mut at = 0;
        while let Some(symbol) = symbols.get(at) {
            let piece = &bytes[symbol.start..symbol.start + symbol.len];
            match self.find(vocabulary, piece) {
                Some(id) => out.push(id),
                // Only single characters are no piece.
                None => self.bytes_or_unknown(piece, out),
            }
            at = symbol.next;
        }
    }

    /// The tokens of a character that is no piece.
    fn bytes_or_unknown(&self, character: &[u8], out: &mut Vec<u32>) {
        if character.iter().all(|b| self.byte_ids[usize::from(*b)].is_some()) {
            out.extend(character.iter().filter_map(|b| self.byte_ids[usize::from(*b)]));
        } else {
            out.extend(self.unknown);
        }
    }
}

/// The byte that a byte token's text names, such as `<0x0A>`.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// A token's bytes: its text with spaces for U+2581.
pub(super) fn spell(text: &str) -> Vec<u8> {
    text.replace('\u{2581}', " ").into_bytes()
}
