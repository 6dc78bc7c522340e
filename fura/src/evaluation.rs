//! Success on held-out requests and held-out phrasings, with intervals.

use crate::error::FuraError;
use crate::question::Question;
use crate::reward::{Reward, best};
use crate::scorer::Scorer;
use fura_model::{Members, Model};
use fura_tasks::TaskSource;
use fura_tasks::wilson95;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Success on one set of questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Success {
    /// Share of questions whose most likely legal answer is right.
    pub success: f64,
    /// Number of questions.
    pub n: usize,
    /// Lower end of the 95 % Wilson interval.
    pub low: f64,
    /// Upper end of the 95 % Wilson interval.
    pub high: f64,
    /// Share that free greedy decoding over the whole vocabulary answers right.
    pub free: f64,
    /// Mean exact expected reward.
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

/// The held-out questions of a task source.
#[derive(Clone, Debug)]
pub struct HeldOut {
    heldout: Vec<Question>,
    phrasings: Vec<Question>,
}

impl HeldOut {
    /// Encodes up to `n` questions of each held-out split.
    ///
    /// # Errors
    /// A source without held-out tasks, or tasks that cannot be scored.
    pub fn new(model: &Model, tasks: &TaskSource, n: usize) -> Result<Self, FuraError> {
        let heldout = Question::all(model, &tasks.heldout(n))?;
        if heldout.is_empty() {
            return Err(FuraError::NoTasks { tasks: tasks.describe(), split: "heldout" });
        }
        Ok(Self { heldout, phrasings: Question::all(model, &tasks.phrasings(n))? })
    }

    /// Evaluates one member. `None` if cancelled.
    ///
    /// # Errors
    /// As [`Scorer::score`].
    pub fn evaluate(
        &self,
        scorer: &mut Scorer<'_>,
        members: &dyn Members,
        cancel: &AtomicBool,
    ) -> Result<Option<Evaluation>, FuraError> {
        let Some(heldout) = success(scorer, members, &self.heldout, cancel)? else { return Ok(None) };
        if self.phrasings.is_empty() {
            return Ok(Some(Evaluation { heldout, phrasings: None }));
        }
        let phrasings = success(scorer, members, &self.phrasings, cancel)?;
        Ok(phrasings.map(|p| Evaluation { heldout, phrasings: Some(p) }))
    }
}

fn success(
    scorer: &mut Scorer<'_>,
    members: &dyn Members,
    questions: &[Question],
    cancel: &AtomicBool,
) -> Result<Option<Success>, FuraError> {
    let n = questions.len();
    let Some(scores) = scorer.score(members, 1, 0, questions, cancel)? else { return Ok(None) };
    let (mut right, mut expected) = (0u64, 0.0);
    for (i, q) in questions.iter().enumerate() {
        let p = scores.answers(0, i);
        right += u64::from(q.rewards[best(p)] >= 1.0);
        expected += Reward::Expected.of(p, &q.rewards);
    }
    let free = scorer.free_greedy(members, questions)?;
    let interval = wilson95(right, n as u64);
    Ok(Some(Success {
        success: right as f64 / n as f64,
        n,
        low: interval.map_or(0.0, |i| i.low),
        high: interval.map_or(1.0, |i| i.high),
        free: free as f64 / n as f64,
        expected: expected / n as f64,
    }))
}
