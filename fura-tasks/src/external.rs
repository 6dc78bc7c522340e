//! Graders and environments that are other programs.
//!
//! # Graders
//!
//! A command is started once and kept; it speaks JSON Lines. A batch of requests is written to its
//! standard input, and it answers on its standard output, in any order, one line for each:
//!
//! ```text
//! -> {"v":1,"id":"0.0","task":{"id":"t1","prompt":"...","answer":"29",...},"output":"3*7+8"}
//! <- {"id":"0.0","score":1}
//! ```
//!
//! | key of an answer | value |
//! |---|---|
//! | `id` | that of the request |
//! | `score` | a number in `[0, 1]`, or `null`: the grader does not apply (an abstention) |
//! | `label` | a [`Label`] by its name; by default one that follows from the score |
//! | `why` | a text, for people who read the pipe; ignored |
//!
//! Whatever else happens is a fault of the requests that it concerns, never a score:
//!
//! | what | label | of |
//! |---|---|---|
//! | a score outside `[0, 1]` | `bad_score` | its request |
//! | a second answer | `duplicate` | its request |
//! | a line that is no answer, or one to a request that there is not | `bad_reply` | all requests of the batch without an answer |
//! | no answer within the limits | `timed_out` | the same |
//! | the command ends | `crashed` | the same |
//! | a line over 1 MiB, or many more lines than requests | `flooded` | the same |
//!
//! After one of the last four the command is killed, and started anew for the next batch, a limited
//! number of times; after that every request is `crashed`.
//!
//! The command runs in its own process group, which is killed as a whole, and with an empty
//! environment but for `PATH` and the variables that were given. Outputs reach it through the pipe
//! only. On Linux its memory and its processor time can be limited; the limits are set as soon as it
//! runs, and its own processes inherit them. Its standard error is this program's. Two threads belong to each running command: one
//! writes to it and one reads from it, so that a command that does not read or write can be
//! abandoned on time; they end with it.
//!
//! # Environments
//!
//! An [`Environment`] speaks in the same way, one line at a time, in episodes:
//!
//! ```text
//! -> {"v":1,"id":"0","reset":{"task":{...},"seed":7}}
//! <- {"id":"0","observation":"Screen: Home","state_hash":"3f1c"}
//! -> {"v":1,"id":"1","act":"open Clock"}
//! <- {"id":"1","observation":"Screen: Clock","state_hash":"a029","done":false}
//! -> {"v":1,"id":"2","end":{}}
//! <- {"id":"2","score":1}
//! ```
//!
//! `state_hash` is any text that is equal for equal states, so that two members of a pair can be
//! shown to have started alike. `done` is false when it is not there. Faults are those of graders.

mod environment;
mod limits;
mod process;

pub use environment::{Environment, EnvironmentFault, Observation};

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::grader::{Grade, Label};
use crate::task::Task;
use process::{Event, Kept};

/// How to run an external grader; unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExternalSpec {
    /// The program and its arguments. There is no shell in between.
    pub command: Vec<String>,
    /// The longest time without an answer while there are requests without one, in seconds.
    #[serde(default = "ten")]
    pub item_seconds: f64,
    /// The longest time for a batch, in seconds.
    #[serde(default = "sixty")]
    pub batch_seconds: f64,
    /// How often the command is started anew after it was killed or ended.
    #[serde(default = "three")]
    pub restarts: u32,
    /// Its environment, besides `PATH`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The most memory that each of its processes may map, in bytes; no limit when absent. Linux only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The most processor time that each of its processes may take, in seconds; no limit when absent. Linux only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

fn ten() -> f64 {
    10.0
}

fn sixty() -> f64 {
    60.0
}

fn three() -> u32 {
    3
}

