//! Rollouts: what every member of a population writes after the same prompts.
//!
//! A population that is trained in the upper layers is one and the same model below them, so a text is forwarded through
//! those lower layers once, whichever members wrote it. The texts after a prompt are kept as a tree: members that have
//! written the same so far stand at the same node. Only the upper layers, with keys and values of their own, run for
//! each member.

use super::choose::Chooser;
use super::rollout_plan::RolloutPlan;
use super::slot::Slot;
use super::text_tree::TextTree;
use super::{Completion, Request};
use crate::batch::Batch;
use crate::buffer::Buffer;
use crate::cache::KvCache;
use crate::error::ModelError;
use crate::forward::{Engine, Threads, Wanted};
use crate::members::Members;
use crate::model::Model;
use crate::shared::Shared;
use crate::workspace::Workspace;
use fura_core::layout::Scope;
use fura_simd::Isa;
use fura_simd::attention::Span;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Writes the completions of populations; buffers are reused.
#[derive(Debug)]
pub struct Rollouts<'m> {
    model: &'m Model,
    isa: Isa,
    threads: usize,
    workers: Mutex<Vec<Worker<'m>>>,
    rows: u64,
}

/// Some members of one request.
#[derive(Clone, Debug)]
struct Job {
    request: usize,
    members: Range<usize>,
    /// Where their completions go.
    out: Range<usize>,
}

