//! Generating text: one sequence greedily, or many at once.

mod generator;
mod request;
mod rows;
mod slot;
mod stop;

pub use generator::Generator;
pub use request::{Completion, Event, Request};

use crate::batch::Batch;
use crate::cache::KvCache;
use crate::error::ModelError;
use crate::forward::{Engine, Wanted};
use crate::members::Members;
use crate::workspace::Workspace;

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token, a stop string, the caller's stop rule, or the end of what a constraint allows.
    Stop,
    /// The length asked for.
    Length,
    /// The context the workspace or the model has room for.
    ContextFull,
    /// No token of the vocabulary goes on towards a text that the constraint allows, or all logits are NaN.
    NoLegalToken,
}

impl Finish {
    /// A short stable name.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ContextFull => "context_full",
            Finish::NoLegalToken => "no_legal_token",
        }
    }
}

/// Index of the largest value, the first among equals; NaN never wins.
pub fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (i, v) in values.iter().enumerate() {
        if *v > values[best] || values[best].is_nan() {
            best = i;
        }
    }
    best
}

impl Engine<'_> {
    /// Decodes greedily after `prompt` until an end token, `stop` says so (it sees all generated tokens), or
    /// `max_tokens`. `on_token` is called with each token as it is chosen; end tokens are not reported.
    ///
    /// # Errors
    /// As [`Engine::forward`]; an empty prompt is an error too.
    pub fn greedy(
        &self,
        members: &dyn Members,
        prompt: &[u32],
        max_tokens: usize,
        cache: &mut KvCache,
        ws: &mut Workspace,
        mut on_token: impl FnMut(u32),
        mut stop: impl FnMut(&[u32]) -> bool,
    ) -> Result<(Vec<u32>, Finish), ModelError> {
        if prompt.is_empty() {
            return Err(ModelError::Capacity { what: "prompt tokens (it is empty)", asked: 1, planned: 0 });
        }
        let room = ws.plan().positions.min(cache.rows()).min(self.model().config().context);
        let mut batch = Batch::with_capacity(ws.plan().rows, 1);
        let mut logits = vec![0.0; self.model().config().vocab];
        let mut out = Vec::with_capacity(max_tokens);
        let mut past = 0;
        // Prefill in chunks that fit the workspace; by contract the cut changes nothing.
        for chunk in prompt.chunks(ws.plan().rows.max(1)) {
            batch.clear();
            batch.push(0, chunk, past, 0);
            self.forward(members, &batch, Wanted::Last, cache, ws)?;
            past += chunk.len();
        }
        loop {
            if out.len() == max_tokens {
                return Ok((out, Finish::Length));
            }
            self.logits(ws, 0, &mut logits);
            let token = argmax(&logits) as u32;
            if self.model().tokenizer().is_stop(token) {
                return Ok((out, Finish::Stop));
            }
            out.push(token);
            on_token(token);
            if stop(&out) {
                return Ok((out, Finish::Stop));
            }
            if past == room {
                return Ok((out, Finish::ContextFull));
            }
            batch.clear();
            batch.push(0, &[token], past, 0);
            self.forward(members, &batch, Wanted::Last, cache, ws)?;
            past += 1;
        }
    }
}
