//! The work of scoring: waves of whole questions, on threads with buffers of their own.

use crate::error::FuraError;
use crate::question::Question;
use fura_model::{Batch, Engine, KvCache, Members, Shared, Wanted, Workspace};
use fura_simd::attention::Span;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Buffers of one thread.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) workspace: Workspace,
    pub(super) cache: KvCache,
    pub(super) batch: Batch,
    pub(super) logits: Vec<f32>,
}

/// A run of consecutive (member, question) pairs of a group of questions, member-major.
#[derive(Clone, Debug)]
pub(super) struct Wave {
    pub(super) pairs: Range<usize>,
    /// Where its log-probabilities go among those of the group.
    pub(super) out: Range<usize>,
    pub(super) rows: usize,
}

pub(super) struct Job<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) members: &'a dyn Members,
    pub(super) questions: &'a [Question],
    pub(super) group: Range<usize>,
    pub(super) offsets: &'a [usize],
    pub(super) shared: Shared,
    pub(super) part: Part,
    pub(super) states: &'a [f32],
    pub(super) state_rows: &'a [usize],
    pub(super) beginning_rows: &'a [usize],
    pub(super) earlier: Option<&'a KvCache>,
    pub(super) workers: &'a Mutex<Vec<Worker>>,
    pub(super) cancel: &'a AtomicBool,
}

impl Job<'_> {
    /// Runs waves whose results go to `out`, which starts at position `start` of all results.
    pub(super) fn run(&self, waves: &[Wave], start: usize, out: &mut [f64]) -> Result<(), FuraError> {
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
        let Range { start, end } = self.group;
        let n = end - start;
        let (first, answers) = (self.offsets[start], self.offsets[end] - self.offsets[start]);
        let beginnings = self.beginning_rows[end] - self.beginning_rows[start];
        w.batch.clear();
        for pair in wave.pairs.clone() {
            let (member, i) = ((pair / n) as u32, start + pair % n);
            let q = &self.questions[i];
            match self.part {
                Part::Whole => {
                    q.tree.push(member, &q.prompt, self.members.scope(), self.state_rows[i], &mut w.batch);
                }
                Part::Ends => q.tree.push_ends(member, self.state_rows[i], &mut w.batch),
                Part::Answer => {
                    let Some((last, beginning)) = q.prompt.split_last() else { continue };
                    let span = Span {
                        first: self.beginning_rows[i] - self.beginning_rows[start],
                        len: beginning.len(),
                    };
                    let state = self.state_rows[i] + span.len;
                    q.tree.push_answers(member, *last, span, beginnings, state, &mut w.batch);
                }
            }
        }
        let (batch, cache, ws) = (&w.batch, &mut w.cache, &mut w.workspace);
        if self.part == Part::Whole && self.shared == Shared::Layers(0) {
            self.engine.forward(self.members, batch, Wanted::Last, cache, ws)?;
        } else {
            let (members, wanted) = (self.members, Wanted::Last);
            self.engine.forward_from(
                members,
                batch,
                self.shared,
                self.states,
                wanted,
                self.earlier,
                cache,
                ws,
            )?;
        }
        let mut row = 0;
        for pair in wave.pairs.clone() {
            let (m, i) = (pair / n, start + pair % n);
            let q = &self.questions[i];
            let at = m * answers + self.offsets[i] - first - wave.out.start;
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
pub(super) enum Part {
    /// Prompt and answers.
    Whole,
    /// The prompt's last token and the answers, after keys and values of a beginning that the base has read.
    Answer,
    /// The last tokens before answers part.
    Ends,
}

impl Part {
    /// Rows of a question.
    pub(super) fn rows(self, q: &Question) -> usize {
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
pub(super) struct SharedJob<'a> {
    pub(super) members: &'a dyn Members,
    pub(super) engine: Engine<'a>,
    pub(super) questions: &'a [Question],
    pub(super) shared: Shared,
    pub(super) width: usize,
    pub(super) workers: &'a Mutex<Vec<Worker>>,
    pub(super) cancel: &'a AtomicBool,
}

impl SharedJob<'_> {
    /// Fills `states`, which holds the rows of the waves' questions; `rows[i]` is the first row of question `i`.
    pub(super) fn run(&self, waves: &[Wave], rows: &[usize], states: &mut [f32]) -> Result<(), FuraError> {
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
