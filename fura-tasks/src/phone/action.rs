//! What an agent can do, and its one written form.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::app::App;

/// The longest text of `type` and `answer`, in bytes.
pub const TEXT_LIMIT: usize = 200;

/// One action. Written on one line, in exactly one way; texts are JSON strings:
///
/// ```text
/// tap 3 | type 0 "buy milk" | scroll down | scroll up | open Clock | back | home | answer "07:30" | done
/// ```
///
/// ```
/// use fura_tasks::phone::Action;
///
/// let action: Action = "tap 3".parse()?;
/// assert_eq!(action.to_string(), "tap 3");
/// assert!("tap 03".parse::<Action>().is_err());
/// # Ok::<(), fura_tasks::phone::ActionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Touch the element with this index on the screen.
    Tap(u8),
    /// Replace the text of the field with this index.
    Type(u8, Arc<str>),
    /// Show the next elements of the screen (`true`), or those before.
    Scroll(bool),
    /// Open an app.
    Open(App),
    /// Go to the screen above.
    Back,
    /// Go to the home screen.
    Home,
    /// Answer a question; ends the episode.
    Answer(Arc<str>),
    /// Say that the task is done; ends the episode.
    Done,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap(n) => write!(f, "tap {n}"),
            Self::Type(n, text) => write!(f, "type {n} {}", quoted(text)),
            Self::Scroll(true) => f.write_str("scroll down"),
            Self::Scroll(false) => f.write_str("scroll up"),
            Self::Open(app) => write!(f, "open {app}"),
            Self::Back => f.write_str("back"),
            Self::Home => f.write_str("home"),
            Self::Answer(text) => write!(f, "answer {}", quoted(text)),
            Self::Done => f.write_str("done"),
        }
    }
}

fn quoted(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}

impl FromStr for Action {
    type Err = ActionError;

    fn from_str(text: &str) -> Result<Self, ActionError> {
        let parsed = parse(text);
        // Written in the one way that it is printed in, so equal actions have equal texts.
        parsed
            .filter(|action| action.to_string() == text)
            .ok_or_else(|| ActionError::Malformed { found: text.chars().take(80).collect() })
    }
}

fn parse(text: &str) -> Option<Action> {
    // A text may be written with up to six bytes for each of its own.
    if text.len() > 16 + 6 * TEXT_LIMIT {
        return None;
    }
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match verb {
        "tap" => Action::Tap(rest.parse().ok()?),
        "type" => {
            let (n, text) = rest.split_once(' ')?;
            Action::Type(n.parse().ok()?, string(text)?)
        }
        "scroll" => Action::Scroll(rest == "down"),
        "open" => Action::Open(App::ALL.into_iter().find(|app| app.as_str() == rest)?),
        "back" => Action::Back,
        "home" => Action::Home,
        "answer" => Action::Answer(string(rest)?),
        "done" => Action::Done,
        _ => return None,
    })
}

fn string(json: &str) -> Option<Arc<str>> {
    serde_json::from_str::<String>(json).ok().filter(|text| text.len() <= TEXT_LIMIT).map(Arc::from)
}

/// Why a text is no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// It is not one of the forms.
    #[error(
        "{found:?} is no action; write tap N, type N \"TEXT\", scroll down, scroll up, open APP, back, home, \
         answer \"TEXT\" or done, TEXT a JSON string of at most {TEXT_LIMIT} bytes"
    )]
    Malformed {
        /// The beginning of the text.
        found: String,
    },
}
