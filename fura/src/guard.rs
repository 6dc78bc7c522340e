//! Stopping a run that destroys what the base can do, and keeping the best of it.
//!
//! Steps that are too large for a model make it worse than it began, and later generations learn nothing any more. A guard
//! costs nothing while members do at least half as well as the base. When the mean fitness of a generation falls below
//! that, the specialist itself is measured on held-out tasks, at most every tenth generation; if there too its success is
//! less than half the base's and the two 95 % intervals lie apart, the run is over. What is kept then is the specialist of
//! the generation whose members did best, or the base where that one is no better.
//!
//! All of this is a function of the run log, so a run that was resumed stops where it would have stopped.

use crate::answerer::Answerer;
use crate::error::FuraError;
use crate::evaluation::{HeldOut, Success};
use crate::reward::Reward;
use crate::trainer::{Answers, RunPlan, Trainer};
use fura_core::layout::Layout;
use fura_core::runlog::{self, RunHistory};
use fura_model::{Adapted, Base, Shared};
use fura_simd::Isa;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// Success that is lower than the base's by this factor is a loss.
const FACTOR: f64 = 2.0;
/// Generations from one measurement to the next.
const EVERY: u32 = 10;

/// What a run log notes of a run that was stopped, as `{"diverged":{"at":7,"kept":3}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diverged {
    /// Generations that were run.
    pub at: u32,
    /// Generations of the specialist that was kept; 0 is the base.
    pub kept: u32,
}

#[derive(Serialize, Deserialize)]
struct Note {
    diverged: Diverged,
}

impl Diverged {
    /// What the log of a run says, if the run was stopped.
    ///
    /// ```
    /// use fura::guard::Diverged;
    /// use fura_core::{estimator::EsConfig, fingerprint::Fingerprint, layout::{Layout, Linear}};
    /// use fura_core::runlog::{Note, RunHeader, RunHistory};
    /// # let layout = Layout::new(4, [Linear::new("w", 8, 8)])?;
    /// # let header = RunHeader::new(Fingerprint::of(b"model"), layout, EsConfig::default(), "toy");
    /// # let generations = vec![vec![0.0; 32]; 7];
    /// # let mut history = RunHistory { header, generations, notes: Vec::new(), finished: true, torn_bytes: 0 };
    /// assert_eq!(Diverged::of(&history), None);
    /// history.notes.push(Note { after: 7, json: r#"{"diverged":{"at":7,"kept":3}}"#.into() });
    /// assert_eq!(Diverged::of(&history), Some(Diverged { at: 7, kept: 3 }));
    /// assert_eq!(Diverged::cut(history).generations.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(history: &RunHistory) -> Option<Self> {
        let notes = history.notes.iter().rev();
        notes
            .filter_map(|note| serde_json::from_str(&note.json).ok())
            .map(|Note { diverged }| diverged)
            .next()
    }

    /// The part of a run that its specialist comes from: all of it, unless the run was stopped.
    #[must_use]
    pub fn cut(mut history: RunHistory) -> RunHistory {
        if let Some(diverged) = Self::of(&history) {
            history.generations.truncate(diverged.kept as usize);
        }
        history
    }

    /// As the log has it.
    #[must_use]
    pub fn note(self) -> impl Serialize {
        Note { diverged: self }
    }
}

/// Watches the generations of one run.
#[derive(Clone, Debug)]
pub struct Guard {
    base: Success,
    /// Fitness below which a generation is suspicious.
    floor: f64,
    /// Generations seen, and how many must have been seen before the next measurement.
    seen: u32,
    next: u32,
    /// The best mean fitness so far and the generation that had it.
    best: (f64, u32),
}

impl Guard {
    /// A guard of a run with `plan`, whose base has the success `base` on the held-out tasks. `None` if cancelled.
    ///
    /// # Errors
    /// As [`Answerer::fitness`].
    pub fn new<A: Answerer>(
        answerer: &mut A,
        held: &HeldOut<A::Question>,
        base: Success,
        plan: &RunPlan,
        cancel: &AtomicBool,
    ) -> Result<Option<Self>, FuraError> {
        // Success has the mean score and the mean expected reward; other fitness has to be computed.
        let floor = if plan.answers != Answers::Scored || plan.reward == Reward::Expected {
            base.expected / FACTOR
        } else {
            let (mut fitness, none) = (Vec::new(), Shared::Layers(0));
            let questions = held.heldout();
            if answerer.fitness(&Base, 1, none, questions, plan.reward, &mut fitness, cancel)?.is_none() {
                return Ok(None);
            }
            if plan.reward == Reward::LogExpected { fitness[0] - FACTOR.ln() } else { fitness[0] / FACTOR }
        };
        Ok(Some(Self { base, floor, seen: 0, next: 0, best: (f64::NEG_INFINITY, 0) }))
    }

    /// Takes note of a generation's fitness, and says whether the specialist should be measured. Generations are told in
    /// order, those before a resumption included.
    pub fn suspects(&mut self, fitness: &[f64]) -> bool {
        let graded = fitness.iter().filter(|f| f.is_finite());
        let mean = graded.clone().sum::<f64>() / graded.count() as f64;
        if mean > self.best.0 {
            self.best = (mean, self.seen);
        }
        self.seen += 1;
        // Without a grade there is no mean, and a comparison with it is false.
        let suspicious = mean < self.floor && self.seen > self.next;
        if suspicious {
            self.next = self.seen + EVERY - 1;
        }
        suspicious
    }

    /// Whether a specialist with such success has lost what the base had.
    ///
    /// A few held-out tasks, or a base that hardly solves any, leave nothing that could be told from chance.
    #[must_use]
    pub fn is_lost(&self, now: &Success) -> bool {
        now.success < self.base.success / FACTOR && now.high < self.base.low
    }

    /// Success of the run's specialist as it stands. `None` if cancelled.
    ///
    /// # Errors
    /// As [`Answerer::success`].
    pub fn measure<A: Answerer>(
        &self,
        trainer: &Trainer<'_>,
        answerer: &mut A,
        held: &HeldOut<A::Question>,
        isa: Isa,
        cancel: &AtomicBool,
    ) -> Result<Option<Success>, FuraError> {
        success(&trainer.estimator().final_coordinates(), trainer.layout(), answerer, held, isa, cancel)
    }

    /// What to keep of a lost run, whose log is `history`. `None` if cancelled.
    ///
    /// # Errors
    /// As [`Answerer::success`]; a history that does not fit its header.
    pub fn best<A: Answerer>(
        &self,
        history: &RunHistory,
        answerer: &mut A,
        held: &HeldOut<A::Question>,
        isa: Isa,
        cancel: &AtomicBool,
    ) -> Result<Option<Diverged>, FuraError> {
        let (at, candidate) = (self.seen, self.best.1);
        let RunHistory { header, generations, .. } = history;
        let then = runlog::replay(header, &generations[..candidate as usize])?.final_coordinates();
        let found = success(&then, &header.layout, answerer, held, isa, cancel)?;
        Ok(found.map(|s| Diverged { at, kept: if s.success > self.base.success { candidate } else { 0 } }))
    }
}

fn success<A: Answerer>(
    coordinates: &[f32],
    layout: &Layout,
    answerer: &mut A,
    held: &HeldOut<A::Question>,
    isa: Isa,
    cancel: &AtomicBool,
) -> Result<Option<Success>, FuraError> {
    let members = Adapted::new(answerer.model(), isa, coordinates, layout);
    answerer.success(&members, held.heldout(), cancel)
}
