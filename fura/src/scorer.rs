//! Scores every question for every member: the inner loop of training and evaluation.
//!
//! Work is cut into waves of whole (member, question) pairs that fit one workspace; threads take waves from a
//! binary split, each with a workspace of its own. Neither the cut nor the threads change a bit of the result.

use crate::answerer::Answerer;
use crate::error::FuraError;
use crate::evaluation::Success;
use crate::question::Question;
use crate::reward::{Reward, best};
use crate::writer::text_of;
use fura_core::layout::Scope;
use fura_model::{
    Base, Batch, Completion, Engine, KvCache, Members, Model, Plan, Request, Shared, Threads, Wanted,
    Workspace,
};
use fura_simd::Isa;
use fura_simd::attention::Span;
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
    /// Keys and values of the prompts' beginnings, where the population shares them, and of a wave's answers.
    texts: KvCache,
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
    /// What all members share of every question's rows.
    states: Vec<f32>,
    /// First row of each question in `states`.
    state_rows: Vec<usize>,
    /// First row of each question's beginning in the workers' `texts`.
    text_rows: Vec<usize>,
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
            text_rows: Vec::new(),
            rows: 0,
        }
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The instruction set kernels run on.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Log-probabilities of the legal answers: member-major, then questions, then answers. Call it inside the
    /// pool that is to do the work. In what is `shared` every member is as the first one; it is computed once for all
    /// (the same bits, less work). `None` if `cancel` was set meanwhile.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If there are not more layers than are `shared`.
    pub fn score(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: Shared,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<Option<Scores<'_>>, FuraError> {
        let part = match members.scope() {
            _ if shared.is_last_attention(self.model.config()) => Part::Ends,
            Scope::Answer if count > 1 => Part::Answer,
            _ => Part::Whole,
        };
        self.place(questions, part);
        if part != Part::Whole || shared != Shared::Layers(0) {
            self.share(members, shared, questions, cancel)?;
        }
        self.plan(count, questions, part, members.scope());
        if part == Part::Answer {
            self.read_beginnings(members, shared, questions)?;
        }
        let answers = self.offsets[questions.len()];
        self.scores.clear();
        self.scores.resize(count * answers, 0.0);
        let job = Job {
            engine: Engine::new(self.model, self.isa, Threads::Serial),
            members,
            questions,
            offsets: &self.offsets,
            shared,
            part,
            states: &self.states,
            state_rows: &self.state_rows,
            text_rows: &self.text_rows,
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

    /// Where the questions' states and beginnings lie.
    fn place(&mut self, questions: &[Question], part: Part) {
        for rows in [&mut self.state_rows, &mut self.text_rows] {
            rows.clear();
            rows.push(0);
        }
        let (mut states, mut texts) = (0, 0);
        for q in questions {
            states += if part == Part::Ends { part.rows(q) } else { q.rows() };
            texts += q.prompt.len().saturating_sub(1);
            self.state_rows.push(states);
            self.text_rows.push(texts);
        }
    }

    /// Forwards every question as far as all members share it.
    fn share(
        &mut self,
        members: &dyn Members,
        shared: Shared,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<(), FuraError> {
        let c = self.model.config();
        let width = shared.width(c);
        self.states.resize(self.state_rows[questions.len()] * width, 0.0);
        self.plan(1, questions, Part::Whole, members.scope());
        let job = SharedJob {
            members,
            engine: Engine::new(self.model, self.isa, Threads::Serial),
            questions,
            shared,
            width,
            workers: &self.workers,
            cancel,
        };
        job.run(&self.waves, &self.state_rows, &mut self.states)
    }

    /// Forwards every prompt but its last token through the layers above those that are shared, as the base, and gives
    /// all workers its keys and values there.
    fn read_beginnings(
        &mut self,
        members: &dyn Members,
        shared: Shared,
        questions: &[Question],
    ) -> Result<(), FuraError> {
        let all = self.text_rows[questions.len()];
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let layers = self.model.config().layers - shared.layers();
        for w in workers.iter_mut() {
            w.texts.reshape(layers, all + w.workspace.plan().rows);
        }
        let Some((w, others)) = workers.split_first_mut() else { return Ok(()) };
        let engine = Engine::new(self.model, self.isa, Threads::Pool);
        for (i, q) in questions.iter().enumerate() {
            let Some((_, beginning)) = q.prompt.split_last().filter(|(_, b)| !b.is_empty()) else { continue };
            w.batch.clear();
            w.batch.push_beginning(beginning, self.text_rows[i]);
            w.batch.set_state_row(self.state_rows[i]);
            let (states, wanted) = (&self.states, Wanted::Last);
            engine.forward_from(members, &w.batch, shared, states, wanted, &mut w.texts, &mut w.workspace)?;
        }
        for other in others {
            other.texts.copy_beginning(&w.texts, all);
        }
        Ok(())
    }

    /// Cuts the work into waves and sizes the workspaces.
    fn plan(&mut self, count: usize, questions: &[Question], part: Part, scope: Scope) {
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
            let rows = part.rows(q);
            if wave.rows > 0 && wave.rows + rows > self.wave_rows {
                self.waves.push(wave.clone());
                wave = Wave { pairs: pair..pair, out: wave.out.end..wave.out.end, rows: 0 };
                wave_sequences = 0;
            }
            wave.rows += rows;
            wave.pairs.end = pair + 1;
            wave.out.end = m * answers + self.offsets[i + 1];
            wave_sequences += q.tree.branches().len() + usize::from(scope == Scope::Answer);
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
        let old = workers.first().map(|w| (w.workspace.plan(), w.logits.len()));
        // Never less than before: passes of different kinds take turns.
        let most = |new: usize, old: Option<usize>| new.max(old.unwrap_or_default());
        let plan = Plan {
            rows: most(needed.rows, old.map(|(p, _)| p.rows)),
            sequences: most(needed.sequences.next_power_of_two(), old.map(|(p, _)| p.sequences)),
            positions: most(needed.positions.next_multiple_of(64), old.map(|(p, _)| p.positions)),
        };
        let logits = most(logits.next_power_of_two(), old.map(|(_, n)| n));
        if workers.len() == self.threads && old == Some((plan, logits)) {
            return;
        }
        workers.clear();
        for _ in 0..self.threads {
            workers.push(Worker {
                workspace: Workspace::new(self.model, plan),
                cache: KvCache::transient(self.model.config(), plan.rows),
                texts: KvCache::transient(self.model.config(), 0),
                batch: Batch::with_capacity(plan.rows, plan.sequences),
                logits: vec![0.0; logits],
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
        self.score(&Base, 1, Shared::Layers(0), questions, cancel)
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
        shared: Shared,
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
        let Some(scores) = self.score(members, 1, Shared::Layers(0), questions, cancel)? else {
            return Ok(None);
        };
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
        shared: Shared,
        questions: &[Question],
        cancel: &AtomicBool,
    ) -> Result<(), FuraError> {
        let ends = shared.is_last_attention(self.model.config());
        let part = if ends { Part::Ends } else { Part::Whole };
        let rows: usize = questions.iter().map(|q| part.rows(q)).sum();
        // One more for each thread, as a wave holds whole questions and the split between threads need not be even.
        let enough = (self.threads * self.wave_rows).div_ceil(rows.max(1)) + self.threads;
        self.score(&Base, members.min(enough), shared, questions, cancel)?;
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
    shared: Shared,
    part: Part,
    states: &'a [f32],
    state_rows: &'a [usize],
    text_rows: &'a [usize],
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
            let (member, i) = ((pair / n) as u32, pair % n);
            match self.part {
                Part::Whole => {
                    q.tree.push(member, &q.prompt, self.members.scope(), self.state_rows[i], &mut w.batch);
                }
                Part::Ends => q.tree.push_ends(member, self.state_rows[i], &mut w.batch),
                Part::Answer => {
                    let Some((last, beginning)) = q.prompt.split_last() else { continue };
                    let span = Span { first: self.text_rows[i], len: beginning.len() };
                    let state = self.state_rows[i] + span.len;
                    q.tree.push_answers(member, *last, span, self.text_rows[n], state, &mut w.batch);
                }
            }
        }
        let (batch, ws) = (&w.batch, &mut w.workspace);
        let cache = if self.part == Part::Answer { &mut w.texts } else { &mut w.cache };
        if self.part == Part::Whole && self.shared == Shared::Layers(0) {
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

/// What is computed for each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Prompt and answers.
    Whole,
    /// The prompt's last token and the answers, after keys and values of a beginning that the base has read.
    Answer,
    /// The last tokens before answers part.
    Ends,
}

impl Part {
    /// Rows of a question.
    fn rows(self, q: &Question) -> usize {
        match self {
            Self::Whole => q.rows(),
            Self::Answer => q.rows() - q.rows().min(q.prompt.len().saturating_sub(1)),
            Self::Ends => q.tree.branches().len(),
        }
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

/// What all members share, for one member's worth of waves.
struct SharedJob<'a> {
    members: &'a dyn Members,
    engine: Engine<'a>,
    questions: &'a [Question],
    shared: Shared,
    width: usize,
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
                    q.tree.push(0, &q.prompt, self.members.scope(), 0, &mut w.batch);
                }
                let (batch, cache, ws) = (&w.batch, &mut w.cache, &mut w.workspace);
                Ok(self.engine.states(self.members, batch, self.shared, cache, ws, states)?)
            });
        }
        let Some(middle) = waves.get(waves.len() / 2) else { return Ok(()) };
        let (left, right) = waves.split_at(waves.len() / 2);
        let cut = (rows[middle.pairs.start] - rows[left[0].pairs.start]) * self.width;
        let (first, second) = states.split_at_mut(cut);
        let (a, b) = rayon::join(|| self.run(left, rows, first), || self.run(right, rows, second));
        a.and(b)
    }
}
