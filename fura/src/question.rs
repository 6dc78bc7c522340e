//! Tasks made ready for a model: token ids, the tree of legal answers, and what each answer earns.

use crate::error::FuraError;
use fura_model::chat::{Message, Role};
use fura_model::tokenizer::Specials;
use fura_model::{ChoiceTree, Model};
use fura_tasks::Task;

/// A scored-choice task, encoded once and used by every member of a generation.
#[derive(Clone, Debug)]
pub struct Question {
    /// Prompt tokens.
    pub prompt: Vec<u32>,
    /// Legal answers.
    pub tree: ChoiceTree,
    /// Reward of each legal answer, in [0, 1].
    pub rewards: Vec<f64>,
}

impl Question {
    /// Encodes a task that lists legal answers.
    ///
    /// # Errors
    /// A task without choices or with a conversation for a prompt, or whose answers the tokenizer cannot tell apart.
    pub fn new(model: &Model, task: &Task) -> Result<Self, FuraError> {
        if task.choices.is_empty() {
            return Err(FuraError::NoChoices { task: task.id.clone() });
        }
        if !task.messages.is_empty() {
            return Err(FuraError::Conversation { task: task.id.clone() });
        }
        Self::of(model, &task.prompt, &task.choices, task.rewards()?)
    }

    /// Encodes a prompt with its legal answers and their rewards, one for each.
    ///
    /// # Errors
    /// Answers that the tokenizer cannot tell apart.
    pub fn of(model: &Model, text: &str, choices: &[String], rewards: Vec<f64>) -> Result<Self, FuraError> {
        let tree = ChoiceTree::new(model.tokenizer(), choices)?;
        Ok(Self { prompt: beginning(model, text)?, tree, rewards })
    }

    /// Encodes all tasks.
    ///
    /// # Errors
    /// As [`Question::new`].
    pub fn all(model: &Model, tasks: &[Task]) -> Result<Vec<Self>, FuraError> {
        tasks.iter().map(|t| Self::new(model, t)).collect()
    }

    /// The tokens of the answers that earn everything.
    pub fn rewarded(&self) -> impl Iterator<Item = &Vec<u32>> {
        self.tree.answers().iter().zip(&self.rewards).filter(|(_, r)| **r >= 1.0).map(|(a, _)| a)
    }

    /// Rows that scoring it takes: the prompt and the tree of the answers, each token once.
    pub fn rows(&self) -> usize {
        if self.tree.branches().is_empty() { 0 } else { self.prompt.len() + self.tree.rows() }
    }
}

/// The tokens of a prompt that is to be continued as plain text.
pub(crate) fn beginning(model: &Model, text: &str) -> Result<Vec<u32>, FuraError> {
    Ok(model.tokenizer().encode_beginning(text, Specials::Ignore)?)
}

/// The tokens of a task's conversation in the model's chat template.
pub(crate) fn conversation(model: &Model, task: &Task) -> Result<Vec<u32>, FuraError> {
    let template = model.chat_template().ok_or_else(|| FuraError::NoTemplate { task: task.id.clone() })?;
    let messages: Vec<Message<'_>> = task
        .messages
        .iter()
        .map(|m| Message {
            role: match m.role {
                fura_tasks::Role::System => Role::System,
                fura_tasks::Role::User => Role::User,
                fura_tasks::Role::Assistant => Role::Assistant,
            },
            content: &m.content,
        })
        .collect();
    template
        .encode(model.tokenizer(), &messages, true)
        .map_err(|source| FuraError::Template { task: task.id.clone(), source })
}
