//! Task files: JSON Lines, one task a line.
//!
//! ```text
//! {"fura_tasks":1,"defaults":{"grade":{"type":"choice","fold":"space"},"choices":[" yes"," no"]}}
//! {"id":"q1","prompt":"Is ice cold?","answer":" yes","bad":["maybe"]}
//! {"id":"q2","prompt":"Is fire cold?","answer":" no","split":"heldout","tags":["heat"]}
//! ```
//!
//! | key | value | when absent |
//! |---|---|---|
//! | `id` | text, unique in the file | an error |
//! | `prompt` | text that the model continues | `messages` |
//! | `messages` | a conversation that the model continues: `{"role":"user","content":"..."}` | `prompt` |
//! | `answer` | a right output | an error |
//! | `grade` | a [`GraderSpec`](crate::GraderSpec) | the default, or an error |
//! | `choices` | legal answers for scored choice, at least one | the default, or free text |
//! | `max_tokens` | 1 to 65536 | the default, or 16 |
//! | `stop` | texts that end an output | the default, or none |
//! | `split` | `train`, `heldout`, `phrasings` | the default, or `train` |
//! | `good`, `bad` | outputs that must score 1, and below 1 | none |
//! | `tags` | words to group reports by | the default, or none |
//! | `meta` | an object of free data | none |
//!
//! The first line may be a header with defaults for `grade`, `choices`, `max_tokens`, `stop`,
//! `split` and `tags`. A line may have 1 MiB (2^20 bytes) and all tasks together, with their
//! defaults, about 256 MiB. Blank lines are skipped; unknown keys are errors. A file tests itself:
//! the answer and every `good` must score 1 under the task's own grader, every `bad` below 1,
//! and with `choices` the answer must be one of them.

mod error;
mod line;
mod lines;

pub use error::TaskFileError;

pub(crate) use error::Place;
pub(crate) use line::parse;
pub(crate) use lines::Lines;

use std::collections::HashMap;
use std::io::BufRead;

use crate::task::Task;
use line::{Defaults, RawTask};

/// The longest line of a task file, in bytes without its line end.
pub const LINE_LIMIT: usize = 1 << 20;

/// The most memory that the tasks of one file may take, about, in bytes. Defaults are repeated
/// in every task, so a small file could otherwise ask for any amount.
const SIZE_LIMIT: usize = 1 << 28;

/// Checks a task that does not come from a task file as if it did; `place` is where it is from.
pub(crate) fn check(task: &Task, place: Place<'_>) -> Result<(), TaskFileError> {
    line::check(task, place)
}

/// The tasks of a file and the hash of its bytes.
pub(crate) fn read(file: &str, reader: impl BufRead) -> Result<(Vec<Task>, blake3::Hash), TaskFileError> {
    read_within(SIZE_LIMIT, file, reader)
}

fn read_within(
    limit: usize,
    file: &str,
    reader: impl BufRead,
) -> Result<(Vec<Task>, blake3::Hash), TaskFileError> {
    let (mut first, mut defaults) = (true, Defaults::default());
    let (mut tasks, mut size) = (Vec::new(), 0);
    let mut first_use: HashMap<String, usize> = HashMap::new();
    let mut lines = Lines::new(file, reader);
    while let Some((place, line)) = lines.next()? {
        if std::mem::take(&mut first) && line::is_header(line) {
            defaults = Defaults::from_header(line, place)?;
            continue;
        }
        let task = RawTask::parse(line, place)?.with_defaults(&defaults, place)?;
        size += line::size(&task);
        if size > limit {
            return Err(place.too_much(limit));
        }
        line::check(&task, place)?;
        if let Some(&earlier) = first_use.get(&task.id) {
            return Err(place.same_id(&task.id, earlier));
        }
        first_use.insert(task.id.clone(), place.line);
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(TaskFileError::NoTasks { file: file.to_owned() });
    }
    Ok((tasks, lines.hash()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_defaults_of_many_small_tasks_are_refused() {
        let mut text = format!(
            r#"{{"fura_tasks":1,"defaults":{{"grade":{{"type":"exact"}},"tags":["{}"]}}}}"#,
            "x".repeat(10_000)
        );
        for id in 0..100 {
            text += &format!("\n{{\"id\":\"{id}\",\"prompt\":\"Q:\",\"answer\":\"a\"}}");
        }
        let error = read_within(100_000, "t.jsonl", text.as_bytes()).unwrap_err();
        assert!(matches!(error, TaskFileError::TooMuch { line: 9..=11, .. }), "{error}");
        assert_eq!(read("t.jsonl", text.as_bytes()).unwrap().0.len(), 100);
    }
}
