//! Single decisions of the phone as tasks of scored choice.

use std::str::FromStr;

use super::episode::Episode;
use super::oracle::solve;
use super::task::PhoneTask;
use super::template::{Level, Template, templates};
use super::{PhoneSplit, User, VERSION};
use crate::grader::{ChoiceSpec, Fold, GraderSpec};
use crate::random::Stream;
use crate::task::{Split, Task};

/// The most states that the search for the way of a decision looks at.
const SEARCHED: usize = 20_000;

/// Decisions of one user whose hidden habits decide: `phone:SEED` of level 1, or `phone:SEED/LEVEL` of levels 1 to LEVEL.
///
/// At level 1 a decision is a whole task: one action, whose outcome is its reward. Higher levels also have the
/// decisions of tasks of several actions: the episode stands somewhere on a shortest way, and an action is right when
/// the task can still be done in the least number of actions. That is the outcome of the episode if it goes on as
/// well as possible, which [`solve`] tells; an agent alone would have to learn it from whole episodes.
///
/// ```
/// use fura_tasks::phone::Decisions;
///
/// let source: Decisions = "phone:7".parse()?;
/// let task = &source.train(0, 8)[0];
/// assert!(task.prompt.starts_with("Task: ") && task.prompt.ends_with("\nDo:"));
/// assert!(task.choices.contains(&task.answer));
/// # Ok::<(), fura_tasks::phone::PhoneError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decisions {
    user: User,
    level: Level,
}

impl Decisions {
    /// The decisions of a user up to a level.
    #[must_use]
    pub fn new(user: User, level: Level) -> Self {
        Self { user, level }
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The highest level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The string that identifies the decisions exactly, for run logs: `phone:7 v1`.
    #[must_use]
    pub fn describe(&self) -> String {
        let level = if self.level.get() == 1 { String::new() } else { format!("/{}", self.level.get()) };
        format!("phone:{}{level} v{VERSION}", self.user.seed())
    }

    /// `n` fresh training decisions for a generation; each block of as many as there are templates has every
    /// template once, in random order, and fewer are the beginning of more.
    #[must_use]
    pub fn train(&self, generation: u32, n: usize) -> Vec<Task> {
        self.tasks(PhoneSplit::Train, Split::Train, u64::from(generation) << 32, n)
    }

    /// `n` decisions with unseen values.
    #[must_use]
    pub fn heldout(&self, n: usize) -> Vec<Task> {
        self.tasks(PhoneSplit::Values, Split::Heldout, 0, n)
    }

    /// `n` decisions in unseen wordings.
    #[must_use]
    pub fn phrasings(&self, n: usize) -> Vec<Task> {
        self.tasks(PhoneSplit::Phrasings, Split::Phrasings, 0, n)
    }

    /// `n` whole tasks of a split whose habits decide, of all levels up to this one.
    #[must_use]
    pub fn whole(&self, split: PhoneSplit, n: usize) -> Vec<PhoneTask> {
        let mut tasks = Vec::with_capacity(n);
        self.each(split, 1 << 31, |task| {
            if tasks.len() < n {
                tasks.push(task);
            }
            tasks.len() < n
        });
        tasks
    }

    fn tasks(&self, phone_split: PhoneSplit, split: Split, first: u64, n: usize) -> Vec<Task> {
        let mut tasks = Vec::with_capacity(n);
        if n > 0 {
            self.each(phone_split, first, |task| {
                tasks.extend(decision(task, split));
                tasks.len() < n
            });
        }
        tasks
    }

    /// Gives tasks of the split, block after block of all templates, until `take` says no. Nothing when the split has
    /// no templates.
    fn each(&self, split: PhoneSplit, first: u64, mut take: impl FnMut(PhoneTask) -> bool) {
        let own = |t: &Template| t.level <= self.level && t.is_hidden() && split.has(t.family);
        let mut block: Vec<Template> = templates().filter(own).collect();
        // A block gives at least one task, or none ever will.
        let mut given = true;
        let mut number = first;
        while given {
            given = false;
            Stream::new(self.user.seed(), number.wrapping_add(1 << 47)).shuffle(&mut block);
            for template in &block {
                let Some(task) = self.user.task(&template.name(), split, number) else { continue };
                given = true;
                if !take(task) {
                    return;
                }
            }
            number += 1;
        }
    }
}

/// A decision of a task: its only one, or that of a step on the way drawn from the task's name.
fn decision(task: PhoneTask, split: Split) -> Option<Task> {
    let way = solve(&task, SEARCHED)?;
    if task.level().get() == 1 && way.len() > 1 {
        return None;
    }
    let step = blake3::hash(task.id().as_bytes()).as_bytes()[0] as usize % way.len();
    let mut episode = Episode::new(task, way.len());
    for action in &way[..step] {
        episode.act(action);
    }
    let left = way.len() - step - 1;
    let choices = episode.choices();
    let right = |action| {
        let mut next = episode.clone();
        next.act(action);
        next.succeeded() || (next.outcome().is_none() && remaining(&next, left))
    };
    let rights: Vec<String> = episode
        .actions()
        .iter()
        .zip(&choices)
        .filter(|(action, _)| right(action))
        .map(|(_, choice)| choice.clone())
        .collect();
    let (answer, also) = rights.split_first()?;
    let mut grade = ChoiceSpec::new(Fold::Space);
    grade.also = also.to_vec();
    Some(Task {
        id: format!("{}#{step}", episode.task().id()),
        prompt: episode.prompt(),
        messages: Vec::new(),
        answer: answer.clone(),
        grade: GraderSpec::Choice(grade),
        choices,
        max_tokens: 16,
        stop: Vec::new(),
        split,
        good: Vec::new(),
        bad: Vec::new(),
        tags: vec![episode.task().template().to_owned()],
        meta: serde_json::Map::new(),
    })
}

/// Whether the rest of an episode can be done in `left` actions.
fn remaining(episode: &Episode, left: usize) -> bool {
    solve(&episode.rest(), SEARCHED).is_some_and(|way| way.len() <= left)
}

impl FromStr for Decisions {
    type Err = PhoneError;

    /// Reads `phone:SEED` or `phone:SEED/LEVEL`, the seed a decimal integer below 2^64, the level 1 to 4.
    fn from_str(text: &str) -> Result<Self, PhoneError> {
        let bad = || PhoneError::BadName { found: text.chars().take(80).collect() };
        let name = text.strip_prefix("phone:").ok_or_else(bad)?;
        let (seed, level) = name.split_once('/').unwrap_or((name, "1"));
        let level = Level::ALL.into_iter().find(|l| l.get().to_string() == level).ok_or_else(bad)?;
        // `parse` alone would take a plus sign.
        if !seed.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        Ok(Self::new(User::new(seed.parse().map_err(|_| bad())?), level))
    }
}

/// Why a text names no user's decisions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhoneError {
    /// It is not `phone:SEED` or `phone:SEED/LEVEL`.
    #[error(
        "{found:?} names no phone; write phone:SEED for level 1 or phone:SEED/LEVEL for levels 1 to LEVEL, 2 to 4, SEED \
         below 2^64"
    )]
    BadName {
        /// The beginning of the text.
        found: String,
    },
}
