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
    let mut best = 0;
    for (i, v) in values.iter().enumerate() {
        if *v > values[best] || values[best].is_nan() {
            best = i;
        }
    }
    best
}