impl ExternalSpec {
    /// A command with the default limits: 10 s without an answer, 60 s a batch, 3 restarts; none on memory and
    /// processor time.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            item_seconds: ten(),
            batch_seconds: sixty(),
            restarts: three(),
            env: BTreeMap::new(),
            memory_bytes: None,
            cpu_seconds: None,
        }
    }
}

/// An output to be graded.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its task, which the command gets whole.
    pub task: &'a Task,
    /// What the model wrote.
    pub output: &'a str,
}

/// Why an external grader cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalError {
    /// No program was named.
    #[error("field `command`: empty; write the program and its arguments")]
    NoCommand,
    /// A limit that is no time.
    #[error("field `{field}`: {value} s, expected more than 0 and at most a day")]
    BadLimit {
        /// The limit.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// The operating system does not limit the command.
    #[error("field `{field}`: the limit cannot be set: {source}; leave it out, or choose another")]
    Resource {
        /// The limit.
        field: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The program does not start.
    #[error("command {program:?} cannot be started: {source}; check its path and permissions")]
    Start {
        /// The program.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// A running external grader.
#[derive(Debug)]
pub struct External {
    command: Kept,
    item_limit: Duration,
    batch_limit: Duration,
    batch: u64,
    late: u64,
}

/// Lines beyond one for each request, before a command is taken to flood.
const MORE_LINES: usize = 100;

impl External {
    /// Starts the command.
    ///
    /// # Errors
    ///
    /// When the command cannot be started or a limit makes no sense.
    pub fn start(spec: &ExternalSpec) -> Result<Self, ExternalError> {
        Ok(Self {
            item_limit: limit("item_seconds", spec.item_seconds)?,
            batch_limit: limit("batch_seconds", spec.batch_seconds)?,
            command: Kept::start(spec)?,
            batch: 0,
            late: 0,
        })
    }

    /// Grades a batch; one grade for each request, in their order.
    pub fn grade(&mut self, requests: &[Request<'_>]) -> Vec<Grade> {
        let mut batch =
            Batch { number: self.batch, grades: vec![None; requests.len()], open: requests.len() };
        self.batch += 1;
        let broken = match self.command.send(write(&batch, requests)) {
            Ok(()) => self.collect(&mut batch).err(),
            Err(why) => Some((Label::Crashed, why)),
        };
        match broken {
            None => batch.finish(Label::BadReply, "no answer"),
            Some((label, why)) => {
                self.command.kill();
                batch.finish(label, &why)
            }
        }
    }

    /// Answers that came again after their batch was over. They change no grade.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Reads answers until every request has one.
    fn collect(&mut self, batch: &mut Batch) -> Result<(), (Label, String)> {
        let begin = Instant::now();
        let (mut last, mut lines) = (begin, 0);
        while batch.open > 0 {
            let until = (begin + self.batch_limit).min(last + self.item_limit);
            let line = line(self.command.receive(until))?;
            lines += 1;
            if lines > 2 * batch.grades.len() + MORE_LINES {
                return Err((Label::Flooded, format!("{lines} lines for {} requests", batch.grades.len())));
            }
            let reply =
                read(&line).map_err(|why| (Label::BadReply, format!("{why}: {:?}", beginning(&line))))?;
            match batch.index_of(&reply.id) {
                Place::Here(index) => {
                    last = Instant::now();
                    batch.answer(index, reply);
                }
                Place::Before => self.late += 1,
                Place::Nowhere => {
                    return Err((
                        Label::BadReply,
                        format!("an answer to {:?}, no request", beginning(&reply.id)),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A limit of a spec as a time.
fn limit(field: &'static str, value: f64) -> Result<Duration, ExternalError> {
    match Duration::try_from_secs_f64(value) {
        Ok(limit) if value > 0.0 && value <= 86_400.0 => Ok(limit),
        _ => Err(ExternalError::BadLimit { field, value }),
    }
}

/// The line of an event, or the fault that it is instead.
fn line(event: Event) -> Result<Vec<u8>, (Label, String)> {
    match event {
        Event::Line(line) => Ok(line),
        Event::Timeout => Err((Label::TimedOut, "no answer in time".to_owned())),
        Event::End => Err((Label::Crashed, "the command ended".to_owned())),
        Event::TooLong => Err((Label::Flooded, "a line of over 1 MiB".to_owned())),
    }
}

/// The grades of a batch so far.
struct Batch {
    number: u64,
    grades: Vec<Option<Grade>>,
    open: usize,
}

/// Where the request of an answer is.
enum Place {
    Here(usize),
    Before,
    Nowhere,
}

impl Batch {
    fn id(&self, index: usize) -> String {
        format!("{}.{index}", self.number)
    }

    fn index_of(&self, id: &str) -> Place {
        let number = |text: &str| text.parse::<u64>().ok();
        let parts =
            id.split_once('.').and_then(|(batch, index)| Some((number(batch)?, number(index)? as usize)));
        match parts {
            // Ids are compared as they were written: `0.00` is none.
            Some((batch, index))
                if batch == self.number && index < self.grades.len() && self.id(index) == id =>
            {
                Place::Here(index)
            }
            Some((batch, _)) if batch < self.number => Place::Before,
            _ => Place::Nowhere,
        }
    }

    fn answer(&mut self, index: usize, reply: Reply) {
        let grade = &mut self.grades[index];
        if grade.is_some() {
            *grade = Some(Grade::Fault { label: Label::Duplicate, why: "answered twice".to_owned() });
        } else {
            self.open -= 1;
            *grade = Some(match reply.score {
                None => Grade::Abstain { label: reply.label.unwrap_or(Label::NotApplicable) },
                Some(score) => Grade::score(score, reply.label.unwrap_or_else(|| label_of(score))),
            });
        }
    }

    /// All grades, the missing ones being faults.
    fn finish(self, label: Label, why: &str) -> Vec<Grade> {
        let fault = || Grade::Fault { label, why: format!("external grader: {why}") };
        self.grades.into_iter().map(|grade| grade.unwrap_or_else(fault)).collect()
    }
}

fn label_of(score: f64) -> Label {
    if score >= 1.0 {
        Label::Right
    } else if score > 0.0 {
        Label::Partial
    } else {
        Label::Wrong
    }
}

/// The lines of a batch.
fn write(batch: &Batch, requests: &[Request<'_>]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        v: u32,
        id: &'a str,
        task: &'a Task,
        output: &'a str,
    }
    let mut bytes = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let line = Line { v: 1, id: &batch.id(index), task: request.task, output: request.output };
        // A task and texts can always be written, and writing to memory cannot fail; a line that
        // were cut off all the same would have no answer, which is a fault.
        let _ = serde_json::to_writer(&mut bytes, &line);
        bytes.push(b'\n');
    }
    bytes
}

/// An answer.
#[derive(Debug, PartialEq)]
struct Reply {
    id: String,
    score: Option<f64>,
    label: Option<Label>,
}

/// Reads a line of an external grader.
fn read(line: &[u8]) -> Result<Reply, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        id: String,
        // A missing score is not an abstention.
        #[serde(deserialize_with = "Option::deserialize")]
        score: Option<f64>,
        #[serde(default)]
        label: Option<Label>,
        #[serde(default)]
        #[expect(dead_code, reason = "allowed in an answer, for people")]
        why: Option<String>,
    }
    let line: Line = serde_json::from_slice(line).map_err(|error| not_an_answer(&error))?;
    Ok(Reply { id: line.id, score: line.score, label: line.label })
}

/// Why a line is no answer. The error may quote a key, which is whatever the command wrote.
fn not_an_answer(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said: String = said.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("not an answer ({said})")
}

/// The beginning of a line, for messages.
fn beginning(line: impl AsRef<[u8]>) -> String {
    let line = line.as_ref();
    String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned()
}

#[cfg(test)]
mod tests;
