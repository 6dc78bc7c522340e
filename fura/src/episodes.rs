//! Whole episodes on the phone.

use crate::error::FuraError;
use crate::question::{Question, beginning};
use crate::reward::best;
use crate::scorer::Scorer;
use crate::writer::{SEQUENCES, text_of};
use fura_model::{Constraint, Members, Request, Shared};
use fura_tasks::phone::{Episode, PhoneTask, solve};
use fura_tasks::wilson95;
use serde::Serialize;
use std::fmt;
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

impl EpisodeSuccess {
    /// Of episodes that were [played](play).
    pub fn of<'e>(episodes: impl IntoIterator<Item = &'e Played>) -> Self {
        let (mut n, mut right, mut optimal, mut steps) = (0, 0, 0, 0);
        for p in episodes {
            n += 1;
            right += usize::from(p.episode.succeeded());
            optimal += p.shortest;
            steps += p.episode.steps();
        }
        let interval = wilson95(right as u64, n as u64);
        let mean = |sum: usize| sum as f64 / n.max(1) as f64;
        Self {
            success: mean(right),
            n,
            low: interval.map_or(0.0, |i| i.low),
            high: interval.map_or(1.0, |i| i.high),
            optimal: mean(optimal),
            steps: mean(steps),
        }
    }
}

/// An episode at its end.
#[derive(Clone, Debug)]
pub struct Played {
    /// The episode.
    pub episode: Episode,
    /// Actions of a shortest solution.
    pub shortest: usize,
}

/// How a model's next action is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// The most likely legal answer.
    Choice,
    /// Greedily, within the [grammar](Episode::grammar) of what is possible on the screen.
    Grammar,
    /// Greedily, a line of at most 24 tokens: a legal answer or an action in its written form. Any other line changes
    /// nothing and costs a step.
    Free,
}

impl fmt::Display for Decoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Choice => "scored choice",
            Self::Grammar => "grammar",
            Self::Free => "free text",
        })
    }
}

/// Most tokens of a written action.
const LINE: usize = 24;

/// Plays every task to its end with one member, all episodes side by side, an action of each that goes on in a round.
/// `None` if cancelled. Tasks without a solution are left out.
///
/// # Errors
/// As [`Scorer::score`]; answers that the tokenizer cannot tell apart.
pub fn play(
    scorer: &mut Scorer<'_>,
    members: &dyn Members,
    tasks: &[PhoneTask],
    decoding: Decoding,
    cancel: &AtomicBool,
) -> Result<Option<Vec<Played>>, FuraError> {
    let mut played = Vec::with_capacity(tasks.len());
    for task in tasks {
        let Some(way) = solve(task, SEARCHED) else { continue };
        let episode = Episode::new(task.clone(), Episode::budget(task, way.len()));
        played.push(Played { episode, shortest: way.len() });
    }
    loop {
        let mut live: Vec<&mut Episode> =
            played.iter_mut().map(|p| &mut p.episode).filter(|e| e.outcome().is_none()).collect();
        if live.is_empty() {
            return Ok(Some(played));
        }
        let done = match decoding {
            Decoding::Choice => choose(scorer, members, &mut live, cancel)?,
            Decoding::Grammar | Decoding::Free => write(scorer, members, &mut live, decoding, cancel)?,
        };
        if done.is_none() {
            return Ok(None);
        }
    }
}

/// The most likely legal action of every episode.
fn choose(
    scorer: &mut Scorer<'_>,
    members: &dyn Members,
    live: &mut [&mut Episode],
    cancel: &AtomicBool,
) -> Result<Option<()>, FuraError> {
    let mut questions = Vec::with_capacity(live.len());
    for episode in live.iter() {
        let choices = episode.choices();
        let rewards = vec![0.0; choices.len()];
        questions.push(Question::of(scorer.model(), &episode.prompt(), &choices, rewards)?);
    }
    let Some(scores) = scorer.score(members, 1, Shared::Layers(0), &questions, cancel)? else {
        return Ok(None);
    };
    for (i, episode) in live.iter_mut().enumerate() {
        let actions = episode.actions();
        episode.act(&actions[best(scores.answers(0, i))]);
    }
    Ok(Some(()))
}

/// What is written in every episode, done as far as it is an action.
fn write(
    scorer: &Scorer<'_>,
    members: &dyn Members,
    live: &mut [&mut Episode],
    decoding: Decoding,
    cancel: &AtomicBool,
) -> Result<Option<()>, FuraError> {
    let model = scorer.model();
    let mut requests = Vec::with_capacity(live.len());
    for episode in live.iter() {
        let constraint = match decoding {
            Decoding::Grammar => Some(Constraint::grammar(model.tokenizer(), &episode.grammar())?),
            _ => None,
        };
        let prompt = beginning(model, &episode.prompt())?;
        requests.push(Request { stop: vec!["\n".to_owned()], constraint, ..Request::new(prompt, LINE) });
    }
    let Some(written) = text_of(model, scorer.isa(), members, requests, SEQUENCES, cancel)? else {
        return Ok(None);
    };
    for (episode, written) in live.iter_mut().zip(&written) {
        let said = |choice: &String| choice.trim() == written.text.trim();
        match episode.choices().iter().position(said).filter(|_| decoding == Decoding::Free) {
            Some(i) => episode.act(&episode.actions()[i]),
            None => episode.act_text(&written.text),
        };
    }
    Ok(Some(()))
}
