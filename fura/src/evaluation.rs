//! Success on held-out requests and held-out phrasings, with intervals.

use crate::answerer::Answerer;
use crate::error::FuraError;
use fura_model::Members;
use fura_tasks::TaskSource;
use fura_tasks::wilson95;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Success on one set of questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Success {
    /// Share of questions whose answer is right: the most likely legal one, or what was written.
    pub success: f64,
    /// Number of questions.
    pub n: usize,
    /// Lower end of the 95 % Wilson interval.
    pub low: f64,
    /// Upper end of the 95 % Wilson interval.
    pub high: f64,
    /// Share that free greedy decoding over the whole vocabulary answers right.
    pub free: f64,
    /// Mean exact expected reward; of written answers the mean score.
    pub expected: f64,
}

/// Success on both held-out sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Requests never trained on, in phrasings that were.
    pub heldout: Success,
    /// Phrasings never trained on, if the tasks have such a split.
    pub phrasings: Option<Success>,
}

impl Success {
    /// Of `n` questions, `right` were answered right, `free` in free text; `expected` is the sum of their expected rewards.
    pub(crate) fn new(right: usize, n: usize, free: usize, expected: f64) -> Self {
        let interval = wilson95(right as u64, n as u64);
        Self {
            success: right as f64 / n as f64,
            n,
            low: interval.map_or(0.0, |i| i.low),
            high: interval.map_or(1.0, |i| i.high),
            free: free as f64 / n as f64,
            expected: expected / n as f64,
        }
    }
}

/// The held-out questions of a task source.
#[derive(Clone, Debug)]
pub struct HeldOut<Q> {
    heldout: Vec<Q>,
    phrasings: Vec<Q>,
}

impl<Q> HeldOut<Q> {
    /// Makes up to `n` questions of each held-out split ready.
    ///
    /// # Errors
    /// A source without held-out tasks, or tasks that cannot be answered in this way.
    pub fn new<A: Answerer<Question = Q>>(
        answerer: &A,
        tasks: &TaskSource,
        n: usize,
    ) -> Result<Self, FuraError> {
        let heldout = answerer.questions(&tasks.heldout(n), 0)?;
        if heldout.is_empty() {
            return Err(FuraError::NoTasks { tasks: tasks.describe(), split: "heldout" });
        }
        Ok(Self { heldout, phrasings: answerer.questions(&tasks.phrasings(n), 0)? })
    }

    /// All of them.
    pub fn questions(&self) -> impl Iterator<Item = &Q> {
        self.heldout.iter().chain(&self.phrasings)
    }

    /// The requests never trained on.
    pub(crate) fn heldout(&self) -> &[Q] {
        &self.heldout
    }

    /// Evaluates one member. `None` if cancelled.
    ///
    /// # Errors
    /// As [`Answerer::success`].
    pub fn evaluate<A: Answerer<Question = Q>>(
        &self,
        answerer: &mut A,
        members: &dyn Members,
        cancel: &AtomicBool,
    ) -> Result<Option<Evaluation>, FuraError> {
        let Some(heldout) = answerer.success(members, &self.heldout, cancel)? else { return Ok(None) };
        if self.phrasings.is_empty() {
            return Ok(Some(Evaluation { heldout, phrasings: None }));
        }
        let phrasings = answerer.success(members, &self.phrasings, cancel)?;
        Ok(phrasings.map(|p| Evaluation { heldout, phrasings: Some(p) }))
    }
}
