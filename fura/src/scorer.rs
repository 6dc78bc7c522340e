//! Scores every question for every member: the inner loop of training and evaluation.
//!
//! Work is cut into waves of whole (member, question) pairs that fit one workspace; threads take waves from a
//! binary split, each with a workspace of its own. Neither the cut nor the threads change a bit of the result.

use crate::answerer::Answerer;
use crate::error::FuraError;
use crate::evaluation::Success;
use crate::generation_shape::enough;
use crate::question::Question;
use crate::reward::{Reward, best};
use crate::writer::text_of;
use fura_model::{
    Base, Batch, Completion, Engine, KvCache, Members, Model, Plan, Request, Threads, Wanted, Workspace,
};
use fura_simd::Isa;
use fura_tasks::Task;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Rows of a wave: enough that the weights' traffic and a member's transforms are spread over many rows; more
/// only costs memory.
pub const WAVE_ROWS: usize = 768;

/// Buffers of one thread.
#[derive(Debug)]
struct Worker {
    workspace: Workspace,
    cache: KvCache,
    batch: Batch,
    logits: Vec<f32>,
}

/// A run of consecutive (member, question) pairs, member-major.
#[derive(Clone, Debug)]
struct Wave {
    pairs: Range<usize>,
    /// Where its log-probabilities go.
    out: Range<usize>,
    rows: usize,
}

/// Scores populations on questions. Buffers are reused; scoring the same shapes again allocates nothing.
#[derive(Debug)]
pub struct Scorer<'m> {
    model: &'m Model,
    isa: Isa,
    wave_rows: usize,
    threads: usize,
    workers: Mutex<Vec<Worker>>,
    waves: Vec<Wave>,
    scores: Vec<f64>,
    offsets: Vec<usize>,
    /// Residual stream of every question's rows after the layers that all members share.
    states: Vec<f32>,
    /// First row of each question in `states`.
    state_rows: Vec<usize>,
    rows: u64,
}