impl<'m> Rollouts<'m> {
    /// For a pool of `threads` threads.
    pub fn new(model: &'m Model, isa: Isa, threads: usize) -> Self {
        Self { model, isa, threads: threads.max(1), workers: Mutex::new(Vec::new()), rows: 0 }
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// Rows (tokens) forwarded so far, each counted for every member.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// What the members `0 .. count` write after each prompt: request by request, then member by member; a
    /// request's own `member` is not looked at. Each is what [`Engine::generate`] gives for that member alone. In the
    /// first `shared` layers every member is as the first one. Call it inside the pool that is to do the work. `None` if
    /// `cancel` was set meanwhile.
    ///
    /// # Errors
    /// An empty prompt, one longer than the model's context, a token outside the vocabulary, impossible settings of
    /// sampling, or a pool of more threads than this was made for.
    ///
    /// # Panics
    /// If `shared` is not less than the number of layers.
    pub fn complete(
        &mut self,
        members: &dyn Members,
        count: usize,
        shared: usize,
        requests: &[Request],
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Completion>>, ModelError> {
        let layers = self.model.config().layers;
        assert!(shared < layers, "complete: all {layers} layers are shared");
        let context = self.model.config().context;
        for r in requests {
            r.check(self.model, context)?;
        }
        let prompt = requests.iter().map(|r| r.prompt.len()).max().unwrap_or(1);
        let written = requests.iter().map(|r| r.max_tokens.min(room(context, r))).max().unwrap_or(1);
        let size = RolloutPlan::new(self.model.config(), count, shared, prompt, written);
        self.make_workers(size);
        let mut jobs = Vec::new();
        for request in 0..requests.len() {
            for first in (0..count).step_by(size.group) {
                let members = first..(first + size.group).min(count);
                let out = request * count + members.start..request * count + members.end;
                jobs.push(Job { request, members, out });
            }
        }
        let mut done: Vec<Option<Completion>> = vec![None; requests.len() * count];
        let shared = Shared::Layers(shared);
        let task = Task { members, shared, requests, workers: &self.workers, cancel };
        task.run(&jobs, &mut done)?;
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.rows += workers.iter_mut().map(|w| std::mem::take(&mut w.rows)).sum::<u64>();
        // Every member of every request has one: a group goes on until all have ended.
        Ok(Some(done.into_iter().flatten().collect()))
    }

    /// Makes sure there is a large enough worker for each thread, which begins anew.
    fn make_workers(&mut self, size: RolloutPlan) {
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        if workers.len() != self.threads || !workers.iter().all(|w| w.size.holds(&size)) {
            workers.clear();
            workers.extend((0..self.threads).map(|_| Worker::new(self.model, self.isa, size)));
        }
        workers.iter_mut().for_each(|w| w.request = None);
    }
}

/// Tokens that may follow a prompt: the last one is never forwarded.
fn room(context: usize, request: &Request) -> usize {
    context - request.prompt.len() + 1
}

/// Everything that jobs read.
struct Task<'a, 'm> {
    members: &'a dyn Members,
    shared: Shared,
    requests: &'a [Request],
    workers: &'a Mutex<Vec<Worker<'m>>>,
    cancel: &'a AtomicBool,
}

impl Task<'_, '_> {
    /// Runs jobs side by side; `done` begins with the completions of the first.
    fn run(&self, jobs: &[Job], done: &mut [Option<Completion>]) -> Result<(), ModelError> {
        if let [job] = jobs {
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            let worker = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            // One exists for each thread, unless the caller's pool is larger than it said.
            let Some(mut worker) = worker else { return Err(ModelError::Threads) };
            let result = worker.write(self, job, done);
            self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
            return result;
        }
        let Some(middle) = jobs.get(jobs.len() / 2) else { return Ok(()) };
        let (left, right) = jobs.split_at(jobs.len() / 2);
        let (first, second) = done.split_at_mut(middle.out.start - left[0].out.start);
        let (a, b) = rayon::join(|| self.run(left, first), || self.run(right, second));
        a.and(b)
    }
}

/// Adds a member's prompt, of which it reads all or the last token, to the cache rows from `store` on. Its states lie from
/// the first on.
fn push_prompt(batch: &mut Batch, scope: Scope, member: u32, prompt: &[u32], store: usize) {
    match prompt.split_last() {
        Some((last, beginning)) if scope == Scope::Answer && !beginning.is_empty() => {
            batch.push_beginning(beginning, store);
            batch.set_state_row(0);
            batch.push(member, &[*last], beginning.len(), store);
            batch.set_state_row(beginning.len());
        }
        _ => {
            batch.push(member, prompt, 0, store);
            batch.set_state_row(0);
        }
    }
}

/// Buffers of one thread.
#[derive(Debug)]
struct Worker<'m> {
    engine: Engine<'m>,
    size: RolloutPlan,
    ws: Workspace,
    batch: Batch,
    chooser: Chooser,
    /// Keys and values of the shared layers: the prompt's, then those of the tree's nodes.
    lower: KvCache,
    /// The residual stream above the shared layers, rows as in `lower`.
    states: Buffer<f32>,
    tree: TextTree,
    /// Which request `lower` and `states` belong to.
    request: Option<usize>,
    /// Keys and values of the other layers, for each member of the group its prompt's and its text's.
    upper: KvCache,
    slots: Vec<Slot<'m>>,
    /// The node of each slot's text, none after the bare prompt.
    nodes: Vec<Option<usize>>,
    /// Slots still writing.
    live: Vec<usize>,
    ready: Vec<(usize, usize)>,
    spans: Vec<Span>,
    rows: u64,
}

impl<'m> Worker<'m> {
    fn new(model: &'m Model, isa: Isa, size: RolloutPlan) -> Self {
        let c = model.config();
        let plan = size.pass();
        let tree = size.tree();
        Self {
            engine: Engine::new(model, isa, Threads::Serial),
            size,
            ws: Workspace::new(model, plan),
            batch: Batch::with_capacity(plan.rows, plan.sequences),
            chooser: Chooser::new(model, size.group),
            lower: KvCache::for_layers(c, size.shared, size.prompt + tree),
            states: Buffer::new((size.prompt + tree) * c.d_model),
            tree: TextTree::with_capacity(tree),
            request: None,
            upper: KvCache::for_layers(c, c.layers - size.shared, size.group * plan.positions),
            slots: Vec::with_capacity(size.group),
            nodes: Vec::with_capacity(size.group),
            live: Vec::with_capacity(size.group),
            ready: Vec::with_capacity(size.group),
            spans: Vec::with_capacity(size.written + 1),
            rows: 0,
        }
    }

    /// Writes the completions of a group.
    fn write(
        &mut self,
        task: &Task<'_, '_>,
        job: &Job,
        done: &mut [Option<Completion>],
    ) -> Result<(), ModelError> {
        let request = &task.requests[job.request];
        if self.request != Some(job.request) {
            self.tree.clear();
            self.request = None;
            self.read_prompt(task, &request.prompt)?;
            self.request = Some(job.request);
        } else if self.tree.free() < self.size.group * self.size.written {
            self.tree.clear();
        }
        self.start(request, job.members.clone(), done);
        self.open(task, request, done)?;
        while !self.live.is_empty() && !task.cancel.load(Ordering::Relaxed) {
            self.descend(task, request.prompt.len())?;
            self.go_on(task, request.prompt.len(), done)?;
        }
        Ok(())
    }

