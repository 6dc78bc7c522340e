//! Where tasks come from: a file or an environment.

use crate::generated::Generated;
use crate::habits::Habits;
use crate::phone::Decisions;
use crate::task::{Split, Task};
use crate::task_set::TaskSet;

/// A source of training, held-out and rephrased tasks.
///
/// ```
/// use fura_tasks::{TaskSet, TaskSource};
///
/// let line = r#"{"id":"a","prompt":"Sky:","answer":"blue","grade":{"type":"exact"}}"#;
/// let set = TaskSet::read("colours.jsonl", line.as_bytes())?;
/// let source = TaskSource::File { set, seed: 1 };
/// assert_eq!(source.train(0, 3).len(), 3);
/// assert!(source.heldout(3).is_empty());
/// # Ok::<(), fura_tasks::TaskFileError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskSource {
    /// The tasks of a file.
    File {
        /// The tasks.
        set: TaskSet,
        /// What the order of training tasks is drawn from.
        seed: u64,
    },
    /// A generated user of a phone.
    Habits(Habits),
    /// Decisions on a generated phone.
    Phone(Decisions),
    /// Generated tasks answered in free text.
    Generated(Generated),
}

impl TaskSource {
    /// `n` training tasks for a generation, a pure function of the source and its arguments.
    /// Fewer only when a file has no training tasks: then none.
    #[must_use]
    pub fn train(&self, generation: u32, n: usize) -> Vec<Task> {
        match self {
            Self::File { set, seed } => set.sample(*seed, generation, n),
            Self::Habits(habits) => habits.train(generation, n),
            Self::Phone(phone) => phone.train(generation, n),
            Self::Generated(tasks) => tasks.train(generation, n),
        }
    }

    /// At most `n` held-out tasks, always the same; of a file the first `n` of that split.
    #[must_use]
    pub fn heldout(&self, n: usize) -> Vec<Task> {
        match self {
            Self::File { set, .. } => set.of(Split::Heldout).take(n).cloned().collect(),
            Self::Habits(habits) => habits.heldout(n),
            Self::Phone(phone) => phone.heldout(n),
            Self::Generated(tasks) => tasks.heldout(n),
        }
    }

    /// At most `n` tasks in wordings that training does not use, always the same; of a file
    /// the first `n` of that split.
    #[must_use]
    pub fn phrasings(&self, n: usize) -> Vec<Task> {
        match self {
            Self::File { set, .. } => set.of(Split::Phrasings).take(n).cloned().collect(),
            Self::Habits(habits) => habits.phrasings(n),
            Self::Phone(phone) => phone.phrasings(n),
            Self::Generated(tasks) => tasks.phrasings(n),
        }
    }

    /// The string that identifies the source exactly, for run logs.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::File { set, seed } => format!("{} seed:{seed}", set.describe()),
            Self::Habits(habits) => habits.describe(),
            Self::Phone(phone) => phone.describe(),
            Self::Generated(tasks) => tasks.describe(),
        }
    }
}
