//! A generated environment: the hidden habits of a phone's owner.
//!
//! A user has one habitual app for each of eight intents. Which one is drawn from a seed and
//! written nowhere that the model sees: only the outcomes reveal it. Three apps could serve
//! each intent and the habit is never the most obvious of them, so that a base model, which
//! knows phones but not this user, starts low, and knowing one user is no help with another:
//! each habit is the second or the third app with probability 1/2, independently, so two
//! users differ in half of the intents on average.
//!
//! A task lists the intent's three apps and three of other intents, shuffled:
//!
//! ```text
//! Apps: Camera, Signal, Maps, Messages, Journal, Messenger
//! Request: text Anna that I am late
//! Open:
//! ```
//!
//! and is answered by the app's name after a space, ` Signal`.
//!
//! There are three kinds of requests. *Training* and *held-out* requests have the same 6
//! wordings per intent, filled in with people, places, times and so on. A hash of the filled-in
//! request puts about one in four on the held-out side, the same for every user, and each kind
//! draws from its own side only: no held-out request ever occurs in training. *Phrasings*
//! requests have 3 other wordings per intent, of which training gives not one request.
//!
//! Everything is a pure function of the seed, the kind, the generation and the index, and the
//! same on every machine.

mod filler;
mod intent;
mod phrasing;

pub(crate) use filler::{CHORES, Slot};

pub use intent::Intent;

use std::str::FromStr;

use crate::grader::{ChoiceSpec, Fold, GraderSpec};
use crate::random::Stream;
use crate::task::{Split, Task};
use phrasing::{Phrasing, is_heldout};

/// Counts every change after which a seed gives other tasks.
const VERSION: u32 = 1;

/// Apps of other intents in a prompt.
const OTHERS: usize = 3;

/// The streams of a seed; training generations follow from `TRAIN`.
mod stream {
    pub(super) const PROFILE: u64 = 0;
    pub(super) const HELDOUT: u64 = 1;
    pub(super) const PHRASINGS: u64 = 2;
    pub(super) const TRAIN: u64 = 1 << 32;
}

/// One user of a phone, with hidden habits; see the [module](self).
///
/// ```
/// use fura_tasks::{Grade, Habits, Label};
///
/// let user: Habits = "habits:7".parse()?;
/// assert_eq!(user.describe(), "habits:7 v1");
/// let batch = user.train(0, 16);
/// assert_eq!(batch, user.train(0, 16));
/// assert!(batch[0].prompt.starts_with("Apps: ") && batch[0].prompt.ends_with("\nOpen:"));
/// assert_eq!(batch[0].grade(&batch[0].answer), Grade::score(1.0, Label::Right));
/// # Ok::<(), fura_tasks::HabitsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Habits {
    seed: u64,
    /// By intent (in the order of the enum) the index of the habit in `Intent::apps`, 1 or 2.
    habits: [usize; Intent::ALL.len()],
}

impl Habits {
    /// The user of a seed. Other seeds are other users.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream::new(seed, stream::PROFILE);
        let habits = Intent::ALL.map(|_| 1 + stream.below(2) as usize);
        Self { seed, habits }
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The app that the user opens for each intent: for reports, never for the model.
    #[must_use]
    pub fn profile(&self) -> [(Intent, &'static str); 8] {
        Intent::ALL.map(|intent| (intent, intent.apps()[self.habits[intent as usize]]))
    }

    /// The string that identifies the environment exactly, for run logs: `habits:7 v1`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("habits:{} v{VERSION}", self.seed)
    }

    /// `n` fresh training tasks for a generation.
    ///
    /// Each block of eight tasks has every intent once, in random order; fewer tasks are the
    /// beginning of more.
    #[must_use]
    pub fn train(&self, generation: u32, n: usize) -> Vec<Task> {
        let name = format!("train/{generation}");
        self.tasks(stream::TRAIN + u64::from(generation), Split::Train, &name, n)
    }

    /// `n` held-out tasks, in the wordings of training but none of them ever trained on;
    /// balanced like [`train`](Self::train).
    #[must_use]
    pub fn heldout(&self, n: usize) -> Vec<Task> {
        self.tasks(stream::HELDOUT, Split::Heldout, "heldout", n)
    }

    /// `n` tasks in wordings that training never uses; balanced like [`train`](Self::train).
    #[must_use]
    pub fn phrasings(&self, n: usize) -> Vec<Task> {
        self.tasks(stream::PHRASINGS, Split::Phrasings, "phrasings", n)
    }

    fn tasks(&self, stream: u64, split: Split, name: &str, n: usize) -> Vec<Task> {
        let mut stream = Stream::new(self.seed, stream);
        let mut tasks = Vec::new();
        while tasks.len() < n {
            let mut block = self.profile();
            stream.shuffle(&mut block);
            for (intent, habit) in block.into_iter().take(n - tasks.len()) {
                let id = format!("habits:{}/{name}/{}", self.seed, tasks.len());
                let request = request(&mut stream, intent, split);
                tasks.push(task(&mut stream, id, split, intent, habit, &request));
            }
        }
        tasks
    }
}

/// A random request of a kind.
fn request(stream: &mut Stream, intent: Intent, split: Split) -> String {
    if split == Split::Phrasings {
        let list = Phrasing::unseen(intent);
        return list[stream.below(list.len() as u32) as usize].draw(stream);
    }
    let list = Phrasing::trained(intent);
    loop {
        // Every wording has at least an eighth of its requests on either side (tested), so
        // a draw on the wrong side is repeated a few times only.
        let request = list[stream.below(list.len() as u32) as usize].draw(stream);
        if is_heldout(&request) == (split == Split::Heldout) {
            return request;
        }
    }
}

/// The task of one request: its apps, shuffled, and the right one.
fn task(stream: &mut Stream, id: String, split: Split, intent: Intent, habit: &str, request: &str) -> Task {
    let others = Intent::ALL.into_iter().filter(|&other| other != intent);
    let mut others: Vec<&str> = others.flat_map(Intent::apps).collect();
    stream.shuffle(&mut others);
    let mut apps = intent.apps().to_vec();
    apps.extend(others.into_iter().take(OTHERS));
    stream.shuffle(&mut apps);
    Task {
        id,
        prompt: format!("Apps: {}\nRequest: {request}\nOpen:", apps.join(", ")),
        messages: Vec::new(),
        answer: format!(" {habit}"),
        grade: GraderSpec::Choice(ChoiceSpec::new(Fold::Space)),
        choices: apps.iter().map(|app| format!(" {app}")).collect(),
        max_tokens: 4,
        stop: vec!["\n".to_owned()],
        split,
        good: Vec::new(),
        bad: Vec::new(),
        tags: vec![intent.as_str().to_owned()],
        meta: serde_json::Map::new(),
    }
}

impl FromStr for Habits {
    type Err = HabitsError;

    /// Reads `habits:SEED`, the seed a decimal integer below 2^64.
    fn from_str(text: &str) -> Result<Self, HabitsError> {
        text.strip_prefix("habits:")
            // `parse` alone would take a plus sign.
            .filter(|seed| seed.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|seed| seed.parse().ok())
            .map(Self::new)
            .ok_or_else(|| HabitsError::BadName { found: text.chars().take(80).collect() })
    }
}

/// Why a text names no user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HabitsError {
    /// It is not `habits:SEED`.
    #[error("{found:?} names no user; write habits:SEED, for example habits:7, SEED below 2^64")]
    BadName {
        /// The beginning of the text.
        found: String,
    },
}

#[cfg(test)]
mod tests;
