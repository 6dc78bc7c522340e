//! GSM8K: questions with worked answers that end with `####` and a number.

use std::io::BufRead;

use super::{Ask, Imported, rows, task, text};
use crate::grader::{GraderSpec, NumberSpec, Part, Which, WithinSpec};
use crate::task_file::TaskFileError;

/// The most tokens of an output: the longest worked answers have about 400.
const MOST_TOKENS: u32 = 512;

/// Imports GSM8K's files: `{"question":"...","answer":"...\n#### 18"}` a line.
///
/// The prompt is `Question: ...\nAnswer:`. An output must end like the answers do: the number after
/// `####`, compared by value, so that `18.`, `18.00`, `$18` and `1,234` are read as numbers. What
/// comes before `####` is not graded; `####` twice is wrong. The output ends where another question
/// begins. The worked answer is the task's `good` example.
///
/// ```
/// use fura_tasks::import;
/// let row = r#"{"question":"Two and two?","answer":"2+2=<<2+2=4>>4\n#### 4"}"#;
/// let imported = import::gsm8k("train.jsonl", row.as_bytes())?;
/// assert_eq!(imported.tasks[0].grade("That makes\n#### 4.00").value(), Some(1.0));
/// # Ok::<(), fura_tasks::TaskFileError>(())
/// ```
///
/// # Errors
///
/// When the file cannot be read or a line is not a JSON object.
pub fn gsm8k(file: &str, reader: impl BufRead) -> Result<Imported, TaskFileError> {
    rows(file, reader, |row, line| {
        let question = text(&row, "question")?;
        let worked = text(&row, "answer")?;
        let (_, number) =
            worked.rsplit_once("####").ok_or_else(|| "column `answer`: no `####` in it".to_owned())?;
        let spec = NumberSpec { thousands: true, ..NumberSpec::default() };
        let grade = GraderSpec::Within(WithinSpec {
            part: Part::After("####".to_owned()),
            which: Which::Only,
            grade: Box::new(GraderSpec::Number(spec)),
        });
        let ask = Ask::Prompt(format!("Question: {}\nAnswer:", question.trim()));
        let answer = format!("#### {}", number.trim());
        let mut task = task(format!("gsm8k-{line}"), ask, answer, grade, MOST_TOKENS);
        // A base model goes on with another question, whose `####` would count.
        task.stop.push("\nQuestion:".to_owned());
        task.good.push(worked);
        task.tags.push("gsm8k".to_owned());
        Ok(task)
    })
}
