//! The training loop: ask, score, reward, log, tell.

use crate::answerer::Answerer;
use crate::error::FuraError;
use crate::reward::Reward;
use fura_core::estimator::{EsConfig, Estimator, GenerationReport};
use fura_core::layout::Layout;
use fura_core::runlog::{self, RunHeader, RunHistory, RunLog};
use fura_core::specialist::{Provenance, Specialist};
use fura_model::{Model, Population, Shared};
use fura_simd::Isa;
use fura_tasks::TaskSource;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What a run does beside the estimator's configuration. Kept in the run log's header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// The task source, as [`TaskSource::describe`] says it.
    pub tasks: String,
    /// Requests every member answers in a generation.
    pub requests: usize,
    /// What is maximized where answers are chosen from a list.
    pub reward: Reward,
    /// How members answer.
    #[serde(default, skip_serializing_if = "Answers::are_scored")]
    pub answers: Answers,
    /// Generations of the whole run.
    pub generations: u32,
}

/// How members answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The answers that tasks list are scored: the exact expected reward, with no token generated.
    #[default]
    Scored,
    /// Members write, and what they write is graded; the mean score is maximized.
    Written {
        /// How freely tokens are drawn; 0 takes the most likely one.
        temperature: f32,
    },
}

impl Answers {
    fn are_scored(&self) -> bool {
        *self == Answers::Scored
    }
}

impl RunPlan {
    /// The plan of a run log.
    ///
    /// # Errors
    /// A header that `fura train` did not write.
    pub fn of(header: &RunHeader, log: &Path) -> Result<RunPlan, FuraError> {
        serde_json::from_str(&header.task).map_err(|e| FuraError::OtherRun {
            log: log.display().to_string(),
            field: "header field 'task'",
            found: e.to_string(),
            expected: "a plan written by fura train".to_owned(),
        })
    }
}

/// A run in progress.
#[derive(Debug)]
pub struct Trainer<'m> {
    model: &'m Model,
    plan: RunPlan,
    header: RunHeader,
    from_layer: usize,
    estimator: Estimator,
    log: RunLog,
    fitness: Vec<f64>,
}

impl<'m> Trainer<'m> {
    /// Starts a run and its log, which must not exist yet. What is trained is `layout`, one that [`Model::layout_from`]
    /// made, in whichever scope.
    ///
    /// # Errors
    /// A bad configuration, or a log that exists or cannot be written.
    ///
    /// # Panics
    /// If the model made no such layout.
    pub fn create(
        model: &'m Model,
        layout: Layout,
        plan: RunPlan,
        config: EsConfig,
        log: &Path,
    ) -> Result<Self, FuraError> {
        // A plan is plain strings and numbers, so it always has a JSON form.
        let task = serde_json::to_string(&plan).unwrap_or_default();
        let from_layer = model.first_layer(&layout).expect("a layout of this model");
        let estimator = Estimator::new(config.clone(), &layout)?;
        let header = RunHeader::new(model.fingerprint(), layout, config, task);
        let log = RunLog::create(log, &header)?;
        Ok(Self { model, plan, header, from_layer, estimator, log, fitness: Vec::new() })
    }

    /// Takes up a run where its log ends; a torn last record is cut off.
    ///
    /// # Errors
    /// A damaged log, or one of another model or other tasks.
    pub fn resume(model: &'m Model, tasks: &TaskSource, log: &Path) -> Result<(Self, RunHistory), FuraError> {
        // Read first: a log that does not belong here is left exactly as it is.
        let bytes = std::fs::read(log)
            .map_err(|e| FuraError::ReadLog { log: log.display().to_string(), source: e })?;
        let history = RunLog::read(&bytes, log)?;
        let other = |field, found: String, expected: String| FuraError::OtherRun {
            log: log.display().to_string(),
            field,
            found,
            expected,
        };
        let header = history.header.clone();
        let plan = RunPlan::of(&header, log)?;
        if header.base != model.fingerprint() {
            return Err(other("base model", header.base.short(), model.fingerprint().short()));
        }
        let Some(from_layer) = model.first_layer(&header.layout) else {
            let (found, expected) = (header.layout.fingerprint(), model.layout().fingerprint());
            return Err(other("layout", found.short(), format!("{} or its upper layers", expected.short())));
        };
        if plan.tasks != tasks.describe() {
            return Err(other("tasks", plan.tasks, tasks.describe()));
        }
        let (writer, history) = RunLog::resume(log)?;
        let estimator = runlog::replay(&header, &history.generations)?;
        Ok((Self { model, plan, header, from_layer, estimator, log: writer, fitness: Vec::new() }, history))
    }

