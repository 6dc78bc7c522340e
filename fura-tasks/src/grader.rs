//! Graders: from a model's output to a [`Grade`].
//!
//! A grader is a pure function of the output, written in Rust, linear in the output's length.
//! Graders are strict: nothing is credited for merely containing the answer, and numbers are
//! compared exactly unless a tolerance is asked for.
//!
//! The options of a grader are a [`GraderSpec`], as task files hold them; together with a
//! task's answer they make an [`AnyGrader`].

mod choice;
mod exact;
mod fold;
mod number;
mod rational;
mod spec;

pub use choice::{Choice, ChoiceSpec};
pub use exact::{Exact, ExactSpec};
pub use fold::Fold;
pub use number::{Number, NumberSpec, Which};
pub use spec::{AnyGrader, GraderError, GraderSpec};

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

/// The closed set of reasons for a grade, counted in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Label {
    /// The answer.
    Right,
    /// A well-formed answer, but another one.
    Wrong,
    /// Nothing but white space.
    Empty,
    /// None of the legal answers.
    NotLegal,
    /// No number where one was expected.
    NoNumber,
    /// More numbers than the one that was expected.
    ManyNumbers,
    /// Something like a number that has no exact value here, such as `1e3` or `1,22`.
    Unreadable,
    /// The grader does not apply.
    NotApplicable,
    /// The grader gave a score outside `[0, 1]`.
    BadScore,
    /// The grader could not be made from the task.
    BadTask,
}

impl Label {
    /// The label as logs and reports write it, for example `not_legal`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::Empty => "empty",
            Self::NotLegal => "not_legal",
            Self::NoNumber => "no_number",
            Self::ManyNumbers => "many_numbers",
            Self::Unreadable => "unreadable",
            Self::NotApplicable => "not_applicable",
            Self::BadScore => "bad_score",
            Self::BadTask => "bad_task",
        }
    }
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
        for label in [
            Label::Right,
            Label::Wrong,
            Label::Empty,
            Label::NotLegal,
            Label::NoNumber,
            Label::ManyNumbers,
            Label::Unreadable,
            Label::NotApplicable,
            Label::BadScore,
            Label::BadTask,
        ] {
            assert_eq!(serde_json::to_string(&label).unwrap(), format!("\"{label}\""));
        }
    }
}
