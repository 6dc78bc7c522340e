//! How members answer tasks: by the probabilities of listed answers, or in their own words.

use crate::error::FuraError;
use crate::evaluation::Success;
use crate::generation_shape::AnswerShape;
use crate::reward::Reward;
use fura_model::{Members, Model, Shared};
use fura_tasks::Task;
use std::fmt::Debug;
use std::sync::atomic::AtomicBool;

/// A way to answer tasks, and what the answers earn: [`Scorer`](crate::scorer::Scorer) weighs the answers that a task
/// lists, [`Writer`](crate::writer::Writer) generates text and has it graded.
///
/// Call its methods inside the pool that is to do the work.
pub trait Answerer {
    /// A task made ready for the model.
    type Question: Clone + Debug;

    /// The model.
    fn model(&self) -> &Model;

    /// Makes a task ready. `seed` is that of its draws, if the way to answer draws any.
    ///
    /// # Errors
    /// A task that cannot be answered in this way.
    fn question(&self, task: &Task, seed: u64) -> Result<Self::Question, FuraError>;

    /// How large these questions are: tokens of the longest prompt, and of the largest answers.
    fn shape(&self, questions: &[&Self::Question]) -> (usize, AnswerShape);

    /// Writes the fitness of the members `0 .. count` to `fitness`: the mean over the questions, NaN where a fault or an
    /// abstention leaves none. In what is `shared` every member is as the first one. `None` if `cancel` was set
    /// meanwhile.
    ///
    /// # Errors
    /// As the engine's.
    fn fitness(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: Shared,
        questions: &[Self::Question],
        reward: Reward,
        fitness: &mut Vec<f64>,
        cancel: &AtomicBool,
    ) -> Result<Option<()>, FuraError>;

    /// Success of one member. `None` if cancelled.
    ///
    /// # Errors
    /// As the engine's.
    fn success(
        &mut self,
        members: &dyn Members,
        questions: &[Self::Question],
        cancel: &AtomicBool,
    ) -> Result<Option<Success>, FuraError>;

    /// Runs the base on as much of the questions as fills the buffers that `members` members would, so that what inference
    /// takes at the same batch can be measured. `shared` is what a population would share.
    ///
    /// # Errors
    /// As the engine's.
    fn fill(
        &mut self,
        members: usize,
        shared: Shared,
        questions: &[Self::Question],
        cancel: &AtomicBool,
    ) -> Result<(), FuraError>;

    /// Rows (tokens) forwarded so far.
    fn rows(&self) -> u64;

    /// Outputs that could not be graded so far, and why the first could not.
    fn faults(&self) -> (u64, Option<&str>) {
        (0, None)
    }

    /// Makes tasks ready, their seeds drawn from `seed` and their place.
    ///
    /// # Errors
    /// As [`Answerer::question`].
    fn questions(&self, tasks: &[Task], seed: u64) -> Result<Vec<Self::Question>, FuraError> {
        tasks.iter().enumerate().map(|(i, t)| self.question(t, seed.wrapping_add(i as u64))).collect()
    }
}
