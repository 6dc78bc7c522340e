//! Tasks made ready for a model: token ids, the tree of legal answers, and what each answer earns.

use crate::error::FuraError;
use fura_model::tokenizer::Specials;
use fura_model::{ChoiceTree, Model};
use fura_tasks::{Task, TaskSource};

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
        let tokenizer = model.tokenizer();
        let mut prompt = Vec::new();
        if tokenizer.add_bos() {
            prompt.extend(tokenizer.bos());
        }
        tokenizer.encode_into(text, Specials::Ignore, &mut prompt)?;
        let tree = ChoiceTree::new(tokenizer, choices)?;
        Ok(Self { prompt, tree, rewards })
    }

    /// Encodes all tasks.
    ///
    /// # Errors
    /// As [`Question::new`].
    pub fn all(model: &Model, tasks: &[Task]) -> Result<Vec<Self>, FuraError> {
        tasks.iter().map(|t| Self::new(model, t)).collect()
    }

    /// Encodes the training questions of a generation.
    ///
    /// # Errors
    /// A source without training tasks, or tasks that cannot be scored.
    pub fn training(
        model: &Model,
        tasks: &TaskSource,
        generation: u32,
        requests: usize,
    ) -> Result<Vec<Self>, FuraError> {
        let questions = Self::all(model, &tasks.train(generation, requests))?;
        if questions.is_empty() {
            return Err(FuraError::NoTasks { tasks: tasks.describe(), split: "train" });
        }
        Ok(questions)
    }

    /// Rows that scoring it takes: the prompt and the tree of the answers, each token once.
    pub fn rows(&self) -> usize {
        if self.tree.branches().is_empty() { 0 } else { self.prompt.len() + self.tree.rows() }
    }
}
