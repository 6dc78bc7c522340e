//! Columns as TRL, verifiers and reasoning-gym name them.

use std::io::BufRead;

use serde_json::Value;

use super::{Ask, Imported, Row, messages, rows, task};
use crate::grader::GraderSpec;
use crate::task_file::TaskFileError;

/// Columns that hold the question, the first one present counting.
const QUESTIONS: [&str; 3] = ["prompt", "messages", "question"];

/// Columns that hold the answer, the first one present counting.
const ANSWERS: [&str; 4] = ["answer", "solution", "ground_truth", "reference_answer"];

const MOST_TOKENS: u32 = 256;

/// Imports rows with a question (`prompt`, `messages` or `question`: a text or a conversation) and
/// an answer (`answer`, `solution`, `ground_truth` or `reference_answer`: a text or a number), all
/// graded by `grade`. `id`, if there is one, names the task; other columns become its `meta`.
///
/// ```
/// use fura_tasks::{GraderSpec, import};
/// let grade: GraderSpec = serde_json::from_str(r#"{"type":"number"}"#).unwrap();
/// let row = r#"{"prompt":[{"role":"user","content":"2 + 2?"}],"ground_truth":4,"level":1}"#;
/// let imported = import::columns("rows.jsonl", row.as_bytes(), &grade)?;
/// assert_eq!(imported.tasks[0].answer, "4");
/// assert_eq!(imported.tasks[0].meta["level"], 1);
/// # Ok::<(), fura_tasks::TaskFileError>(())
/// ```
///
/// # Errors
///
/// When the file cannot be read or a line is not a JSON object.
pub fn columns(file: &str, reader: impl BufRead, grade: &GraderSpec) -> Result<Imported, TaskFileError> {
    rows(file, reader, |mut row, line| {
        let ask = ask(&mut row)?;
        let answer = take(&mut row, &ANSWERS).ok_or_else(|| format!("none of the columns {ANSWERS:?}"))?;
        let answer = answer_text(&answer)?;
        let id = match row.remove("id") {
            Some(Value::String(id)) => id,
            Some(Value::Number(id)) => id.to_string(),
            _ => format!("row-{line}"),
        };
        let mut task = task(id, ask, answer, grade.clone(), MOST_TOKENS);
        task.meta = row;
        Ok(task)
    })
}

/// Takes the question out of a row.
pub(super) fn ask(row: &mut Row) -> Result<Ask, String> {
    match take(row, &QUESTIONS) {
        None => Err(format!("none of the columns {QUESTIONS:?}")),
        Some(Value::String(text)) => Ok(Ask::Prompt(text)),
        Some(value) => messages(&value).map(Ask::Messages),
    }
}

/// The text of an answer that is a text or a number.
pub(super) fn answer_text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err("the answer is neither a text nor a number".to_owned()),
    }
}

/// Takes the first of several columns that is there and not null.
fn take(row: &mut Row, columns: &[&str]) -> Option<Value> {
    let column = columns.iter().find(|column| row.get(**column).is_some_and(|value| !value.is_null()))?;
    row.remove(*column)
}
