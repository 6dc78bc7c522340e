//! Scores every question for every member: the inner loop of training and evaluation.
//!
//! Work is cut into waves of whole (member, question) pairs that fit one workspace; threads take waves from a
//! binary split, each with a workspace of its own. Neither the cut nor the threads change a bit of the result.

mod wave;

use crate::answerer::Answerer;
use crate::error::FuraError;
use crate::evaluation::Success;
use crate::generation_shape::{AnswerShape, enough};
use crate::question::Question;
use crate::reward::{Reward, best};
use crate::writer::text_of;
use fura_core::layout::Scope;
use fura_model::{
    Base, Batch, Buffer, Completion, Engine, KvCache, Members, Model, Plan, Precision, Request, Shared,
    Threads, Wanted, Workspace,
};
use fura_simd::Isa;
use fura_tasks::Task;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use wave::{Job, Part, SharedJob, Wave, Worker};

/// Rows of a wave: enough that the weights' traffic and a member's transforms are spread over many rows; more
/// only costs memory.
pub const WAVE_ROWS: usize = 768;

/// Most that the keys and values of prompts' beginnings may take, in bytes; a population answers as many questions at a
/// time as fit, at least one. Where more would fit, a member's transforms serve more rows; it pays little above this.
pub const BEGINNING_BYTES: u64 = 32 << 20;

/// Requests that are answered freely side by side: their cache, unlike a wave's, holds all layers.
pub(crate) const FREE_SEQUENCES: usize = 4;

/// Scores populations on questions. Buffers are reused; scoring the same shapes again allocates nothing.
#[derive(Debug)]
pub struct Scorer<'m> {
    model: &'m Model,
    isa: Isa,
    wave_rows: usize,
    beginning_bytes: u64,
    threads: usize,
    workers: Mutex<Vec<Worker>>,
    waves: Vec<Wave>,
    scores: Vec<f64>,
    /// First answer of each question among those of all.
    offsets: Vec<usize>,
    /// Questions that are answered at a time.
    groups: Vec<Range<usize>>,
    /// What all members share of every question's rows.
    states: Buffer<f32>,
    /// First row of each question in `states`.
    state_rows: Vec<usize>,
    /// Keys and values of the prompts' beginnings, where the population shares them.
    beginnings: KvCache,
    /// First row of each question's beginning, counted over all questions.
    beginning_rows: Vec<usize>,
    rows: u64,
}

impl<'m> Scorer<'m> {
    /// A scorer for a pool of `threads` threads, with waves of about `wave_rows` rows (at least one question).
    pub fn new(model: &'m Model, isa: Isa, threads: usize, wave_rows: usize) -> Self {
        Self {
            model,
            isa,
            wave_rows,
            beginning_bytes: BEGINNING_BYTES,
            threads: threads.max(1),
            workers: Mutex::new(Vec::new()),
            waves: Vec::new(),
            scores: Vec::new(),
            offsets: Vec::new(),
            groups: Vec::new(),
            states: Buffer::new(0),
            state_rows: Vec::new(),
            beginnings: KvCache::transient(model.config(), 0),
            beginning_rows: Vec::new(),
            rows: 0,
        }
    }

    /// The same with another limit than [`BEGINNING_BYTES`]. It changes no bit of the scores.
    #[must_use]
    pub fn with_beginning_bytes(mut self, bytes: u64) -> Self {
        self.beginning_bytes = bytes;
        self
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The instruction set kernels run on.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Log-probabilities of the legal answers of every member. Call it inside the
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
        self.group(questions, part, shared);
        self.scores.clear();
        self.scores.resize(count * self.offsets[questions.len()], 0.0);
        for g in 0..self.groups.len() {
            let group = self.groups[g].clone();
            self.plan(count, questions, group.clone(), part, members.scope());
            if part == Part::Answer {
                self.read_beginnings(members, shared, questions, group.clone())?;
            }
            let job = Job {
                engine: Engine::new(self.model, self.isa, Threads::Serial),
                members,
                questions,
                group: group.clone(),
                offsets: &self.offsets,
                shared,
                part,
                states: &self.states,
                state_rows: &self.state_rows,
                beginning_rows: &self.beginning_rows,
                earlier: (part == Part::Answer).then_some(&self.beginnings),
                workers: &self.workers,
                cancel,
            };
            let place = count * self.offsets[group.start]..count * self.offsets[group.end];
            job.run(&self.waves, 0, &mut self.scores[place])?;
            self.rows += self.waves.iter().map(|w| w.rows as u64).sum::<u64>();
        }
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Ok(Some(Scores { values: &self.scores, offsets: &self.offsets, groups: &self.groups, count }))
    }