impl<'m> Scorer<'m> {
    /// A scorer for a pool of `threads` threads, with waves of about `wave_rows` rows (at least one question).
    pub fn new(model: &'m Model, isa: Isa, threads: usize, wave_rows: usize) -> Self {
        Self {
            model,
            isa,
            wave_rows,
            threads: threads.max(1),
            workers: Mutex::new(Vec::new()),
            waves: Vec::new(),
            scores: Vec::new(),
            offsets: Vec::new(),
            states: Vec::new(),
            state_rows: Vec::new(),
            rows: 0,
        }
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// Log-probabilities of the legal answers: member-major, then questions, then answers. Call it inside the
    /// pool that is to do the work. In the first `shared` layers every member is as the first one; they are computed
    /// once for all (the same bits, less work). `None` if `cancel` was set meanwhile.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If `shared` is not less than the number of layers.
    pub fn score(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: usize,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<Option<Scores<'_>>, FuraError> {
        self.share(members, shared, questions, cancel)?;
        self.plan(count, questions);
        let answers = self.offsets[questions.len()];
        self.scores.clear();
        self.scores.resize(count * answers, 0.0);
        let job = Job {
            engine: Engine::new(self.model, self.isa, Threads::Serial),
            members,
            questions,
            offsets: &self.offsets,
            shared,
            states: &self.states,
            state_rows: &self.state_rows,
            workers: &self.workers,
            cancel,
        };
        job.run(&self.waves, 0, &mut self.scores)?;
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.rows += self.waves.iter().map(|w| w.rows as u64).sum::<u64>();
        Ok(Some(Scores { values: &self.scores, offsets: &self.offsets }))
    }

    /// Forwards every question through the layers that all members share.
    fn share(
        &mut self,
        members: &dyn Members,
        shared: usize,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<(), FuraError> {
        self.state_rows.clear();
        self.state_rows.push(0);
        for q in questions {
            self.state_rows.push(self.state_rows[self.state_rows.len() - 1] + q.rows());
        }
        let d = self.model.config().d_model;
        self.states.resize(if shared == 0 { 0 } else { self.state_rows[questions.len()] * d }, 0.0);
        if shared == 0 {
            return Ok(());
        }
        self.plan(1, questions);
        let job = SharedJob {
            members,
            engine: Engine::new(self.model, self.isa, Threads::Serial),
            questions,
            layers: shared,
            workers: &self.workers,
            cancel,
        };
        job.run(&self.waves, &self.state_rows, &mut self.states)
    }

    /// Cuts the work into waves and sizes the workspaces.
    fn plan(&mut self, count: usize, questions: &[Question]) {
        self.offsets.clear();
        self.offsets.push(0);
        for q in questions {
            self.offsets.push(self.offsets[self.offsets.len() - 1] + q.tree.answers().len());
        }
        let answers = self.offsets[questions.len()];
        self.waves.clear();
        let (mut longest, mut logits, mut largest, mut sequences) = (1, 1, self.wave_rows, 1);
        let mut wave = Wave { pairs: 0..0, out: 0..0, rows: 0 };
        let mut wave_sequences = 0;
        for pair in 0..count * questions.len() {
            let (m, i) = (pair / questions.len(), pair % questions.len());
            let q = &questions[i];
            let rows = q.rows();
            if wave.rows > 0 && wave.rows + rows > self.wave_rows {
                self.waves.push(wave.clone());
                wave = Wave { pairs: pair..pair, out: wave.out.end..wave.out.end, rows: 0 };
                wave_sequences = 0;
            }
            wave.rows += rows;
            wave.pairs.end = pair + 1;
            wave.out.end = m * answers + self.offsets[i + 1];
            wave_sequences += q.tree.branches().len();
            sequences = sequences.max(wave_sequences);
            largest = largest.max(wave.rows);
            for b in q.tree.branches() {
                longest = longest.max(q.prompt.len() + b.path.len());
                logits = logits.max(b.tokens.len());
            }
        }
        if !wave.pairs.is_empty() {
            self.waves.push(wave);
        }
        let needed = Plan { rows: largest, sequences, positions: longest };
        self.size_workers(needed, logits);
    }

    /// Makes sure there is a worker for each thread, large enough; grows in steps so that a slightly longer
    /// prompt does not reallocate every generation.
    fn size_workers(&mut self, needed: Plan, logits: usize) {
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let fits = |w: &Worker| {
            let p = w.workspace.plan();
            p.rows >= needed.rows
                && p.sequences >= needed.sequences
                && p.positions >= needed.positions
                && w.logits.len() >= logits
        };
        if workers.len() == self.threads && workers.iter().all(fits) {
            return;
        }
        let plan = enough(needed);
        workers.clear();
        for _ in 0..self.threads {
            workers.push(Worker {
                workspace: Workspace::new(self.model, plan),
                cache: KvCache::transient(self.model.config(), plan.rows),
                batch: Batch::with_capacity(plan.rows, plan.sequences),
                logits: vec![0.0; logits.next_power_of_two()],
            });
        }
    }

    /// How many questions the model would answer by free greedy decoding: what it writes, choosing the most likely of the
    /// whole vocabulary at each place, begins with the tokens of a fully rewarded answer. `None` if cancelled.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    pub fn free_greedy(
        &mut self,
        members: &dyn Members,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<Option<usize>, FuraError> {
        let request = |q: &Question| {
            Request::new(q.prompt.clone(), q.rewarded().map(Vec::len).max().unwrap_or_default())
        };
        let requests: Vec<Request> = questions.iter().map(request).collect();
        let Some(written) = text_of(self.model, self.isa, members, requests, cancel)? else {
            return Ok(None);
        };
        let right = |(q, c): &(&Question, &Completion)| q.rewarded().any(|a| c.tokens.starts_with(a));
        Ok(Some(questions.iter().zip(&written).filter(right).count()))
    }

    /// Log-probabilities under the base model.
    ///
    /// # Errors
    /// As [`Scorer::score`].
    pub fn score_base(
        &mut self,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<Option<Scores<'_>>, FuraError> {
        self.score(&Base, 1, 0, questions, cancel)
    }
}

impl Answerer for Scorer<'_> {
    type Question = Question;

    fn model(&self) -> &Model {
        self.model
    }

    fn question(&self, task: &Task, _seed: u64) -> Result<Question, FuraError> {
        Question::new(self.model, task)
    }

    fn fitness(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: usize,
        questions: &[Question],
        reward: Reward,
        fitness: &mut Vec<f64>,
        cancel: &AtomicBool,
    ) -> Result<Option<()>, FuraError> {
        let Some(scores) = self.score(members, count, shared, questions, cancel)? else { return Ok(None) };
        fitness.clear();
        for m in 0..count {
            let each = questions.iter().enumerate().map(|(i, q)| reward.of(scores.answers(m, i), &q.rewards));
            fitness.push(each.sum::<f64>() / questions.len() as f64);
        }
        Ok(Some(()))
    }

    fn success(
        &mut self,
        members: &dyn Members,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<Option<Success>, FuraError> {
        let Some(scores) = self.score(members, 1, 0, questions, cancel)? else { return Ok(None) };
        let (mut right, mut expected) = (0, 0.0);
        for (i, q) in questions.iter().enumerate() {
            let p = scores.answers(0, i);
            right += usize::from(q.rewards[best(p)] >= 1.0);
            expected += Reward::Expected.of(p, &q.rewards);
        }
        let Some(free) = self.free_greedy(members, questions, cancel)? else { return Ok(None) };
        Ok(Some(Success::new(right, questions.len(), free, expected)))
    }

    fn fill(
        &mut self,
        members: usize,
        _shared: usize,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<(), FuraError> {
        let rows: usize = questions.iter().map(Question::rows).sum();
        // One more for each thread, as a wave holds whole questions and the split between threads need not be even.
        let enough = (self.threads * self.wave_rows).div_ceil(rows.max(1)) + self.threads;
        self.score(&Base, members.min(enough), 0, questions, cancel)?;
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.rows
    }
}

/// Log-probabilities of every member's answers.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'a> {
    values: &'a [f64],
    offsets: &'a [usize],
}

impl<'a> Scores<'a> {
    /// Those of one member on one question, one for each legal answer.
    ///
    /// # Panics
    /// If there is no such member or question.
    pub fn answers(&self, member: usize, question: usize) -> &'a [f64] {
        let all = self.offsets[self.offsets.len() - 1];
        &self.values[member * all..][self.offsets[question]..self.offsets[question + 1]]
    }
}

struct Job<'a> {
    engine: Engine<'a>,
    members: &'a dyn Members,
    questions: &'a [Question],
    offsets: &'a [usize],
    shared: usize,
    states: &'a [f32],
    state_rows: &'a [usize],
    workers: &'a Mutex<Vec<Worker>>,
    cancel: &'a AtomicBool,
}

