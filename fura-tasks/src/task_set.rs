//! The tasks of one file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::random::Stream;
use crate::task::{Split, Task};
use crate::task_file::{self, TaskFileError};

/// The tasks of one file, each checked against its own grader.
///
/// ```
/// use fura_tasks::{Split, TaskSet};
///
/// let file = concat!(
///     r#"{"fura_tasks":1,"defaults":{"grade":{"type":"exact"},"stop":["\n"]}}"#, "\n",
///     r#"{"id":"a","prompt":"Sky:","answer":"blue"}"#, "\n",
///     r#"{"id":"b","prompt":"Grass:","answer":"green","split":"heldout"}"#, "\n",
/// );
/// let set = TaskSet::read("colours.jsonl", file.as_bytes())?;
/// assert_eq!(set.of(Split::Train).count(), 1);
/// assert!(set.describe().starts_with("colours.jsonl blake3:"));
/// # Ok::<(), fura_tasks::TaskFileError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSet {
    description: String,
    tasks: Vec<Task>,
}

impl TaskSet {
    /// Reads a task file. The last part of `path` names it in the description and the whole
    /// of it in errors.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, a line is not a task, or a task fails its own test; see
    /// [`TaskFileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TaskFileError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|source| TaskFileError::Read { file: shown.clone(), source })?;
        let name = path.file_name().map(|name| name.to_string_lossy());
        let (tasks, hash) = task_file::read(&shown, BufReader::new(file))?;
        Ok(Self::new(name.as_deref().unwrap_or(&shown), hash, tasks))
    }

    /// Reads a task file from any reader; `name` stands for the file in the description and
    /// in errors.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn read(name: &str, reader: impl BufRead) -> Result<Self, TaskFileError> {
        let (tasks, hash) = task_file::read(name, reader)?;
        Ok(Self::new(name, hash, tasks))
    }

    fn new(name: &str, hash: blake3::Hash, tasks: Vec<Task>) -> Self {
        let name = name.escape_debug();
        Self { description: format!("{name} blake3:{}", hash.to_hex()), tasks }
    }

    /// The string that identifies the set exactly, for run logs: the file's name and the
    /// BLAKE3 hash of its bytes.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// All tasks, in the order of the file.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The tasks of one split, in the order of the file.
    pub fn of(&self, split: Split) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(move |task| task.split == split)
    }

    /// `n` training tasks for one generation, a pure function of its arguments: the first `n`
    /// of the training tasks shuffled anew for (`seed`, `generation`); when there are fewer
    /// than `n`, further shuffles follow, so that the counts of any two tasks differ by at
    /// most 1. Empty when the set has no training tasks.
    #[must_use]
    pub fn sample(&self, seed: u64, generation: u32, n: usize) -> Vec<Task> {
        let mut order: Vec<&Task> = self.of(Split::Train).collect();
        if order.is_empty() {
            return Vec::new();
        }
        let mut stream = Stream::new(seed, u64::from(generation));
        let mut out = Vec::new();
        while out.len() < n {
            stream.shuffle(&mut order);
            out.extend(order.iter().take(n - out.len()).map(|&task| task.clone()));
        }
        out
    }
}
