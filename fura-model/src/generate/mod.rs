//! Generating text: requests that share passes, cache and threads.

mod choose;
mod generator;
mod request;
mod rollout_plan;
mod rollouts;
mod rows;
mod slot;
mod stop;
mod text_tree;

pub use generator::Generator;
pub use request::{Completion, Event, Request};
pub use rollout_plan::RolloutPlan;
pub use rollouts::Rollouts;

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token, a stop string, the caller's stop rule, or the end of what a constraint allows.
    Stop,
    /// The length asked for.
    Length,
    /// The context the workspace or the model has room for.
    ContextFull,
    /// A limit of grammars was met ([`ConstraintState::is_cut`](crate::ConstraintState::is_cut)).
    GrammarLimit,
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
            Finish::GrammarLimit => "grammar_limit",
            Finish::NoLegalToken => "no_legal_token",
        }
    }
}

/// Index of the largest value, the first among equals; NaN never wins.
pub fn argmax(values: &[f32]) -> usize {
    // The largest first, in lanes that compilers turn into vectors; then where it is.
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = values.as_chunks::<16>();
    for chunk in chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, *v);
        }
    }
    let best = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger);
    values.iter().position(|v| *v == best).unwrap_or(0)
}