    /// The prompt through the shared layers.
    fn read_prompt(&mut self, task: &Task<'_, '_>, prompt: &[u32]) -> Result<(), ModelError> {
        self.batch.clear();
        push_prompt(&mut self.batch, task.members.scope(), 0, prompt, 0);
        let states = &mut self.states[..prompt.len() * self.engine.model().config().d_model];
        self.engine.states(task.members, &self.batch, task.shared, &mut self.lower, &mut self.ws, states)
    }

    /// A slot for each member of the group.
    fn start(&mut self, request: &Request, members: Range<usize>, done: &mut [Option<Completion>]) {
        let model = self.engine.model();
        let (room, len) = (room(model.config().context, request), self.size.positions());
        self.slots.clear();
        self.nodes.clear();
        self.live.clear();
        for (i, member) in members.enumerate() {
            let request = Request { member: member as u32, ..request.clone() };
            let rows = Span { first: i * len, len };
            let mut slot = Slot::new(i, request, None, rows, room, model.tokenizer());
            match slot.ended() {
                Some(finish) => done[i] = Some(slot.complete(finish)),
                None => self.live.push(i),
            }
            self.slots.push(slot);
            self.nodes.push(None);
        }
    }

    /// The prompt through the upper layers of every member, and the first token.
    fn open(
        &mut self,
        task: &Task<'_, '_>,
        request: &Request,
        done: &mut [Option<Completion>],
    ) -> Result<(), ModelError> {
        let prompt = &request.prompt;
        let live = std::mem::take(&mut self.live);
        for together in live.chunks((self.ws.plan().rows / prompt.len()).max(1)) {
            self.batch.clear();
            self.ready.clear();
            for (row, i) in together.iter().enumerate() {
                let slot = &mut self.slots[*i];
                push_prompt(
                    &mut self.batch,
                    task.members.scope(),
                    slot.request.member,
                    prompt,
                    slot.rows.first,
                );
                slot.filled = prompt.len();
                self.ready.push((row, *i));
            }
            self.pass(task, done)?;
        }
        self.live = live;
        self.live.retain(|i| done[*i].is_none());
        Ok(())
    }

    /// Moves every live slot to the node of its last token; new nodes go through the shared layers.
    fn descend(&mut self, task: &Task<'_, '_>, prompt: usize) -> Result<(), ModelError> {
        let first = self.tree.len();
        self.batch.clear();
        for i in &self.live {
            let [token] = *self.slots[*i].next(1) else { continue };
            let parent = self.nodes[*i];
            let (node, new) = self.tree.child(parent, token);
            self.nodes[*i] = Some(node);
            if new {
                self.tree.past(parent, prompt, &mut self.spans);
                self.batch.push_after(0, &[token], &self.spans, prompt + node);
            }
        }
        if self.tree.len() == first {
            return Ok(());
        }
        let d = self.engine.model().config().d_model;
        let states = &mut self.states[(prompt + first) * d..(prompt + self.tree.len()) * d];
        self.engine.states(task.members, &self.batch, task.shared, &mut self.lower, &mut self.ws, states)
    }

    /// Every live slot's last token through the upper layers, and the next token.
    fn go_on(
        &mut self,
        task: &Task<'_, '_>,
        prompt: usize,
        done: &mut [Option<Completion>],
    ) -> Result<(), ModelError> {
        self.batch.clear();
        self.ready.clear();
        for (row, i) in self.live.iter().enumerate() {
            let slot = &mut self.slots[*i];
            self.batch.push(slot.request.member, slot.next(1), slot.filled, slot.rows.first);
            // A slot that has written stands at a node.
            self.batch.set_state_row(prompt + self.nodes[*i].unwrap_or(0));
            slot.filled += 1;
            self.ready.push((row, *i));
        }
        self.pass(task, done)?;
        self.live.retain(|i| done[*i].is_none());
        Ok(())
    }

    /// The batch through the upper layers; each of its sequences chooses a token.
    fn pass(&mut self, task: &Task<'_, '_>, done: &mut [Option<Completion>]) -> Result<(), ModelError> {
        let (batch, upper, ws) = (&self.batch, &mut self.upper, &mut self.ws);
        self.rows += batch.rows() as u64;
        self.engine.forward_from(
            task.members,
            batch,
            task.shared,
            &self.states,
            Wanted::Last,
            None,
            upper,
            ws,
        )?;
        self.chooser.choose(&self.engine, ws, &self.ready, &mut self.slots, &mut |i, slot, _, finish| {
            if let Some(finish) = finish {
                done[i] = Some(slot.complete(finish));
            }
        });
        Ok(())
    }
}
