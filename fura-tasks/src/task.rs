//! One task: a prompt and everything that decides the outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::grader::{AnyGrader, Grade, Grader, GraderError, GraderSpec, Label};

/// What a task is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Training.
    #[default]
    Train,
    /// Measuring, on tasks of the same kind that are never trained on.
    Heldout,
    /// Measuring, on wordings that are never trained on.
    Phrasings,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Heldout => "heldout",
            Self::Phrasings => "phrasings",
        })
    }
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever set the model up.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One prompt with the answer, the grader and the legal answers that belong to it.
///
/// ```
/// use fura_tasks::{Grade, Label, TaskSet};
///
/// let line = r#"{"id":"a1","prompt":"2 + 2 =","answer":"4","grade":{"type":"number"}}"#;
/// let set = TaskSet::read("sums.jsonl", line.as_bytes())?;
/// let task = &set.tasks()[0];
/// assert_eq!(task.grade(" 4.0"), Grade::score(1.0, Label::Right));
/// assert_eq!(task.grade(" 5"), Grade::score(0.0, Label::Wrong));
/// # Ok::<(), fura_tasks::TaskFileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Task {
    /// A name that no other task of the set has.
    pub id: String,
    /// The text that the model continues; empty when there are `messages`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The conversation that the model continues, to be written in its chat template; empty when
    /// there is a `prompt`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// A right output.
    pub answer: String,
    /// How outputs are graded.
    pub grade: GraderSpec,
    /// The legal answers when the model scores each instead of writing; empty for free text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The most tokens that the model may write, at least 1.
    pub max_tokens: u32,
    /// Texts at which the output ends; they are no part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// What the task is for.
    pub split: Split,
    /// Further outputs that are right: tests of the grader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub good: Vec<String>,
    /// Outputs that are not right: tests of the grader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bad: Vec<String>,
    /// Words to group reports by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Free data, which nothing here looks at; external graders get it.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub meta: serde_json::Map<String, serde_json::Value>,
}

impl Task {
    /// The task as a line of a task file, without a line break.
    ///
    /// ```
    /// use fura_tasks::TaskSet;
    /// let line = r#"{"id":"a","prompt":"Sky:","answer":"blue","grade":{"type":"exact"}}"#;
    /// let set = TaskSet::read("a.jsonl", line.as_bytes())?;
    /// let written = set.tasks()[0].to_line();
    /// assert_eq!(TaskSet::read("b.jsonl", written.as_bytes())?.tasks(), set.tasks());
    /// # Ok::<(), fura_tasks::TaskFileError>(())
    /// ```
    #[must_use]
    pub fn to_line(&self) -> String {
        // Nothing of a task can fail to be written: keys are texts, and there is no I/O.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The task's grader; make it once to grade many outputs.
    ///
    /// # Errors
    ///
    /// When the answer, the choices and the grader do not fit together. Tasks from files and
    /// environments have been checked.
    pub fn grader(&self) -> Result<AnyGrader, GraderError> {
        self.grade.build(&self.answer, &self.choices)
    }

    /// The grade of one output; a fault when the grader cannot be made.
    #[must_use]
    pub fn grade(&self, output: &str) -> Grade {
        match self.grader() {
            Ok(grader) => grader.grade(output),
            Err(error) => Grade::Fault { label: Label::BadTask, why: error.to_string() },
        }
    }

    /// The reward of each legal answer, in the order of `choices`, each in `[0, 1]`: with the
    /// model's probabilities of the choices it gives the exact expected reward. Empty for
    /// free text.
    ///
    /// # Errors
    ///
    /// As [`grader`](Self::grader).
    pub fn rewards(&self) -> Result<Vec<f64>, GraderError> {
        let grader = self.grader()?;
        Ok(self.choices.iter().map(|choice| grader.score(choice).0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grader::ExactSpec;

    fn task(answer: &str, choices: &[&str]) -> Task {
        Task {
            id: "t".to_owned(),
            prompt: "Open:".to_owned(),
            messages: Vec::new(),
            answer: answer.to_owned(),
            grade: GraderSpec::Exact(ExactSpec::default()),
            choices: choices.iter().map(|c| (*c).to_owned()).collect(),
            max_tokens: 4,
            stop: Vec::new(),
            split: Split::Train,
            good: Vec::new(),
            bad: Vec::new(),
            tags: Vec::new(),
            meta: serde_json::Map::new(),
        }
    }

    #[test]
    fn rewards_are_those_of_the_grader_in_order() {
        assert_eq!(task("b", &["a", "b", "c"]).rewards(), Ok(vec![0.0, 1.0, 0.0]));
        assert_eq!(task("b", &[]).rewards(), Ok(vec![]));
    }

    #[test]
    fn a_task_without_a_grader_is_a_fault_and_not_a_zero() {
        let broken = task("", &["a"]);
        assert_eq!(broken.grade("a").value(), None);
        assert_eq!(broken.grade("a").label(), Label::BadTask);
        assert_eq!(broken.rewards(), Err(GraderError::EmptyAnswer));
    }
}
