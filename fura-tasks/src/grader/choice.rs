//! The output must be the right one of a list of legal answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::beginning;
use super::{Fold, GraderError, Label};

/// The options of [`Choice`]: `{"type":"choice","of":["red","green"],"fold":"case"}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChoiceSpec {
    /// The legal answers; when empty, the task's own `choices`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// Legal answers that are right besides the task's answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Which differences do not count; none by default.
    #[serde(default)]
    pub fold: Fold,
}

impl ChoiceSpec {
    /// A choice among the task's own `choices`.
    #[must_use]
    pub fn new(fold: Fold) -> Self {
        Self { fold, ..Self::default() }
    }
}

/// Right when the folded output is a right one of the legal answers.
///
/// ```
/// use fura_tasks::GraderSpec;
///
/// let spec: GraderSpec = serde_json::from_str(r#"{"type":"choice","of":["red","green"]}"#)?;
/// let grader = spec.build("green", &[])?;
/// let choice = grader.as_choice().expect("a choice grader");
/// assert_eq!(choice.legal(), ["red", "green"]);
/// assert_eq!(choice.right(), [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    legal: Vec<String>,
    by_fold: BTreeMap<String, usize>,
    right: Vec<usize>,
    fold: Fold,
}

impl Choice {
    pub(super) fn new(spec: &ChoiceSpec, answer: &str, choices: &[String]) -> Result<Self, GraderError> {
        let legal = if spec.of.is_empty() { choices } else { &spec.of };
        if legal.is_empty() {
            return Err(GraderError::NoChoices);
        }
        let mut by_fold = BTreeMap::new();
        for (index, text) in legal.iter().enumerate() {
            let folded = spec.fold.apply(text).into_owned();
            if folded.is_empty() {
                return Err(GraderError::EmptyChoice { index });
            }
            if let Some(first) = by_fold.insert(folded, index) {
                return Err(GraderError::SameChoices { first, second: index });
            }
        }
        let mut right = Vec::with_capacity(1 + spec.also.len());
        for text in std::iter::once(answer).chain(spec.also.iter().map(String::as_str)) {
            match by_fold.get(&*spec.fold.apply(text)) {
                Some(&index) => right.push(index),
                None => return Err(GraderError::AnswerNotLegal { answer: beginning(text) }),
            }
        }
        right.sort_unstable();
        right.dedup();
        Ok(Self { legal: legal.to_vec(), by_fold, right, fold: spec.fold })
    }

    /// The legal answers, in the order of the task.
    #[must_use]
    pub fn legal(&self) -> &[String] {
        &self.legal
    }

    /// The indices of the right answers in [`legal`](Self::legal), ascending; at least one.
    #[must_use]
    pub fn right(&self) -> &[usize] {
        &self.right
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        match self.by_fold.get(&*self.fold.apply(output)) {
            Some(index) if self.right.binary_search(index).is_ok() => Label::Right,
            Some(_) => Label::Wrong,
            None if output.trim().is_empty() => Label::Empty,
            None => Label::NotLegal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn labels_tell_wrong_from_illegal() {
        let spec = ChoiceSpec { also: list(&["azure"]), ..ChoiceSpec::new(Fold::CaseSpace) };
        let choice = Choice::new(&spec, "blue", &list(&["azure", "Blue", "red"])).unwrap();
        assert_eq!(choice.right(), [0, 1]);
        assert_eq!(choice.judge(" BLUE"), Label::Right);
        assert_eq!(choice.judge("azure"), Label::Right);
        assert_eq!(choice.judge("red"), Label::Wrong);
        assert_eq!(choice.judge("blue red"), Label::NotLegal);
        assert_eq!(choice.judge("\n"), Label::Empty);
    }

    #[test]
    fn its_own_list_comes_before_the_tasks_choices() {
        let spec = ChoiceSpec { of: list(&["a", "b"]), ..ChoiceSpec::default() };
        let choice = Choice::new(&spec, "a", &list(&["c"])).unwrap();
        assert_eq!(choice.legal(), ["a", "b"]);
    }

    #[test]
    fn an_empty_list_is_an_error() {
        let got = Choice::new(&ChoiceSpec::default(), "a", &[]);
        assert_eq!(got, Err(GraderError::NoChoices));
    }

    #[test]
    fn an_empty_choice_is_an_error() {
        let got = Choice::new(&ChoiceSpec::new(Fold::Space), "a", &list(&["a", " "]));
        assert_eq!(got, Err(GraderError::EmptyChoice { index: 1 }));
    }

    #[test]
    fn two_choices_alike_after_folding_are_an_error() {
        let got = Choice::new(&ChoiceSpec::new(Fold::Case), "a", &list(&["a", "b", "A"]));
        assert_eq!(got, Err(GraderError::SameChoices { first: 0, second: 2 }));
    }

    #[test]
    fn an_answer_that_is_not_legal_is_an_error() {
        let got = Choice::new(&ChoiceSpec::default(), "c", &list(&["a", "b"]));
        assert_eq!(got, Err(GraderError::AnswerNotLegal { answer: "c".to_owned() }));
    }
}
