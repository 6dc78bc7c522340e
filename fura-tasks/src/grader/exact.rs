//! The output must be the answer.

use serde::{Deserialize, Serialize};

use super::{Fold, GraderError, Label};

/// Right when the folded output is the folded answer, and nothing more or less:
/// `{"type":"exact","fold":"space"}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExactSpec {
    /// Which differences do not count; none by default.
    #[serde(default)]
    pub fold: Fold,
}

impl ExactSpec {
    /// Equality up to `fold`.
    #[must_use]
    pub fn new(fold: Fold) -> Self {
        Self { fold }
    }
}

/// See [`ExactSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exact {
    folded: String,
    fold: Fold,
}

impl Exact {
    pub(super) fn new(spec: &ExactSpec, answer: &str) -> Result<Self, GraderError> {
        let folded = spec.fold.apply(answer).into_owned();
        if folded.is_empty() {
            return Err(GraderError::EmptyAnswer);
        }
        Ok(Self { folded, fold: spec.fold })
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        if self.fold.apply(output) == self.folded {
            Label::Right
        } else if output.trim().is_empty() {
            Label::Empty
        } else {
            Label::Wrong
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(fold: Fold, answer: &str, output: &str) -> Label {
        Exact::new(&ExactSpec { fold }, answer).unwrap().judge(output)
    }

    #[test]
    fn answer_stuffing_earns_nothing() {
        for output in ["yes no", "no yes", "yes.", "yesyes", "The answer is yes"] {
            assert_eq!(judge(Fold::CaseSpace, "yes", output), Label::Wrong, "{output}");
        }
    }

    #[test]
    fn near_misses_are_wrong() {
        let answer = "See you at 18:00 tomorrow";
        assert_eq!(judge(Fold::CaseSpace, answer, "See you at 19:00 tomorrow"), Label::Wrong);
        assert_eq!(judge(Fold::CaseSpace, "-5", "5"), Label::Wrong);
        assert_eq!(judge(Fold::CaseSpace, "1.5", "15"), Label::Wrong);
    }

    #[test]
    fn each_fold_forgives_only_its_own_difference() {
        for (fold, case, space) in [
            (Fold::None, Label::Wrong, Label::Wrong),
            (Fold::Case, Label::Right, Label::Wrong),
            (Fold::Space, Label::Wrong, Label::Right),
            (Fold::CaseSpace, Label::Right, Label::Right),
        ] {
            assert_eq!(judge(fold, "New York", "new york"), case);
            assert_eq!(judge(fold, "New York", " New  York\n"), space);
            assert_eq!(judge(fold, "New York", "New York"), Label::Right);
            assert_eq!(judge(fold, "New York", "NewYork"), Label::Wrong);
            assert_eq!(judge(fold, "New York", " \n"), Label::Empty);
        }
    }

    #[test]
    fn an_answer_that_folds_to_nothing_is_an_error() {
        let spec = ExactSpec { fold: Fold::Space };
        assert_eq!(Exact::new(&spec, " \n"), Err(GraderError::EmptyAnswer));
    }
}
