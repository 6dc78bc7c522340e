//! Decoding constrained to a list of answers or to a grammar.
//!
//! A constraint is a set of byte strings. Tokens are allowed if their bytes can go on towards one of the strings, so
//! every tokenization of a legal text is legal. Control tokens are never text; an end token is allowed where a legal
//! text is complete.

mod automaton;
mod expression;
mod order;
mod parse;
mod state;
#[cfg(test)]
mod tests;
mod utf8;
mod walk;

pub use state::ConstraintState;

use crate::tokenizer::Tokenizer;
use automaton::Automaton;
use order::TokenOrder;
use std::sync::Arc;

/// Why a grammar or a list of answers cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintError {
    /// The grammar's text is wrong.
    #[error("grammar, line {line}: {problem}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A rule can come back to itself without having read anything.
    #[error("grammar: rule '{rule}' is left-recursive; put something before the recursion or use * or +")]
    LeftRecursion {
        /// The rule.
        rule: String,
    },
    /// The grammar, with its repetitions written out, is too large.
    #[error("grammar: more than {limit} states; use smaller repetition counts")]
    TooLarge {
        /// Most states.
        limit: usize,
    },
    /// More alternatives at the beginning than are followed.
    #[error(
        "grammar: more than {limit} places at the beginning of '{rule}'; use fewer alternatives, or a list of answers"
    )]
    Alternatives {
        /// The rule.
        rule: &'static str,
        /// Most places.
        limit: usize,
    },
    /// There is no answer, or an empty one.
    #[error("answers: {problem}")]
    Answers {
        /// What is wrong.
        problem: &'static str,
    },
}

/// What may be generated: a list of answers or a grammar. It is never changed, and cheap to clone.
///
/// The grammar's notation is a part of llama.cpp's GBNF:
///
/// | notation | meaning |
/// |---|---|
/// | `name ::= a b \| c` | a rule; `root` is what is generated; a rule ends where the next begins |
/// | `"text"` | these characters; escapes `\n \r \t \\ \" \xHH \uHHHH \UHHHHHHHH` |
/// | `[a-z_]`, `[^"\n]`, `.` | one character of a set, one not in it, any one; escapes as above and `\] \- \^` |
/// | `( )`, `*`, `+`, `?`, `{n}`, `{n,}`, `{n,m}` | groups and repetition |
/// | `# ...` | a comment to the end of the line |
///
/// Rules may be recursive, though not on their left. Where calls nest deeper than 128, or more than 1024 places are possible
/// at once, generation ends with [`Finish::GrammarLimit`](crate::Finish::GrammarLimit).
#[derive(Clone, Debug)]
pub struct Constraint {
    automaton: Arc<Automaton>,
    order: Arc<TokenOrder>,
}

impl Constraint {
    /// Exactly one of `answers`. One may be the beginning of another; the end token then tells them apart.
    ///
    /// # Errors
    /// No answers, or an empty one.
    pub fn answers<S: AsRef<str>>(tokenizer: &Tokenizer, answers: &[S]) -> Result<Self, ConstraintError> {
        Self::new(tokenizer, Automaton::of_answers(answers)?)
    }

    /// Texts of the grammar's rule `root`.
    ///
    /// # Errors
    /// A syntax error, with its line; a missing rule; left recursion; a grammar that is too large.
    pub fn grammar(tokenizer: &Tokenizer, grammar: &str) -> Result<Self, ConstraintError> {
        let automaton = Automaton::of_rules(&parse::parse(grammar)?)?;
        if walk::Walk::new(&automaton).is_cut() {
            return Err(ConstraintError::Alternatives { rule: "root", limit: walk::MAX_SEEN });
        }
        Self::new(tokenizer, automaton)
    }

    fn new(tokenizer: &Tokenizer, automaton: Automaton) -> Result<Self, ConstraintError> {
        Ok(Self { automaton: Arc::new(automaton), order: Arc::new(TokenOrder::new(tokenizer)) })
    }

    /// Tokens of the vocabulary it is for.
    pub(crate) fn vocabulary(&self) -> usize {
        self.order.vocabulary()
    }

    /// The state in which nothing has been generated.
    pub fn start(&self) -> ConstraintState {
        ConstraintState::new(self.clone())
    }
}