    /// The same run, its noise computed with the instructions of this tier instead of the best one.
    #[must_use]
    pub fn on(self, isa: Isa) -> Self {
        Self { estimator: self.estimator.on(isa), ..self }
    }

    /// The plan.
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Index of the next generation.
    pub fn generation(&self) -> u32 {
        self.estimator.ask().index
    }

    /// Whether all generations are done.
    pub fn is_done(&self) -> bool {
        self.generation() >= self.plan.generations
    }

    /// The run log.
    pub fn log_mut(&mut self) -> &mut RunLog {
        &mut self.log
    }

    /// The first trained layer.
    pub fn from_layer(&self) -> usize {
        self.from_layer
    }

    /// The layout of the trained coordinates.
    pub fn layout(&self) -> &Layout {
        &self.header.layout
    }

    /// Fitness of the last generation's members, in order; empty before the first.
    pub fn fitness(&self) -> &[f64] {
        &self.fitness
    }

    /// The estimator.
    pub fn estimator(&self) -> &Estimator {
        &self.estimator
    }

    /// The questions of the next generation.
    ///
    /// # Errors
    /// A source without training tasks, or tasks that cannot be answered in this way.
    pub fn questions<A: Answerer>(
        &self,
        answerer: &A,
        tasks: &TaskSource,
    ) -> Result<Vec<A::Question>, FuraError> {
        training(answerer, tasks, self.generation(), &self.plan)
    }

    /// Runs one generation on `questions`, inside the caller's pool: every member answers every question, the
    /// rewards are logged, the coordinates move. `None` if cancelled; the generation is then not counted.
    ///
    /// Once warm (the same shapes were seen before) this allocates nothing when answers are scored.
    ///
    /// # Errors
    /// As [`Answerer::fitness`]; a generation of which no member could be graded; a log that cannot be written.
    pub fn step<A: Answerer>(
        &mut self,
        answerer: &mut A,
        questions: &[A::Question],
        cancel: &AtomicBool,
    ) -> Result<Option<GenerationReport>, FuraError> {
        let count = self.estimator.ask().len();
        let (shared, reward) = (self.shared(), self.plan.reward);
        let members = Population::new(&self.estimator, self.model, &self.header.layout, self.from_layer);
        let fitness = &mut self.fitness;
        if answerer.fitness(&members, count, shared, questions, reward, fitness, cancel)?.is_none() {
            return Ok(None);
        }
        if let (true, (_, Some(fault))) = (fitness.iter().all(|f| f.is_nan()), answerer.faults()) {
            return Err(FuraError::NothingGraded { fault: fault.to_owned() });
        }
        self.log.append_generation(&self.fitness)?;
        Ok(Some(self.estimator.tell(&self.fitness)?))
    }

    /// What lies below the first linear that the current generation perturbs: there all members are alike.
    pub fn shared(&self) -> Shared {
        Shared::below(Shared::Layers(self.from_layer).first_linear() + self.estimator.linears().start)
    }

    /// The specialist as it stands: the one that [`Specialist::from_run_log`] makes of the log.
    ///
    /// # Errors
    /// Coordinates that are out of bounds.
    pub fn specialist(&self) -> Result<Specialist, FuraError> {
        let RunHeader { base, layout, task, created_by, .. } = &self.header;
        let provenance =
            Provenance { name: String::new(), task: task.clone(), created_by: created_by.clone() };
        Ok(Specialist::new(*base, layout.clone(), self.estimator.final_coordinates(), provenance)?)
    }
}

/// The training questions of a generation.
///
/// # Errors
/// A source without training tasks, or tasks that cannot be answered in this way.
pub fn training<A: Answerer>(
    answerer: &A,
    tasks: &TaskSource,
    generation: u32,
    plan: &RunPlan,
) -> Result<Vec<A::Question>, FuraError> {
    // Seeds of neighbouring generations do not meet.
    let questions =
        answerer.questions(&tasks.train(generation, plan.requests), u64::from(generation + 1) << 32)?;
    if questions.is_empty() {
        return Err(FuraError::NoTasks { tasks: tasks.describe(), split: "train" });
    }
    Ok(questions)
}