impl Job<'_> {
    /// Runs waves whose results go to `out`, which starts at position `start` of all results.
    fn run(&self, waves: &[Wave], start: usize, out: &mut [f64]) -> Result<(), FuraError> {
        if let [wave] = waves {
            return self.wave(wave, out);
        }
        let Some(middle) = waves.get(waves.len() / 2) else { return Ok(()) };
        let (left, right) = waves.split_at(waves.len() / 2);
        let cut = middle.out.start;
        let (first, second) = out.split_at_mut(cut - start);
        let (a, b) = rayon::join(|| self.run(left, start, first), || self.run(right, cut, second));
        a.and(b)
    }

    fn wave(&self, wave: &Wave, out: &mut [f64]) -> Result<(), FuraError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        with_worker(self.workers, |worker| self.forward(wave, worker, out))
    }

    fn forward(&self, wave: &Wave, w: &mut Worker, out: &mut [f64]) -> Result<(), FuraError> {
        let n = self.questions.len();
        let answers = self.offsets[n];
        w.batch.clear();
        for pair in wave.pairs.clone() {
            let q = &self.questions[pair % n];
            q.tree.push((pair / n) as u32, &q.prompt, self.state_rows[pair % n], &mut w.batch);
        }
        let (batch, cache, ws) = (&w.batch, &mut w.cache, &mut w.workspace);
        if self.shared == 0 {
            self.engine.forward(self.members, batch, Wanted::Last, cache, ws)?;
        } else {
            let (shared, states) = (self.shared, self.states);
            self.engine.forward_from(self.members, batch, shared, states, Wanted::Last, cache, ws)?;
        }
        let mut row = 0;
        for pair in wave.pairs.clone() {
            let (m, i) = (pair / n, pair % n);
            let q = &self.questions[i];
            let at = m * answers + self.offsets[i] - wave.out.start;
            let out = &mut out[at..at + q.tree.answers().len()];
            for branch in q.tree.branches() {
                let logits = &mut w.logits[..branch.tokens.len()];
                self.engine.logits_of(&mut w.workspace, row, &branch.tokens, logits);
                q.tree.accumulate(self.engine.isa(), branch, logits, out);
                row += 1;
            }
        }
        Ok(())
    }
}

/// Runs `f` with a worker of its own. One exists for each thread of the pool, and a wave never waits for another: there
/// is always one, unless the caller's pool is larger than it said.
fn with_worker(
    workers: &Mutex<Vec<Worker>>,
    f: impl FnOnce(&mut Worker) -> Result<(), FuraError>,
) -> Result<(), FuraError> {
    let worker = workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let Some(mut worker) = worker else { return Err(fura_model::ModelError::Threads.into()) };
    let result = f(&mut worker);
    workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    result
}

/// The layers that all members share, for one member's worth of waves.
struct SharedJob<'a> {
    members: &'a dyn Members,
    engine: Engine<'a>,
    questions: &'a [Question],
    layers: usize,
    workers: &'a Mutex<Vec<Worker>>,
    cancel: &'a AtomicBool,
}

impl SharedJob<'_> {
    /// Fills `states`, which holds the rows of the waves' questions; `rows[i]` is the first row of question `i`.
    fn run(&self, waves: &[Wave], rows: &[usize], states: &mut [f32]) -> Result<(), FuraError> {
        if let [wave] = waves {
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            return with_worker(self.workers, |w| {
                w.batch.clear();
                for i in wave.pairs.clone() {
                    let q = &self.questions[i];
                    q.tree.push(0, &q.prompt, 0, &mut w.batch);
                }
                let (batch, cache, ws) = (&w.batch, &mut w.cache, &mut w.workspace);
                Ok(self.engine.states(self.members, batch, self.layers, cache, ws, states)?)
            });
        }
        let Some(middle) = waves.get(waves.len() / 2) else { return Ok(()) };
        let (left, right) = waves.split_at(waves.len() / 2);
        let d = self.engine.model().config().d_model;
        let cut = (rows[middle.pairs.start] - rows[left[0].pairs.start]) * d;
        let (first, second) = states.split_at_mut(cut);
        let (a, b) = rayon::join(|| self.run(left, rows, first), || self.run(right, rows, second));
        a.and(b)
    }
}
