//! Task files of others, as tasks of ours.
//!
//! | format | reader |
//! |---|---|
//! | GSM8K's `question` and `answer` with `####` | [`gsm8k`] |
//! | the Berkeley Function Calling Leaderboard's single calls (`simple`, `multiple`) | [`bfcl`] |
//! | items with an OpenAI grader | [`openai`] |
//! | columns as TRL, verifiers and reasoning-gym name them | [`columns`] |
//!
//! Every imported task has passed the test that task files pass when they are read: its answer
//! scores 1 under its own grader. A row for which there is no such task is left out and reported
//! with the reason; a file that cannot be read as the format at all is an error.

mod bfcl;
mod columns;
mod gsm8k;
mod openai;

pub use bfcl::bfcl;
pub use columns::columns;
pub use gsm8k::gsm8k;
pub use openai::{OpenAiGrader, openai};

use std::io::BufRead;

use serde_json::{Map, Value};

use crate::grader::GraderSpec;
use crate::task::{Message, Split, Task};
use crate::task_file::{self, Lines, Place, TaskFileError};

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Imported {
    /// The tasks, in the order of the file, of the split `train`.
    pub tasks: Vec<Task>,
    /// The rows that were left out.
    pub skipped: Vec<Skipped>,
}

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Its line, from 1.
    pub line: usize,
    /// Why, in one line.
    pub why: String,
}

impl Imported {
    /// The tasks moved to another split. Its name is put in front of their ids, so that what comes of a file for
    /// training and of one for testing can be written into one task file, where ids differ.
    ///
    /// ```
    /// use fura_tasks::{Split, import};
    /// let row = r#"{"question":"Two and two?","answer":"2+2=<<2+2=4>>4\n#### 4"}"#;
    /// let test = import::gsm8k("test.jsonl", row.as_bytes())?.into_split(Split::Heldout);
    /// assert_eq!((test.tasks[0].id.as_str(), test.tasks[0].split), ("heldout-gsm8k-1", Split::Heldout));
    /// # Ok::<(), fura_tasks::TaskFileError>(())
    /// ```
    #[must_use]
    pub fn into_split(mut self, split: Split) -> Self {
        for task in self.tasks.iter_mut().filter(|task| task.split != split) {
            task.split = split;
            task.id = format!("{split}-{}", task.id);
        }
        self
    }
}

/// A row of another format: a JSON object.
type Row = Map<String, Value>;

/// Imports a file row by row. A function makes a task of a row, given a name for it, or says why
/// it cannot.
fn rows(
    file: &str,
    reader: impl BufRead,
    mut import: impl FnMut(Row, String) -> Result<Task, String>,
) -> Result<Imported, TaskFileError> {
    let mut imported = Imported::default();
    let mut lines = Lines::new(file, reader);
    while let Some((place, line)) = lines.next()? {
        let row = task_file::parse(line, place)?;
        let id = format!("{}", place.line);
        match import(row, id).and_then(|task| checked(task, place)) {
            Ok(task) => imported.tasks.push(task),
            Err(why) => imported.skipped.push(Skipped { line: place.line, why }),
        }
    }
    if imported.tasks.is_empty() && imported.skipped.is_empty() {
        return Err(TaskFileError::NoTasks { file: file.to_owned() });
    }
    Ok(imported)
}

/// A task that passes its own test, or why it does not.
fn checked(task: Task, place: Place<'_>) -> Result<Task, String> {
    match task_file::check(&task, place) {
        Ok(()) => Ok(task),
        Err(TaskFileError::Line { field, why, .. }) => Err(format!("field `{field}`: {why}")),
        Err(TaskFileError::Grader { source, .. }) => Err(source.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// What a row asks.
enum Ask {
    Prompt(String),
    Messages(Vec<Message>),
}

/// A task with what importers do not set.
fn task(id: String, ask: Ask, answer: String, grade: GraderSpec, max_tokens: u32) -> Task {
    let (prompt, messages) = match ask {
        Ask::Prompt(prompt) => (prompt, Vec::new()),
        Ask::Messages(messages) => (String::new(), messages),
    };
    Task {
        id,
        prompt,
        messages,
        answer,
        grade,
        choices: Vec::new(),
        max_tokens,
        stop: Vec::new(),
        split: Split::Train,
        good: Vec::new(),
        bad: Vec::new(),
        tags: Vec::new(),
        meta: Map::new(),
    }
}

/// A text column of a row.
fn text(row: &Row, column: &str) -> Result<String, String> {
    match row.get(column) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("column `{column}`: expected a text")),
        None => Err(format!("column `{column}`: missing")),
    }
}

/// A column with a conversation.
fn messages(value: &Value) -> Result<Vec<Message>, String> {
    serde_json::from_value(value.clone())
        .map_err(|error| format!("expected a list of {{\"role\",\"content\"}}: {error}"))
}
