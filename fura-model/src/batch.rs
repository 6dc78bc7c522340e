//! A batch: rows (tokens) belong to sequences, sequences to members.

use crate::error::ModelError;

/// One sequence's new tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// First row in the batch.
    pub(crate) start: usize,
    /// Number of new tokens.
    pub(crate) len: usize,
    /// Whose coordinates.
    pub(crate) member: u32,
    /// Tokens already in the cache.
    pub(crate) past: usize,
    /// Cache row of position 0.
    pub(crate) base: usize,
    /// Row of its first token among states computed earlier (see [`crate::Engine::forward_from`]).
    pub(crate) state: usize,
}

/// Tokens to forward together. Buffers are reused: `clear` and `push` do not allocate once grown.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) tokens: Vec<u32>,
    pub(crate) sequences: Vec<Sequence>,
}

impl Batch {
    /// Room for that many rows and sequences.
    pub fn with_capacity(rows: usize, sequences: usize) -> Self {
        Self { tokens: Vec::with_capacity(rows), sequences: Vec::with_capacity(sequences) }
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.sequences.clear();
    }

    /// Adds a whole prompt of `member` whose keys and values live in the batch's own rows of a
    /// [transient](crate::KvCache::transient) cache. Sequences of one member should follow each other.
    pub fn push_prompt(&mut self, member: u32, tokens: &[u32]) {
        let start = self.tokens.len();
        self.push(member, tokens, 0, start);
    }

    /// Adds `tokens` after `past` cached ones; position 0 of the sequence lies at cache row `base`.
    pub fn push(&mut self, member: u32, tokens: &[u32], past: usize, base: usize) {
        let start = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.sequences.push(Sequence { start, len: tokens.len(), member, past, base, state: start });
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