    /// Where the questions' answers, states and beginnings lie.
    fn place(&mut self, questions: &[Question], part: Part) {
        for rows in [&mut self.offsets, &mut self.state_rows, &mut self.beginning_rows] {
            rows.clear();
            rows.push(0);
        }
        let (mut states, mut texts) = (0, 0);
        for q in questions {
            states += if part == Part::Ends { part.rows(q) } else { q.rows() };
            texts += q.prompt.len().saturating_sub(1);
            self.offsets.push(self.offsets[self.offsets.len() - 1] + q.tree.answers().len());
            self.state_rows.push(states);
            self.beginning_rows.push(texts);
        }
    }

    /// Cuts the questions into groups whose beginnings fit.
    fn group(&mut self, questions: &[Question], part: Part, shared: Shared) {
        self.groups.clear();
        let mut most = usize::MAX;
        if part == Part::Answer {
            let c = self.model.config();
            let row = KvCache::row_bytes(c, Precision::Single) * (c.layers - shared.layers()) as u64;
            most = usize::try_from(self.beginning_bytes / row.max(1)).unwrap_or(usize::MAX);
        }
        let mut first = 0;
        for i in 0..questions.len() {
            if i > first && self.beginning_rows[i + 1] - self.beginning_rows[first] > most {
                self.groups.push(first..i);
                first = i;
            }
        }
        if !questions.is_empty() {
            self.groups.push(first..questions.len());
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
        self.states.reshape(self.state_rows[questions.len()] * width);
        self.plan(1, questions, 0..questions.len(), Part::Whole, members.scope());
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

    /// Forwards every prompt of a group but its last token through the layers above those that are shared, as the base,
    /// for its keys and values there.
    fn read_beginnings(
        &mut self,
        members: &dyn Members,
        shared: Shared,
        questions: &[Question],
        group: Range<usize>,
    ) -> Result<(), FuraError> {
        let layers = self.model.config().layers - shared.layers();
        let first = self.beginning_rows[group.start];
        self.beginnings.reshape(layers, self.beginning_rows[group.end] - first);
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(w) = workers.first_mut() else { return Ok(()) };
        let engine = Engine::new(self.model, self.isa, Threads::Pool);
        let (states, cache) = (&self.states, &mut self.beginnings);
        let Worker { batch, workspace, .. } = w;
        let plan = workspace.plan();
        batch.clear();
        for i in group.clone() {
            let beginning = questions[i].prompt.split_last().map_or(&[][..], |(_, b)| b);
            if !beginning.is_empty() {
                batch.push_beginning(beginning, self.beginning_rows[i] - first);
                batch.set_state_row(self.state_rows[i]);
            }
            // A pass takes as many as the buffers do.
            let next = questions.get(i + 1).map_or(0, |q| q.prompt.len());
            let full = batch.rows() + next > plan.rows || batch.sequences() == plan.sequences;
            if batch.rows() > 0 && (full || i + 1 == group.end) {
                engine.forward_from(members, batch, shared, states, Wanted::Last, None, cache, workspace)?;
                batch.clear();
            }
        }
        Ok(())
    }

    /// Cuts the work on a group of questions into waves and sizes the workspaces.
    fn plan(&mut self, count: usize, questions: &[Question], group: Range<usize>, part: Part, scope: Scope) {
        let answers = &self.offsets[group.start..];
        let (first, all) = (answers[0], answers[group.len()] - answers[0]);
        self.waves.clear();
        let (mut longest, mut logits, mut largest, mut sequences) = (1, 1, self.wave_rows, 1);
        let mut wave = Wave { pairs: 0..0, out: 0..0, rows: 0 };
        let mut wave_sequences = 0;
        for pair in 0..count * group.len() {
            let (m, i) = (pair / group.len(), pair % group.len());
            let q = &questions[group.start + i];
            let rows = part.rows(q);
            if wave.rows > 0 && wave.rows + rows > self.wave_rows {
                self.waves.push(wave.clone());
                wave = Wave { pairs: pair..pair, out: wave.out.end..wave.out.end, rows: 0 };
                wave_sequences = 0;
            }
            wave.rows += rows;
            wave.pairs.end = pair + 1;
            wave.out.end = m * all + answers[i + 1] - first;
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
        let needed = enough(needed);
        let plan = Plan {
            rows: most(needed.rows, old.map(|(p, _)| p.rows)),
            sequences: most(needed.sequences, old.map(|(p, _)| p.sequences)),
            positions: most(needed.positions, old.map(|(p, _)| p.positions)),
        };
        let logits = most(logits.next_power_of_two(), old.map(|(_, n)| n));
        if workers.len() == self.threads && old == Some((plan, logits)) {
            return;
        }
        if workers.len() == self.threads && old.is_some_and(|(p, _)| p.rows == plan.rows) {
            // What is large stays where it is.
            for w in workers {
                w.workspace.need_sequences(self.model, plan.sequences, plan.positions);
                w.batch = Batch::with_capacity(plan.rows, plan.sequences);
                w.logits = vec![0.0; logits];
            }
            return;
        }
        workers.clear();
        for _ in 0..self.threads {
            workers.push(Worker {
                workspace: Workspace::new(self.model, plan),
                cache: KvCache::transient(self.model.config(), plan.rows),
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
        let Some(written) = text_of(self.model, self.isa, members, requests, FREE_SEQUENCES, cancel)? else {
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

    fn shape(&self, questions: &[&Question]) -> (usize, AnswerShape) {
        let answers = questions.iter().map(|q| q.tree.answers());
        let shape = AnswerShape::Scored {
            answers: answers.clone().map(<[_]>::len).max().unwrap_or(1),
            tokens: answers.flatten().map(Vec::len).max().unwrap_or(1),
            wave_rows: self.wave_rows,
        };
        (questions.iter().map(|q| q.prompt.len()).max().unwrap_or(1), shape)
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
        // A single member does without, and its free answers need room.
        self.beginnings = KvCache::transient(self.model.config(), 0);
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
        // One more, as a wave holds whole questions.
        let enough = self.wave_rows.div_ceil(rows.max(1)) + 1;
        for _ in 0..self.threads {
            self.score(&Base, members.min(enough), shared, questions, cancel)?;
            // The last one is taken first, so that each has its turn, whichever thread is quick.
            self.workers.get_mut().unwrap_or_else(PoisonError::into_inner).rotate_left(1);
        }
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
    groups: &'a [Range<usize>],
    count: usize,
}

impl<'a> Scores<'a> {
    /// Those of one member on one question, one for each legal answer.
    ///
    /// # Panics
    /// If there is no such member or question.
    pub fn answers(&self, member: usize, question: usize) -> &'a [f64] {
        assert!(member < self.count, "member {member} of {}", self.count);
        let group = &self.groups[self.groups.partition_point(|g| g.end <= question)];
        let (first, all) = (self.offsets[group.start], self.offsets[group.end] - self.offsets[group.start]);
        let at = self.count * first + member * all + self.offsets[question] - first;
        &self.values[at..at + self.offsets[question + 1] - self.offsets[question]]
    }
}
