//! Why a grader cannot be made.

use super::Label;

/// Why a grader could not be made from a task.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraderError {
    /// The answer holds no text.
    #[error("field `answer`: empty under the grader's `fold`; write the expected output")]
    EmptyAnswer,
    /// The answer of a number grader is not one number.
    #[error(
        "field `answer`: {found} in {answer:?}, expected one number of at most 18 digits; \
         write the number, or set `thousands` or `percent` in `grade`"
    )]
    NotOneNumber {
        /// The beginning of the answer.
        answer: String,
        /// What the grader found in it.
        found: Label,
    },
    /// A tolerance is not a usable number.
    #[error(
        "field `grade.{field}`: {value} is no tolerance; \
         write a number of at least 0 with at most 17 decimals"
    )]
    BadTolerance {
        /// `abs` or `rel`.
        field: &'static str,
        /// The value.
        value: f64,
    },
    /// A choice grader without legal answers.
    #[error("field `choices`: no legal answers; list them there or in `grade.of`")]
    NoChoices,
    /// A legal answer without text.
    #[error("field `choices`: entry {index} (from 0) is empty; write its text or remove it")]
    EmptyChoice {
        /// Its index, from 0.
        index: usize,
    },
    /// Two legal answers that the grader cannot tell apart.
    #[error(
        "field `choices`: entries {first} and {second} (from 0) are the same under `fold`; \
         remove one"
    )]
    SameChoices {
        /// The index of the first, from 0.
        first: usize,
        /// The index of the second, from 0.
        second: usize,
    },
    /// A right answer that is not among the legal ones.
    #[error("field `answer`: {answer:?} is not one of the legal answers; add it to `choices`")]
    AnswerNotLegal {
        /// The beginning of the answer.
        answer: String,
    },
    /// The answer does not hold what the grader compares with.
    #[error("field `answer`: {found} in {answer:?}, expected {expected}; correct it or `grade`")]
    BadAnswer {
        /// The beginning of the answer.
        answer: String,
        /// What the grader found in it.
        found: Label,
        /// What it looks for.
        expected: &'static str,
    },
    /// An option of the grader that makes no sense, alone or with the others.
    #[error("field `grade.{field}`: {why}")]
    BadOption {
        /// The option.
        field: &'static str,
        /// What was expected and what to do.
        why: String,
    },
}

impl GraderError {
    pub(super) fn option(field: &'static str, why: impl Into<String>) -> Self {
        Self::BadOption { field, why: why.into() }
    }

    pub(super) fn answer(answer: &str, found: Label, expected: &'static str) -> Self {
        Self::BadAnswer { answer: beginning(answer), found, expected }
    }
}

/// The beginning of a text, for messages.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(80).collect()
}
