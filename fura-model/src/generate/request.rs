//! What is asked for and what comes back.

use super::Finish;
use crate::constraint::Constraint;
use crate::error::ModelError;
use crate::model::Model;
use crate::sampling::Sampling;

/// A prompt and how to continue it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose coordinates.
    pub member: u32,
    /// The prompt's tokens, at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Texts that end generation; they are not part of the result. An empty one ends it at once.
    pub stop: Vec<String>,
    /// What may be generated, if not everything.
    pub constraint: Option<Constraint>,
}

impl Request {
    /// A greedy, unconstrained continuation of the base or of member 0.
    pub fn new(prompt: Vec<u32>, max_tokens: usize) -> Self {
        Self {
            member: 0,
            prompt,
            max_tokens,
            sampling: Sampling::default(),
            stop: Vec::new(),
            constraint: None,
        }
    }
}

impl Request {
    /// Checks that it can be run with sequences of at most `room` tokens.
    pub(super) fn check(&self, model: &Model, room: usize) -> Result<(), ModelError> {
        self.sampling.check()?;
        let vocab = model.config().vocab;
        if self.prompt.is_empty() {
            return Err(ModelError::Capacity { what: "prompt tokens (it is empty)", asked: 1, planned: 0 });
        }
        if self.prompt.len() > room {
            let (asked, planned) = (self.prompt.len(), room);
            return Err(ModelError::Capacity { what: "prompt tokens", asked, planned });
        }
        if let Some(&id) = self.prompt.iter().find(|t| **t as usize >= vocab) {
            return Err(ModelError::Token { id, vocab });
        }
        if let Some(c) = &self.constraint
            && c.vocabulary() != vocab
        {
            let (asked, planned) = (c.vocabulary(), vocab);
            return Err(ModelError::Capacity {
                what: "tokens of the constraint's vocabulary",
                asked,
                planned,
            });
        }
        Ok(())
    }
}

/// A finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The tokens chosen, without an end token; those of a stop string are among them.
    pub tokens: Vec<u32>,
    /// Their text, up to the stop string if there was one.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
}

/// What happens while requests are worked on.
#[derive(Debug)]
pub enum Event<'a> {
    /// A token was chosen.
    Token {
        /// Number of the request, as [`super::Generator::submit`] gave it.
        request: usize,
        /// The token.
        token: u32,
        /// Text that is certain now: whole characters, and no part of what may become a stop string. Often empty.
        text: &'a str,
    },
    /// A request is finished.
    Done {
        /// Number of the request.
        request: usize,
        /// The rest of its text, which no [`Event::Token`] had.
        text: &'a str,
        /// Its result.
        completion: Completion,
    },
}
