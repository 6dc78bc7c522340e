//! At which tokens a specialist acts.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The tokens whose linears are adapted.
///
/// ```
/// use fura_core::layout::{Layout, Linear, Scope};
/// let layout = Layout::new(2, [Linear::new("w", 4, 4)])?;
/// assert_eq!(layout.scope(), Scope::Everywhere);
/// let own = layout.clone().with_scope(Scope::Answer);
/// assert_eq!(own.canonical(), r#"{"block":2,"linears":[{"name":"w","d_out":4,"d_in":4}],"scope":"answer"}"#);
/// assert_ne!(own.fingerprint(), layout.fingerprint());
/// assert_eq!("answer".parse(), Ok(Scope::Answer));
/// # Ok::<(), fura_core::layout::LayoutError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All of them.
    #[default]
    Everywhere,
    /// A prompt's last token and every token after it. The rest of the prompt is read by the base model, so its keys
    /// and values are the same for every specialist: a population reads each prompt once, whichever layers it perturbs,
    /// and a server may keep one cache for all specialists. The idea is that of activated LoRA
    /// ([Greenewald et al. 2025](https://arxiv.org/abs/2504.12397)).
    Answer,
}

/// A word that names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no scope; it is everywhere or answer")]
pub struct UnknownScope {
    /// The word.
    pub found: String,
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        match text {
            "everywhere" => Ok(Self::Everywhere),
            "answer" => Ok(Self::Answer),
            _ => Err(UnknownScope { found: text.chars().take(40).collect() }),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everywhere => "everywhere",
            Self::Answer => "answer",
        })
    }
}

impl Scope {
    pub(super) fn is_everywhere(&self) -> bool {
        *self == Self::Everywhere
    }
}
