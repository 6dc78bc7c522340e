//! Which differences between two texts do not count.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The differences that a comparison of texts forgives.
///
/// ```
/// use fura_tasks::grader::Fold;
/// assert_eq!(Fold::Space.apply("  New\n York "), "New York");
/// assert_eq!(Fold::Case.apply("Yes "), "yes ");
/// assert_eq!(Fold::CaseSpace.apply(" YES "), "yes");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// None: texts are equal when their bytes are.
    #[default]
    None,
    /// Upper and lower case (Unicode lower-casing).
    Case,
    /// White space: none at the ends, and one space for each run of it within.
    Space,
    /// Both `case` and `space`.
    CaseSpace,
}

impl Fold {
    /// The folded text: two texts are the same to this fold when their folded texts are equal.
    #[must_use]
    pub fn apply(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::None => Cow::Borrowed(text),
            Self::Case => Cow::Owned(text.to_lowercase()),
            Self::Space => Cow::Owned(one_space(text)),
            Self::CaseSpace => Cow::Owned(one_space(&text.to_lowercase())),
        }
    }
}

fn one_space(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn folding_space_twice_is_folding_once(text in any::<String>()) {
            let once = Fold::Space.apply(&text).into_owned();
            prop_assert_eq!(Fold::Space.apply(&once), once.as_str());
        }

        #[test]
        fn no_fold_is_the_identity(text in any::<String>()) {
            prop_assert_eq!(Fold::None.apply(&text), text.as_str());
        }
    }
}
