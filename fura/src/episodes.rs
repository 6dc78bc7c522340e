//! Whole episodes on the phone: every action is the most likely legal answer.

use crate::error::FuraError;
use crate::question::Question;
use crate::reward::best;
use crate::scorer::Scorer;
use fura_model::Members;
use fura_tasks::phone::{Episode, PhoneTask, solve};
use fura_tasks::wilson95;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// States that the search for a task's shortest solution looks at.
const SEARCHED: usize = 200_000;

/// Success on whole tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EpisodeSuccess {
    /// Share of tasks that ended as they should, with no side effect and within the budget.
    pub success: f64,
    /// Number of tasks.
    pub n: usize,
    /// Lower end of the 95 % Wilson interval.
    pub low: f64,
    /// Upper end of the 95 % Wilson interval.
    pub high: f64,
    /// Mean number of actions of the shortest solutions.
    pub optimal: f64,
    /// Mean number of actions taken.
    pub steps: f64,
}

/// Plays every task to its end with one member, all episodes side by side: each round scores the legal answers of
/// those that go on. `None` if cancelled. Tasks without a solution are left out.
///
/// # Errors
/// As [`Scorer::score`]; answers that the tokenizer cannot tell apart.
pub fn play(
    scorer: &mut Scorer<'_>,
    members: &dyn Members,
    tasks: &[PhoneTask],
    cancel: &AtomicBool,
) -> Result<Option<EpisodeSuccess>, FuraError> {
    let mut optimal = 0;
    let mut episodes = Vec::with_capacity(tasks.len());
    for task in tasks {
        let Some(way) = solve(task, SEARCHED) else { continue };
        optimal += way.len();
        episodes.push(Episode::new(task.clone(), Episode::budget(task, way.len())));
    }
    loop {
        let mut live: Vec<&mut Episode> = episodes.iter_mut().filter(|e| e.outcome().is_none()).collect();
        if live.is_empty() {
            break;
        }
        let mut questions = Vec::with_capacity(live.len());
        for episode in &live {
            let choices = episode.choices();
            let rewards = vec![0.0; choices.len()];
            questions.push(Question::of(scorer.model(), &episode.prompt(), &choices, rewards)?);
        }
        let Some(scores) = scorer.score(members, 1, 0, &questions, cancel)? else { return Ok(None) };
        for (i, episode) in live.iter_mut().enumerate() {
            let actions = episode.actions();
            episode.act(&actions[best(scores.answers(0, i))]);
        }
    }
    let n = episodes.len();
    let right = episodes.iter().filter(|e| e.succeeded()).count();
    let interval = wilson95(right as u64, n as u64);
    let mean = |sum: usize| sum as f64 / n.max(1) as f64;
    Ok(Some(EpisodeSuccess {
        success: mean(right),
        n,
        low: interval.map_or(0.0, |i| i.low),
        high: interval.map_or(1.0, |i| i.high),
        optimal: mean(optimal),
        steps: mean(episodes.iter().map(Episode::steps).sum()),
    }))
}
