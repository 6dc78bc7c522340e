//! The output must list the answer's items, in any order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spec::share;
use super::{Fold, GraderError, Label};

/// The most items of an output that are read, besides as many as the answer has.
const MORE_ITEMS: usize = 1000;

/// Right when the output lists the answer's items and no others, in any order, each once:
/// `{"type":"set","separator":",","fold":"case","partial":true}`.
///
/// Items are what is between separators, without white space at their ends. With `partial` the
/// score is the number of right items divided by the number of different items in answer and
/// output together (Jaccard's index), so that listing everything earns little. An item that is
/// listed twice counts as a wrong one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SetSpec {
    /// What separates items; a comma by default.
    #[serde(default = "comma")]
    pub separator: String,
    /// Which differences between items do not count; none by default.
    #[serde(default)]
    pub fold: Fold,
    /// Whether some right items earn a share; no by default.
    #[serde(default)]
    pub partial: bool,
}

fn comma() -> String {
    ",".to_owned()
}

impl Default for SetSpec {
    fn default() -> Self {
        Self { separator: comma(), fold: Fold::None, partial: false }
    }
}

/// See [`SetSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    /// The index of each folded item of the answer.
    items: BTreeMap<String, usize>,
    separator: String,
    fold: Fold,
    partial: bool,
}

impl Set {
    pub(super) fn new(spec: &SetSpec, answer: &str) -> Result<Self, GraderError> {
        if spec.separator.is_empty() {
            return Err(GraderError::option("separator", "empty; write what separates items, such as `,`"));
        }
        let mut items = BTreeMap::new();
        for text in answer.split(&spec.separator) {
            let item = spec.fold.apply(text.trim()).into_owned();
            if item.is_empty() {
                return Err(GraderError::answer(answer, Label::Empty, "items that are not empty"));
            }
            let index = items.len();
            if items.insert(item, index).is_some() {
                return Err(GraderError::answer(answer, Label::Wrong, "items that are all different"));
            }
        }
        Ok(Self { items, separator: spec.separator.clone(), fold: spec.fold, partial: spec.partial })
    }

    pub(super) fn judge(&self, output: &str) -> (f64, Label) {
        if output.trim().is_empty() {
            return (0.0, Label::Empty);
        }
        let mut seen = vec![false; self.items.len()];
        let (mut right, mut wrong) = (0, 0);
        for text in output.split(&self.separator) {
            match self.items.get(&*self.fold.apply(text.trim())) {
                Some(&index) if !seen[index] => {
                    seen[index] = true;
                    right += 1;
                }
                _ => wrong += 1,
            }
            if wrong > MORE_ITEMS {
                return (0.0, Label::TooLong);
            }
        }
        share(right, self.items.len() + wrong, self.partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(partial: bool, output: &str) -> (f64, Label) {
        let spec = SetSpec { fold: Fold::Case, partial, ..SetSpec::default() };
        Set::new(&spec, "Anna, Bo,Cy").unwrap().judge(output)
    }

    #[test]
    fn order_and_outer_spaces_do_not_count() {
        assert_eq!(judge(false, " cy,ANNA , bo\n"), (1.0, Label::Right));
        for output in ["Anna, Bo", "Anna, Bo, Cy, Di", "Anna, Bo, Cy, Cy", "Anna, Bo, Cy,", "Anna Bo Cy"] {
            assert_eq!(judge(false, output), (0.0, Label::Wrong), "{output}");
        }
        assert_eq!(judge(true, " "), (0.0, Label::Empty));
    }

    #[test]
    fn shares_are_those_of_jaccard() {
        assert_eq!(judge(true, "Anna, Bo"), (2.0 / 3.0, Label::Partial));
        assert_eq!(judge(true, "Anna, Di"), (1.0 / 4.0, Label::Partial));
        assert_eq!(judge(true, "Anna, Anna"), (1.0 / 4.0, Label::Partial));
        assert_eq!(judge(true, "Di"), (0.0, Label::Wrong));
    }

    #[test]
    fn listing_everything_ends_early() {
        assert_eq!(judge(true, &"x,".repeat(100_000)), (0.0, Label::TooLong));
    }

    #[test]
    fn an_answer_with_an_empty_or_repeated_item_is_an_error() {
        for answer in ["", "a,,b", "a,b,a"] {
            let got = Set::new(&SetSpec::default(), answer);
            assert!(matches!(got, Err(GraderError::BadAnswer { .. })), "{answer}");
        }
        let spec = SetSpec { separator: String::new(), ..SetSpec::default() };
        assert!(matches!(Set::new(&spec, "a"), Err(GraderError::BadOption { field: "separator", .. })));
    }

    proptest! {
        #[test]
        fn one_more_right_item_or_one_less_wrong_one_never_scores_lower(
            right in proptest::sample::subsequence(vec!["anna", "bo", "cy"], 0..=3),
            wrong in 0usize..5,
        ) {
            let score = |right: &[&str], wrong: usize| {
                let mut items = right.to_vec();
                items.extend(std::iter::repeat_n("x", wrong));
                judge(true, &items.join(",")).0
            };
            let here = score(&right, wrong);
            if let Some(missing) = ["anna", "bo", "cy"].into_iter().find(|item| !right.contains(item)) {
                let mut more = right.clone();
                more.push(missing);
                prop_assert!(score(&more, wrong) >= here);
            }
            if wrong > 0 {
                prop_assert!(score(&right, wrong - 1) >= here);
            }
        }
    }
}
