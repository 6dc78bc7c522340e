//! Files of outputs, to be graded.

use std::io::BufRead;

use serde::{Deserialize, Serialize};

use crate::task_file::{Lines, TaskFileError, parse};

/// An output of a model and the task that it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The id of the task.
    pub id: String,
    /// What the model wrote.
    pub output: String,
}

impl Output {
    /// Reads a file of outputs, `{"id":"...","output":"..."}` a line; `file` names it in errors.
    ///
    /// ```
    /// use fura_tasks::Output;
    /// let outputs = Output::read("outputs.jsonl", &br#"{"id":"a","output":"blue"}"#[..])?;
    /// assert_eq!(outputs[0].output, "blue");
    /// # Ok::<(), fura_tasks::TaskFileError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the file cannot be read or a line is not an output.
    pub fn read(file: &str, reader: impl BufRead) -> Result<Vec<Self>, TaskFileError> {
        let mut lines = Lines::new(file, reader);
        let mut outputs = Vec::new();
        while let Some((place, line)) = lines.next()? {
            outputs.push(parse(line, place)?);
        }
        Ok(outputs)
    }
}
