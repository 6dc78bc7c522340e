//! Environments that are other programs.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::process::Kept;
use super::{ExternalError, ExternalSpec, beginning, label_of, limit, line, not_an_answer};
use crate::grader::{Grade, Label};
use crate::task::Task;

/// A running external environment; see the [module](super).
#[derive(Debug)]
pub struct Environment {
    command: Kept,
    item_limit: Duration,
    messages: u64,
    in_episode: bool,
}

/// What an agent sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The text for the model.
    pub text: String,
    /// The same for equal states of the environment.
    pub state_hash: String,
    /// Whether the episode is over; then [`Environment::end`] has its outcome.
    pub done: bool,
}

/// An environment that broke: no outcome, and no reward of 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("external environment: {label}: {why}")]
pub struct EnvironmentFault {
    /// What kind of fault.
    pub label: Label,
    /// What happened, in one line.
    pub why: String,
}

impl From<EnvironmentFault> for Grade {
    fn from(fault: EnvironmentFault) -> Self {
        Self::Fault { label: fault.label, why: fault.to_string() }
    }
}

/// What is asked of an environment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ask<'a> {
    Reset { task: &'a Task, seed: u64 },
    Act(&'a str),
    End {},
}

/// The answer to `reset` and `act`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    id: String,
    observation: String,
    state_hash: String,
    #[serde(default)]
    done: bool,
}

/// The answer to `end`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    id: String,
    // A missing score is not an abstention.
    #[serde(deserialize_with = "Option::deserialize")]
    score: Option<f64>,
    #[serde(default)]
    label: Option<Label>,
}

impl Environment {
    /// Starts the command. `item_seconds` of the spec is the time for one answer.
    ///
    /// # Errors
    ///
    /// When the command cannot be started or the limit makes no sense.
    pub fn start(spec: &ExternalSpec) -> Result<Self, ExternalError> {
        let item_limit = limit("item_seconds", spec.item_seconds)?;
        Ok(Self { command: Kept::start(spec)?, item_limit, messages: 0, in_episode: false })
    }

    /// Begins an episode of a task. Equal tasks and seeds should begin with equal states.
    ///
    /// # Errors
    ///
    /// When the environment breaks; the next episode starts the command anew, if it still may.
    pub fn reset(&mut self, task: &Task, seed: u64) -> Result<Observation, EnvironmentFault> {
        self.in_episode = true;
        self.look(Ask::Reset { task, seed })
    }

    /// Takes an action, as the model wrote it.
    ///
    /// # Errors
    ///
    /// When the environment breaks or no episode has begun.
    pub fn act(&mut self, action: &str) -> Result<Observation, EnvironmentFault> {
        self.look(Ask::Act(action))
    }

    /// Ends the episode; a fault of the environment is a fault, never a score.
    pub fn end(&mut self) -> Grade {
        match self.exchange::<Outcome>(Ask::End {}, |outcome| &outcome.id) {
            Err(fault) => fault.into(),
            Ok(Outcome { score: None, label, .. }) => {
                Grade::Abstain { label: label.unwrap_or(Label::NotApplicable) }
            }
            Ok(Outcome { score: Some(score), label, .. }) => {
                Grade::score(score, label.unwrap_or_else(|| label_of(score)))
            }
        }
    }

    fn look(&mut self, ask: Ask<'_>) -> Result<Observation, EnvironmentFault> {
        let seen = self.exchange::<Seen>(ask, |seen| &seen.id)?;
        Ok(Observation { text: seen.observation, state_hash: seen.state_hash, done: seen.done })
    }

    /// Sends a message and reads its answer. After a fault the command is killed and the episode
    /// is over.
    fn exchange<T: for<'de> Deserialize<'de>>(
        &mut self,
        ask: Ask<'_>,
        id_of: fn(&T) -> &String,
    ) -> Result<T, EnvironmentFault> {
        if !self.in_episode {
            let why = "no episode has begun; call `reset`".to_owned();
            return Err(EnvironmentFault { label: Label::NotApplicable, why });
        }
        self.in_episode = !matches!(ask, Ask::End {});
        let answer = self.send_and_read(ask, id_of);
        answer.map_err(|(label, why)| {
            self.command.kill();
            self.in_episode = false;
            EnvironmentFault { label, why }
        })
    }

    fn send_and_read<T: for<'de> Deserialize<'de>>(
        &mut self,
        ask: Ask<'_>,
        id_of: fn(&T) -> &String,
    ) -> Result<T, (Label, String)> {
        #[derive(Serialize)]
        struct Line<'a> {
            v: u32,
            id: &'a str,
            #[serde(flatten)]
            ask: Ask<'a>,
        }
        let id = self.messages.to_string();
        self.messages += 1;
        let written = serde_json::to_vec(&Line { v: 1, id: &id, ask });
        let mut bytes = written.map_err(|error| (Label::BadTask, error.to_string()))?;
        bytes.push(b'\n');
        self.command.send(bytes).map_err(|why| (Label::Crashed, why))?;
        let read = line(self.command.receive(Instant::now() + self.item_limit))?;
        let answer: T = serde_json::from_slice(&read).map_err(|error| {
            (Label::BadReply, format!("{}: {:?}", not_an_answer(&error), beginning(&read)))
        })?;
        if *id_of(&answer) != id {
            return Err((
                Label::BadReply,
                format!("an answer to {:?}, expected {id}", beginning(id_of(&answer))),
            ));
        }
        Ok(answer)
    }
}
