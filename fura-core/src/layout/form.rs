//! In which form a transform is computed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The order of operations of `x + V diag(c) V^T x`. Both are the same transform but for rounding; which one is meant
/// belongs to the layout, since a result must not depend on how many rows happen to be computed together.
///
/// ```
/// use fura_core::layout::{Form, Layout, Linear};
/// let layout = Layout::new(2, [Linear::new("w", 4, 4)])?.with_form(Form::Factored);
/// assert_eq!(layout.canonical(), r#"{"block":2,"linears":[{"name":"w","d_out":4,"d_in":4}],"form":"factored"}"#);
/// assert_eq!("factored".parse(), Ok(Form::Factored));
/// # Ok::<(), fura_core::layout::LayoutError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `T = V diag(c) V^T` first, as [`Transform`](crate::transform::Transform) has it: for many rows of a member. A
    /// specialist that is kept ready takes `b` floats for each coordinate.
    #[default]
    Materialized,
    /// `V^T x`, then its products with the coordinates, then `V` times those, as
    /// [`apply_factored`](crate::transform::apply_factored) has it: for few rows of each of many members or specialists,
    /// which take a float for each coordinate.
    Factored,
}

/// A word that names no form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no form; it is materialized or factored")]
pub struct UnknownForm {
    /// The word.
    pub found: String,
}

impl FromStr for Form {
    type Err = UnknownForm;

    fn from_str(text: &str) -> Result<Self, UnknownForm> {
        match text {
            "materialized" => Ok(Self::Materialized),
            "factored" => Ok(Self::Factored),
            _ => Err(UnknownForm { found: text.chars().take(40).collect() }),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Materialized => "materialized",
            Self::Factored => "factored",
        })
    }
}

impl Form {
    pub(super) fn is_materialized(&self) -> bool {
        *self == Self::Materialized
    }
}
