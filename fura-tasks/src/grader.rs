//! Graders: from a model's output to a [`Grade`].
//!
//! A grader is a pure function of the output, written in Rust, whose work is bounded: it reads at
//! most [`OUTPUT_LIMIT`] bytes, in about linear time. Graders are strict: nothing is credited for
//! merely containing the answer, and numbers are compared exactly unless a tolerance is asked for.
//!
//! The options of a grader are a [`GraderSpec`], as task files hold them; together with a
//! task's answer they make an [`AnyGrader`]. The answer is always a right output: a grader takes
//! what it compares with from the answer in the same way as from any output.
//!
//! | `type` | right when | options |
//! |---|---|---|
//! | `exact` | the output is the answer | [`ExactSpec`] |
//! | `choice` | it is a right one of the legal answers | [`ChoiceSpec`] |
//! | `set` | it lists the answer's items, in any order | [`SetSpec`] |
//! | `regex` | it matches a pattern, or one group is the answer's | [`PatternSpec`] |
//! | `number` | its number has the answer's exact value | [`NumberSpec`] |
//! | `expr` | it is arithmetic that uses each number once and makes the target | [`ExprSpec`] |
//! | `json` | its JSON has the answer's leaves, with their types | [`JsonSpec`] |
//! | `call` | it calls the answer's function with the answer's arguments | [`CallSpec`] |
//! | `state` | predicates hold of it, an end state, and nothing else changed | [`StateSpec`] |
//! | `format` | it is the sections asked for, each with something in it | [`FormatSpec`] |
//! | `length` | it is neither too short nor too long | [`LengthSpec`] |
//! | `within` | another grader finds a part of it right | [`WithinSpec`] |
//! | `all`, `any`, `weighted`, `gate` | other graders, combined, say so | [`AllSpec`], [`AnySpec`], [`WeightedSpec`], [`GateSpec`] |

mod call;
mod choice;
mod combine;
mod error;
mod exact;
mod expr;
mod find;
mod fold;
mod format;
mod json;
mod length;
mod number;
mod pattern;
mod rational;
mod schema;
mod set;
mod spec;
mod state;
mod value;
mod within;

pub use call::{CallSpec, Syntax};
pub use choice::{Choice, ChoiceSpec};
pub use combine::{AllSpec, AnySpec, GateSpec, WeightedPart, WeightedSpec};
pub use error::GraderError;
pub use exact::ExactSpec;
pub use expr::ExprSpec;
pub use fold::Fold;
pub use format::{FormatSpec, Section};
pub use json::{Extra, JsonSpec};
pub use length::{LengthSpec, Unit};
pub use number::{NumberSpec, Which};
pub use pattern::PatternSpec;
pub use schema::{Schema, SchemaType};
pub use set::SetSpec;
pub use spec::{AnyGrader, GraderSpec, OUTPUT_LIMIT};
pub use state::{Predicate, StateSpec};
pub use within::{Part, WithinSpec};

use std::fmt;

use serde::{Deserialize, Serialize};

/// Judges one output of a model.
pub trait Grader: Send + Sync + fmt::Debug {
    /// The grade of `output`, the text that the model wrote after the prompt.
    fn grade(&self, output: &str) -> Grade;
}

/// What a grader says about an output.
///
/// A fault is never a number: a grader that broke has not seen a wrong answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Grade {
    /// A judgement.
    Score {
        /// The reward, in `[0, 1]`; 1 is right. Make it with [`Grade::score`], which checks.
        score: f64,
        /// Why, from the closed set.
        label: Label,
    },
    /// The grader does not apply to this output; it counts neither for nor against it.
    Abstain {
        /// Why, from the closed set.
        label: Label,
    },
    /// The grader itself failed.
    Fault {
        /// Why, from the closed set.
        label: Label,
        /// What happened, in one line.
        why: String,
    },
}

