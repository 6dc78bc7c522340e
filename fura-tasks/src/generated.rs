//! Generated environments of one answer in free text: arithmetic, function calls, JSON.
//!
//! Each is an endless stream of requests in a prompt with one or two examples, which show the form of the answer
//! and nothing else. A model writes its answer, which a strict grader judges; there are no legal answers to choose
//! from.
//!
//! | name | asks for | grader |
//! |---|---|---|
//! | `countdown:SEED`, `countdown:SEED/N` | an expression in 2, or 2 to `N` (at most 4), numbers that makes a target | `expr` |
//! | `calls:SEED` | the call of one of ten functions of a phone | `call` |
//! | `extract:SEED` | the facts of a message of one of five kinds | `json`, with a schema |
//!
//! ```text
//! Use each number once with + - * /.
//!
//! Use 9 and 4 to make 5.
//! Expression: 9 - 4
//!
//! Make 28 from 7 and 4.
//! Expression:
//! ```
//!
//! *Training* and *held-out* requests have the same wordings. A hash of what is asked for, without its wording, puts
//! about one in four on the held-out side: the numbers and the target, in any order; the function and its arguments;
//! the JSON. It is the same for every seed, and nothing of the held-out side is asked for in training or given as an
//! example. *Phrasings* requests ask for what training does, in wordings that training never uses.
//!
//! Everything is a pure function of the name, the split, the generation and the index, and the same on every
//! machine. Other seeds draw other requests of the same kinds.

mod calls;
mod countdown;
mod extract;
mod item;

use std::str::FromStr;

use crate::random::Stream;
use crate::task::{Split, Task};
use item::Item;

/// Counts every change after which a name gives other tasks.
const VERSION: u32 = 1;

/// One in this many of all that can be asked for is never trained on.
const HELDOUT_SHARE: u8 = 4;

/// The streams of a seed; training generations follow from `TRAIN`.
mod stream {
    pub(super) const HELDOUT: u64 = 1;
    pub(super) const PHRASINGS: u64 = 2;
    pub(super) const TRAIN: u64 = 1 << 32;
}

/// Generated tasks of one kind; see the [module](self).
///
/// ```
/// use fura_tasks::{Generated, Grade, Label};
///
/// let source: Generated = "countdown:7/3".parse()?;
/// assert_eq!(source.describe(), "countdown:7/3 v1");
/// let task = &source.train(0, 8)[0];
/// assert!(task.prompt.ends_with("\nExpression:") && task.choices.is_empty());
/// assert_eq!(task.grade(&task.answer), Grade::score(1.0, Label::Right));
/// # Ok::<(), fura_tasks::GeneratedError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    kind: Kind,
    seed: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Expressions in at most so many numbers.
    Countdown(u8),
    Calls,
    Extract,
}

impl Generated {
    /// Expressions in 2 to `most` numbers.
    ///
    /// # Errors
    ///
    /// When `most` is not in 2 to 4.
    pub fn countdown(seed: u64, most: u8) -> Result<Self, GeneratedError> {
        if !(countdown::FEWEST..=countdown::MOST).contains(&most) {
            return Err(GeneratedError::BadName { found: format!("countdown:{seed}/{most}") });
        }
        Ok(Self { kind: Kind::Countdown(most), seed })
    }

    /// Calls of functions.
    #[must_use]
    pub fn calls(seed: u64) -> Self {
        Self { kind: Kind::Calls, seed }
    }

    /// Facts of messages.
    #[must_use]
    pub fn extract(seed: u64) -> Self {
        Self { kind: Kind::Extract, seed }
    }

    /// Whether a text is meant to name one of these environments and not a file: it begins with the name of one and
    /// a colon.
    #[must_use]
    pub fn is_name(text: &str) -> bool {
        text.split_once(':').is_some_and(|(name, _)| ["countdown", "calls", "extract"].contains(&name))
    }

    /// The string that identifies the environment exactly, for run logs: `calls:7 v1`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} v{VERSION}", self.name())
    }

    /// `n` fresh training tasks for a generation.
    ///
    /// Each block has every count of numbers, function, or kind of message once, in random order; fewer tasks are
    /// the beginning of more.
    #[must_use]
    pub fn train(&self, generation: u32, n: usize) -> Vec<Task> {
        let name = format!("train/{generation}");
        self.tasks(stream::TRAIN + u64::from(generation), Split::Train, &name, n)
    }

    /// `n` tasks that ask for what is never trained on, in the wordings of training; balanced like
    /// [`train`](Self::train).
    #[must_use]
    pub fn heldout(&self, n: usize) -> Vec<Task> {
        self.tasks(stream::HELDOUT, Split::Heldout, "heldout", n)
    }

    /// `n` tasks in wordings that training never uses; balanced like [`train`](Self::train).
    #[must_use]
    pub fn phrasings(&self, n: usize) -> Vec<Task> {
        self.tasks(stream::PHRASINGS, Split::Phrasings, "phrasings", n)
    }

    fn name(&self) -> String {
        match self.kind {
            Kind::Countdown(countdown::FEWEST) => format!("countdown:{}", self.seed),
            Kind::Countdown(most) => format!("countdown:{}/{most}", self.seed),
            Kind::Calls => format!("calls:{}", self.seed),
            Kind::Extract => format!("extract:{}", self.seed),
        }
    }

    fn tasks(&self, stream: u64, split: Split, part: &str, n: usize) -> Vec<Task> {
        let mut stream = Stream::new(self.seed, stream);
        let mut block: Vec<usize> = (0..self.kind.variants()).collect();
        let mut tasks = Vec::new();
        while tasks.len() < n {
            block.sort_unstable();
            stream.shuffle(&mut block);
            for &variant in block.iter().take(n - tasks.len()) {
                let id = format!("{}/{part}/{}", self.name(), tasks.len());
                tasks.push(self.kind.task(&mut stream, id, split, variant));
            }
        }
        tasks
    }
}

