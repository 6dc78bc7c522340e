//! One running sequence.

use super::stop::StopFilter;
use super::{Completion, Finish, Request};
use crate::constraint::ConstraintState;
use crate::tokenizer::{TokenStream, Tokenizer};
use fura_simd::attention::Span;

/// A request that has its rows of the cache.
#[derive(Debug)]
pub(super) struct Slot<'m> {
    pub(super) number: usize,
    pub(super) request: Request,
    /// Which shared prefix its prompt begins with, and how long that is.
    pub(super) prefix: Option<(usize, usize)>,
    /// Rows for what follows the prefix.
    pub(super) rows: Span,
    /// Tokens of prompt and answer that are in the cache or on their way there.
    pub(super) filled: usize,
    pub(super) constraint: Option<ConstraintState>,
    /// Most tokens that fit the context.
    room: usize,
    tokens: Vec<u32>,
    text: String,
    /// Bytes of `text` that were given out.
    given: usize,
    stream: TokenStream<'m>,
    stops: StopFilter,
}

impl<'m> Slot<'m> {
    pub(super) fn new(
        number: usize,
        request: Request,
        prefix: Option<(usize, usize)>,
        rows: Span,
        room: usize,
        tokenizer: &'m Tokenizer,
    ) -> Self {
        let most = request.max_tokens.min(room);
        let constraint = request.constraint.as_ref().map(|c| c.start());
        Self {
            number,
            prefix,
            rows,
            filled: prefix.map_or(0, |p| p.1),
            constraint,
            room,
            tokens: Vec::with_capacity(most),
            text: String::with_capacity(8 * most),
            given: 0,
            stream: tokenizer.stream(),
            stops: StopFilter::default(),
            request,
        }
    }

    /// Tokens that are not in the cache yet.
    pub(super) fn missing(&self) -> usize {
        self.request.prompt.len() + self.tokens.len() - self.filled
    }

    /// Whether only the last token chosen is missing.
    pub(super) fn is_decoding(&self) -> bool {
        self.filled >= self.request.prompt.len()
    }

    /// The next tokens to forward, at most `n`.
    pub(super) fn next(&self, n: usize) -> &[u32] {
        let prompt = &self.request.prompt;
        match self.filled.checked_sub(prompt.len()) {
            Some(i) => &self.tokens[i..],
            None => &prompt[self.filled..prompt.len().min(self.filled + n)],
        }
    }

    /// Number of the token to be chosen.
    pub(super) fn step(&self) -> u64 {
        self.tokens.len() as u64
    }

    /// Why nothing is to be chosen, if so.
    pub(super) fn ended(&self) -> Option<Finish> {
        if let Some(c) = &self.constraint
            && !c.can_continue()
        {
            return Some(if c.is_complete() { Finish::Stop } else { Finish::NoLegalToken });
        }
        if self.tokens.len() >= self.request.max_tokens {
            return Some(Finish::Length);
        }
        (self.tokens.len() >= self.room).then_some(Finish::ContextFull)
    }

    /// Takes the token chosen, if one was; says why the sequence ends, if it does.
    pub(super) fn take(&mut self, token: Option<u32>, tokenizer: &Tokenizer) -> Option<Finish> {
        if self.constraint.as_ref().is_some_and(|c| c.is_cut()) {
            return Some(Finish::GrammarLimit);
        }
        let Some(token) = token else { return Some(Finish::NoLegalToken) };
        if tokenizer.is_stop(token) {
            return Some(Finish::Stop);
        }
        if let Some(c) = &mut self.constraint
            && !c.advance(token)
        {
            // Looked at here alone: a place that the limit left out may have been its only one.
            return Some(if c.is_cut() { Finish::GrammarLimit } else { Finish::NoLegalToken });
        }
        self.tokens.push(token);
        let piece = self.stream.push(token);
        if self.stops.push(&self.request.stop, piece, &mut self.text) {
            return Some(Finish::Stop);
        }
        self.ended()
    }

    /// Text that was not given out yet.
    pub(super) fn fresh_text(&mut self) -> &str {
        let from = std::mem::replace(&mut self.given, self.text.len());
        &self.text[from..]
    }

    /// The result; what the stop filter and the decoder held back is the end of its text.
    pub(super) fn complete(&mut self, finish: Finish) -> Completion {
        self.stops.finish(self.stream.finish(), &mut self.text);
        Completion { tokens: std::mem::take(&mut self.tokens), text: self.text.clone(), finish }
    }
}
