//! Answers in the members' own words, graded.

use crate::answerer::Answerer;
use crate::error::FuraError;
use crate::evaluation::Success;
use crate::generation_shape::AnswerShape;
use crate::judge::Judge;
use crate::question::{beginning, conversation};
use crate::reward::Reward;
use fura_model::{
    Base, Completion, Engine, GenerationPlan, Members, Model, ModelError, Plan, Precision, Request, Rollouts,
    Sampling, Shared, Threads,
};
use fura_simd::Isa;
use fura_tasks::{Grade, Task};
use std::sync::atomic::AtomicBool;

/// Requests of one member that are worked on side by side, and rows of their passes unless a prompt is longer.
pub(crate) const SEQUENCES: usize = 32;
const ROWS: usize = 512;

/// What one member writes after each prompt, up to `side_by_side` at a time. `None` if cancelled.
pub(crate) fn text_of(
    model: &Model,
    isa: Isa,
    members: &dyn Members,
    requests: Vec<Request>,
    side_by_side: usize,
    cancel: &AtomicBool,
) -> Result<Option<Vec<Completion>>, ModelError> {
    let context = model.config().context;
    let positions =
        requests.iter().map(|r| r.prompt.len().saturating_add(r.max_tokens).min(context)).max().unwrap_or(1);
    let plan = text_plan(side_by_side.min(requests.len()), positions, rayon::current_num_threads());
    let mut generator = plan.generator(model);
    let engine = Engine::new(model, isa, Threads::Pool);
    engine.generate_until(members, requests, &mut generator, cancel)
}

/// The size of what writes so many texts side by side, each of up to `positions` tokens with its prompt.
pub(crate) fn text_plan(side_by_side: usize, positions: usize, threads: usize) -> GenerationPlan {
    let pass = Plan { rows: ROWS.max(positions), sequences: side_by_side, positions };
    // One sequence's worth more, for a beginning that prompts share.
    let cache_rows = (side_by_side + 1) * positions;
    GenerationPlan { pass, cache_rows, precision: Precision::Single, threads }
}

/// A task to be answered in free text.
#[derive(Clone, Debug)]
pub struct WrittenQuestion {
    /// The task, with its grader.
    pub task: Task,
    /// Its prompt, and how it is continued.
    pub request: Request,
}

/// Lets members write, and a [`Judge`] grade.
///
/// All members of a generation draw alike: a question's seed is its own, so that twins differ by their
/// coordinates alone. At temperature 0, the default, nothing is drawn.
#[derive(Debug)]
pub struct Writer<'m> {
    rollouts: Rollouts<'m>,
    judge: Judge,
    isa: Isa,
    temperature: f32,
    faults: u64,
    fault: Option<String>,
}

impl<'m> Writer<'m> {
    /// A writer for a pool of `threads` threads.
    pub fn new(model: &'m Model, isa: Isa, threads: usize, judge: Judge, temperature: f32) -> Self {
        let rollouts = Rollouts::new(model, isa, threads);
        Self { rollouts, judge, isa, temperature, faults: 0, fault: None }
    }

    /// Scores of the members `0 .. count`, question by question; NaN for an abstention or a fault, which is counted.
    fn scores(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: Shared,
        questions: &[WrittenQuestion],
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Vec<f64>>>, FuraError> {
        let requests: Vec<Request> = questions.iter().map(|q| q.request.clone()).collect();
        let written = match count {
            // A single member shares nothing with others, but its passes may serve many questions.
            1 => text_of(self.rollouts.model(), self.isa, members, requests, SEQUENCES, cancel)?,
            _ => self.rollouts.complete(members, count, shared.layers(), &requests, cancel)?,
        };
        let Some(written) = written else { return Ok(None) };
        let tasks: Vec<&Task> = questions.iter().map(|q| &q.task).collect();
        let outputs: Vec<Vec<&str>> =
            written.chunks(count).map(|c| c.iter().map(|c: &Completion| c.text.as_str()).collect()).collect();
        let grades = self.judge.grade(&tasks, &outputs);
        for grade in grades.iter().flatten() {
            if let Grade::Fault { why, .. } = grade {
                self.faults += 1;
                self.fault.get_or_insert_with(|| why.clone());
            }
        }
        let score = |g: &Grade| g.value().unwrap_or(f64::NAN);
        Ok(Some(grades.iter().map(|g| g.iter().map(score).collect()).collect()))
    }
}

impl Answerer for Writer<'_> {
    type Question = WrittenQuestion;

    fn model(&self) -> &Model {
        self.rollouts.model()
    }

    /// # Errors
    /// A conversation for a model without a chat template, or a text that cannot be encoded.
    fn question(&self, task: &Task, seed: u64) -> Result<WrittenQuestion, FuraError> {
        let model = self.rollouts.model();
        let prompt = match task.messages.is_empty() {
            true => beginning(model, &task.prompt)?,
            false => conversation(model, task)?,
        };
        let request = Request {
            stop: task.stop.clone(),
            sampling: Sampling { temperature: self.temperature, seed, ..Sampling::default() },
            ..Request::new(prompt, task.max_tokens as usize)
        };
        Ok(WrittenQuestion { task: task.clone(), request })
    }

    fn shape(&self, questions: &[&WrittenQuestion]) -> (usize, AnswerShape) {
        let requests = questions.iter().map(|q| &q.request);
        let prompt = requests.clone().map(|r| r.prompt.len()).max().unwrap_or(1);
        (prompt, AnswerShape::Written { tokens: requests.map(|r| r.max_tokens).max().unwrap_or(1) })
    }

    /// The mean score. `reward` is not looked at: there are no probabilities to take an expectation over.
    fn fitness(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: Shared,
        questions: &[WrittenQuestion],
        _reward: Reward,
        fitness: &mut Vec<f64>,
        cancel: &AtomicBool,
    ) -> Result<Option<()>, FuraError> {
        let Some(scores) = self.scores(members, count, shared, questions, cancel)? else { return Ok(None) };
        let n = questions.len() as f64;
        fitness.clear();
        fitness.extend((0..count).map(|m| scores.iter().map(|of_question| of_question[m]).sum::<f64>() / n));
        Ok(Some(()))
    }

    /// Abstentions and faults count as not right.
    fn success(
        &mut self,
        members: &dyn Members,
        questions: &[WrittenQuestion],
        cancel: &AtomicBool,
    ) -> Result<Option<Success>, FuraError> {
        let Some(scores) = self.scores(members, 1, Shared::Layers(0), questions, cancel)? else {
            return Ok(None);
        };
        let right = scores.iter().filter(|s| s[0] >= 1.0).count();
        let expected = scores.iter().map(|s| if s[0].is_nan() { 0.0 } else { s[0] }).sum();
        Ok(Some(Success::new(right, questions.len(), right, expected)))
    }

    fn fill(
        &mut self,
        members: usize,
        shared: Shared,
        questions: &[WrittenQuestion],
        cancel: &AtomicBool,
    ) -> Result<(), FuraError> {
        // Buffers are those of the longest question.
        let longest = questions.iter().map(|q| &q.request).max_by_key(|r| r.prompt.len() + r.max_tokens);
        let longest: Vec<Request> = longest.cloned().into_iter().collect();
        self.rollouts.complete(&Base, members, shared.layers(), &longest, cancel)?;
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.rollouts.rows()
    }

    fn faults(&self) -> (u64, Option<&str>) {
        (self.faults, self.fault.as_deref())
    }
}