impl Kind {
    /// How many sorts of requests there are, which every block has once each.
    fn variants(self) -> usize {
        match self {
            Self::Countdown(most) => usize::from(most - countdown::FEWEST) + 1,
            Self::Calls => calls::FUNCTIONS.len(),
            Self::Extract => extract::MESSAGES.len(),
        }
    }

    fn task(self, stream: &mut Stream, id: String, split: Split, variant: usize) -> Task {
        let item = self.item(stream, variant, split);
        let (head, of): (String, Vec<usize>) = match self {
            Self::Countdown(_) => (countdown::RULE.to_owned(), vec![variant]),
            Self::Calls => calls::listed(stream, variant),
            Self::Extract => (String::new(), vec![variant]),
        };
        let examples: Vec<Item> = of.into_iter().map(|of| self.example(stream, of, &item)).collect();
        let mut prompt = head;
        for example in &examples {
            prompt += &format!("{}{}\n\n", example.request, example.answer);
        }
        prompt += &item.request;
        let mut bad = item.bad;
        bad.extend(examples.into_iter().map(|example| example.answer));
        Task {
            id,
            prompt,
            messages: Vec::new(),
            answer: item.answer,
            grade: item.grade,
            choices: Vec::new(),
            max_tokens: match self {
                Self::Countdown(_) => 6 * (variant as u32 + u32::from(countdown::FEWEST)),
                Self::Calls => 24,
                Self::Extract => 32,
            },
            stop: vec!["\n".to_owned()],
            split,
            good: item.good,
            bad,
            tags: vec![item.tag],
            meta: serde_json::Map::new(),
        }
    }

    /// A random request of a split.
    fn item(self, stream: &mut Stream, variant: usize, split: Split) -> Item {
        let unseen = split == Split::Phrasings;
        loop {
            let item = match self {
                Self::Countdown(_) => countdown::item(stream, variant, unseen),
                Self::Calls => calls::item(stream, variant, unseen),
                Self::Extract => extract::item(stream, variant, unseen),
            };
            // Both sides of every variant have a twentieth or more (tested), so a draw on the wrong side is
            // repeated a few times only.
            if is_heldout(&item.key) == (split == Split::Heldout) {
                return item;
            }
        }
    }

    /// An example: a training request that asks for something else.
    fn example(self, stream: &mut Stream, variant: usize, than: &Item) -> Item {
        loop {
            let item = self.item(stream, variant, Split::Train);
            if item.key != than.key {
                return item;
            }
        }
    }
}

/// Whether what is asked for is never trained on: by a hash of it alone, so for every seed alike.
fn is_heldout(key: &str) -> bool {
    blake3::hash(key.as_bytes()).as_bytes()[0].is_multiple_of(HELDOUT_SHARE)
}

impl FromStr for Generated {
    type Err = GeneratedError;

    /// Reads `countdown:SEED`, `countdown:SEED/N`, `calls:SEED` or `extract:SEED`, the seed a decimal integer below
    /// 2^64, `N` 2, 3 or 4.
    fn from_str(text: &str) -> Result<Self, GeneratedError> {
        let bad = || GeneratedError::BadName { found: text.chars().take(80).collect() };
        let (name, rest) = text.split_once(':').ok_or_else(bad)?;
        let (seed, most) = match rest.split_once('/') {
            Some((seed, most)) if name == "countdown" => (seed, most),
            _ => (rest, "2"),
        };
        let most = match most {
            "2" => 2,
            "3" => 3,
            "4" => 4,
            _ => return Err(bad()),
        };
        // `parse` alone would take a plus sign.
        if !seed.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let seed = seed.parse().map_err(|_| bad())?;
        match name {
            "countdown" => Self::countdown(seed, most),
            "calls" => Ok(Self::calls(seed)),
            "extract" => Ok(Self::extract(seed)),
            _ => Err(bad()),
        }
    }
}

/// Why a text names no generated tasks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratedError {
    /// It is none of the names.
    #[error(
        "{found:?} names no generated tasks; write countdown:SEED, countdown:SEED/N with N from 2 to 4, calls:SEED \
         or extract:SEED, SEED below 2^64"
    )]
    BadName {
        /// The beginning of the text.
        found: String,
    },
}

#[cfg(test)]
mod tests;