impl Grade {
    /// A score, or a fault when `score` is not a number in `[0, 1]`.
    ///
    /// ```
    /// use fura_tasks::{Grade, Label};
    /// assert_eq!(Grade::score(1.0, Label::Right).value(), Some(1.0));
    /// assert_eq!(Grade::score(f64::NAN, Label::Right).value(), None);
    /// ```
    #[must_use]
    pub fn score(score: f64, label: Label) -> Self {
        if (0.0..=1.0).contains(&score) {
            Self::Score { score, label }
        } else {
            Self::Fault {
                label: Label::BadScore,
                why: format!("score {score} is not in [0, 1]; correct the grader"),
            }
        }
    }

    /// The reward in `[0, 1]`; `None` for an abstention, a fault, or a hand-made score
    /// outside `[0, 1]`.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Score { score, .. } if (0.0..=1.0).contains(score) => Some(*score),
            _ => None,
        }
    }

    /// The label, to be counted in reports.
    #[must_use]
    pub fn label(&self) -> Label {
        match self {
            Self::Score { label, .. } | Self::Abstain { label } | Self::Fault { label, .. } => *label,
        }
    }
}

/// Defines [`Label`] together with the list of its values and their names.
macro_rules! labels {
    ($($(#[doc = $doc:literal])+ $label:ident = $name:literal,)+) => {
        /// The closed set of reasons for a grade, counted in reports.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Label {
            $($(#[doc = $doc])+ $label,)+
        }

        impl Label {
            /// Every label, in the order of the list above.
            pub const ALL: &'static [Self] = &[$(Self::$label,)+];

            /// The label as logs and reports write it, for example `not_legal`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$label => $name,)+
                }
            }
        }
    };
}

labels! {
    /// The answer.
    Right = "right",
    /// A well-formed answer, but another one.
    Wrong = "wrong",
    /// Partly the answer, where the grader gives credit for that.
    Partial = "partial",
    /// Nothing but white space.
    Empty = "empty",
    /// None of the legal answers.
    NotLegal = "not_legal",
    /// No number where one was expected.
    NoNumber = "no_number",
    /// More numbers than the one that was expected.
    ManyNumbers = "many_numbers",
    /// Something like a number that has no exact value here, such as `1e3` or `1,22`.
    Unreadable = "unreadable",
    /// The part that is graded (a marker, a JSON value, a call) is not there.
    Absent = "absent",
    /// Several candidates where one was expected.
    Ambiguous = "ambiguous",
    /// Not in the syntax that is graded.
    Malformed = "malformed",
    /// More text, nesting or items than the grader reads.
    TooLong = "too_long",
    /// Other numbers than the given ones, or one not exactly once.
    WrongNumbers = "wrong_numbers",
    /// A division by zero, or a value out of bounds.
    Undefined = "undefined",
    /// A value of another type than the schema's.
    WrongType = "wrong_type",
    /// A call of another function.
    WrongName = "wrong_name",
    /// A change outside the allowed paths.
    SideEffect = "side_effect",
    /// Not the sections that were asked for.
    BadFormat = "bad_format",
    /// Shorter or longer than was asked for.
    BadLength = "bad_length",
    /// The grader does not apply.
    NotApplicable = "not_applicable",
    /// The grader gave a score outside `[0, 1]`.
    BadScore = "bad_score",
    /// The grader could not be made from the task.
    BadTask = "bad_task",
    /// An external grader gave no answer in time.
    TimedOut = "timed_out",
    /// An external grader ended, or could not be started.
    Crashed = "crashed",
    /// An external grader's answer is not one.
    BadReply = "bad_reply",
    /// An external grader answered twice.
    Duplicate = "duplicate",
    /// An external grader wrote more than is read.
    Flooded = "flooded",
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_outside_the_unit_interval_is_a_fault() {
        for bad in [f64::NAN, f64::INFINITY, -1e-9, 1.0 + 1e-9] {
            let grade = Grade::score(bad, Label::Right);
            assert!(matches!(grade, Grade::Fault { label: Label::BadScore, .. }), "{grade:?}");
            let hand_made = Grade::Score { score: bad, label: Label::Right };
            assert_eq!(hand_made.value(), None);
        }
    }

    #[test]
    fn labels_are_written_alike_in_logs_and_reports() {
        for label in Label::ALL {
            assert_eq!(serde_json::to_string(label).unwrap(), format!("\"{label}\""));
        }
    }
}
