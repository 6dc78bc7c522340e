//! What can be wrong with a task file, and where.

use std::io;

use crate::grader::GraderError;

/// Why a task file was refused. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskFileError {
    /// The file could not be read.
    #[error("{file}: cannot be read: {source}; check the path and its permissions")]
    Read {
        /// The file.
        file: String,
        /// The reason.
        source: io::Error,
    },
    /// A line is not what a task file may hold.
    #[error("{file}: line {line}, byte {byte}{}: {why}", of_field(field))]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The byte of the line at which the fault was noticed, from 1; 1 for the whole line.
        byte: usize,
        /// The key of the line that it is about; empty when none.
        field: String,
        /// What was expected or found, and what to do.
        why: String,
    },
    /// A task's grader cannot be made.
    #[error("{file}: line {line}: task {id:?}: {source}")]
    Grader {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The task.
        id: String,
        /// The reason.
        source: GraderError,
    },
    /// The tasks hold more text than is read from one file.
    #[error("{file}: line {line}: more than {limit} bytes of tasks; split the file or shorten its defaults")]
    TooMuch {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The file has no task.
    #[error("{file}: no task in it; write one JSON object a line")]
    NoTasks {
        /// The file.
        file: String,
    },
}

fn of_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", field `{field}`") }
}

/// A line of a file, which every error names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: usize,
}

impl Place<'_> {
    /// An error at a byte (from 1) and in a field (empty for none).
    pub(crate) fn error(self, byte: usize, field: &str, why: &str) -> TaskFileError {
        TaskFileError::Line {
            file: self.file.to_owned(),
            line: self.line,
            byte: byte.max(1),
            field: shown(field, 60),
            why: shown(why, 300),
        }
    }

    pub(super) fn line_too_long(self) -> TaskFileError {
        let why = format!("longer than {} bytes; split or shorten it", super::LINE_LIMIT);
        self.error(super::LINE_LIMIT + 1, "", &why)
    }

    pub(super) fn too_much(self, limit: usize) -> TaskFileError {
        TaskFileError::TooMuch { file: self.file.to_owned(), line: self.line, limit }
    }

    pub(super) fn not_utf8(self, at: usize) -> TaskFileError {
        self.error(at + 1, "", "not UTF-8; save the file as UTF-8")
    }

    pub(super) fn same_id(self, id: &str, first: usize) -> TaskFileError {
        self.error(1, "id", &format!("also the id of line {first}; give it another: {id:?}"))
    }

    pub(super) fn grader(self, id: &str, source: GraderError) -> TaskFileError {
        TaskFileError::Grader { file: self.file.to_owned(), line: self.line, id: shown(id, 60), source }
    }
}

/// The beginning of a text, fit for a one-line message: no control characters, and never a
/// whole megabyte.
pub(crate) fn shown(text: &str, longest: usize) -> String {
    let begin = text.chars().take(longest);
    let mut out: String =
        begin.map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    if text.chars().nth(longest).is_some() {
        out.push_str("...");
    }
    out
}
