//! A batch: rows (tokens) belong to sequences, sequences to members.

use crate::error::ModelError;
use fura_simd::attention::Span;
use std::ops::Range;

/// The base model, whoever the other members are.
pub const BASE: u32 = u32::MAX;

/// One sequence's new tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// First row in the batch.
    pub(crate) start: usize,
    /// Number of new tokens.
    pub(crate) len: usize,
    /// Whose coordinates.
    pub(crate) member: u32,
    /// Tokens before the new ones.
    pub(crate) past: usize,
    /// Where the cache has them: a range of the batch's spans.
    pub(crate) spans: Range<usize>,
    /// Cache row of the first new token.
    pub(crate) store: usize,
    /// Row of its first token among states computed earlier (see [`crate::Engine::forward_from`]).
    pub(crate) state: usize,
    /// Whether any of its rows may be wanted; only its keys and values matter otherwise.
    pub(crate) goes_on: bool,
}

/// Tokens to forward together. Buffers are reused: `clear` and `push` do not allocate once grown.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) tokens: Vec<u32>,
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) spans: Vec<Span>,
}

impl Batch {
    /// Room for that many rows and sequences.
    pub fn with_capacity(rows: usize, sequences: usize) -> Self {
        Self {
            tokens: Vec::with_capacity(rows),
            sequences: Vec::with_capacity(sequences),
            spans: Vec::with_capacity(2 * sequences),
        }
    }

    /// Bytes of [`Batch::with_capacity`].
    pub fn bytes(rows: usize, sequences: usize) -> usize {
        let each = size_of::<Sequence>() + 2 * size_of::<Span>();
        rows.saturating_mul(size_of::<u32>()).saturating_add(sequences.saturating_mul(each))
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.sequences.clear();
        self.spans.clear();
    }

    /// Adds a whole prompt of `member` whose keys and values live in the batch's own rows of a
    /// [transient](crate::KvCache::transient) cache. Sequences of one member should follow each other.
    pub fn push_prompt(&mut self, member: u32, tokens: &[u32]) {
        let start = self.tokens.len();
        self.push(member, tokens, 0, start);
    }

    /// Adds `tokens` after `past` cached ones; position 0 of the sequence lies at cache row `base`.
    pub fn push(&mut self, member: u32, tokens: &[u32], past: usize, base: usize) {
        self.push_after(member, tokens, &[Span { first: base, len: past }], base + past);
    }

    /// Adds `tokens` whose past is the cache rows of `spans`, one span after the other; their own keys and values go
    /// to the rows from `store` on. Sequences may share spans, and a span may be rows of a sequence pushed before into
    /// the same batch: that is how what several sequences begin with is computed once. The rows of the spans must
    /// hold tokens of the same member.
    pub fn push_after(&mut self, member: u32, tokens: &[u32], spans: &[Span], store: usize) {
        let start = self.tokens.len();
        let first = self.spans.len();
        self.tokens.extend_from_slice(tokens);
        self.spans.extend(spans.iter().filter(|s| s.len > 0));
        self.sequences.push(Sequence {
            start,
            len: tokens.len(),
            member,
            past: spans.iter().map(|s| s.len).sum(),
            spans: first..self.spans.len(),
            store,
            state: start,
            goes_on: true,
        });
    }

    /// Adds the beginning of a prompt, read by the [base model](BASE), for sequences that
    /// [continue](Self::push_after) it; no row of it is wanted.
    pub fn push_beginning(&mut self, tokens: &[u32], store: usize) {
        self.push_after(BASE, tokens, &[], store);
        if let Some(last) = self.sequences.last_mut() {
            last.goes_on = false;
        }
    }

    /// Adds `tokens` that continue sequence `before` of this batch; their keys and values go to the rows from `store` on.
    pub(crate) fn push_after_sequence(&mut self, member: u32, tokens: &[u32], before: usize, store: usize) {
        let start = self.tokens.len();
        let first = self.spans.len();
        let s = &self.sequences[before];
        let (past, inherited) = (s.past + s.len, s.spans.clone());
        let own = Span { first: s.store, len: s.len };
        for i in inherited {
            self.spans.push(self.spans[i]);
        }
        self.spans.push(own);
        self.tokens.extend_from_slice(tokens);
        let spans = first..self.spans.len();
        self.sequences.push(Sequence {
            start,
            len: tokens.len(),
            member,
            past,
            spans,
            store,
            state: start,
            goes_on: true,
        });
    }

    /// Says where the sequence pushed last begins among states computed earlier, in rows; without this it is
    /// where it begins in the batch.
    pub fn set_state_row(&mut self, row: usize) {
        if let Some(last) = self.sequences.last_mut() {
            last.state = row;
        }
    }

    /// Appends tokens to the sequence pushed last.
    pub fn extend_last(&mut self, tokens: &[u32]) {
        if let Some(last) = self.sequences.last_mut() {
            last.len += tokens.len();
            self.tokens.extend_from_slice(tokens);
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    pub(crate) fn check(&self, vocab: usize) -> Result<(), ModelError> {
        match self.tokens.iter().find(|t| **t as usize >= vocab) {
            Some(&id) => Err(ModelError::Token { id, vocab }),
            None => Ok(()),
        }
    }
}
