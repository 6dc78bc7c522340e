//! Continuous batching: running sequences share each pass, finished ones give their rows of the cache to waiting ones.

use super::choose::Chooser;
use super::rows::FreeRows;
use super::slot::Slot;
use super::{Completion, Event, Finish, Request};
use crate::batch::{BASE, Batch};
use crate::cache::{KvCache, Precision};
use crate::error::ModelError;
use crate::forward::{Engine, Wanted};
use crate::members::Members;
use crate::model::Model;
use crate::workspace::{Plan, Workspace};
use fura_core::layout::Scope;
use fura_simd::attention::Span;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

/// Tokens from which on a common beginning is kept apart.
const WORTH_SHARING: usize = 8;

/// A beginning that prompts of one member share, kept in the cache.
#[derive(Debug)]
struct Prefix {
    member: u32,
    tokens: Vec<u32>,
    rows: Span,
    /// Tokens in the cache or on their way there.
    filled: usize,
}

/// What a sequence of the batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Prefix(usize),
    Slot(usize),
}

/// Buffers and state of a batch of requests. A request's result is that of running it alone: it depends neither on what
/// else is in the batch nor on order, chunks, threads or shared prefixes.
///
/// Passes between a request's first token and its end allocate nothing, but for states of its
/// [constraint](crate::constraint) that are new and text longer than eight bytes a token.
#[derive(Debug)]
pub struct Generator<'m> {
    model: &'m Model,
    plan: Plan,
    ws: Workspace,
    cache: KvCache,
    free: FreeRows,
    batch: Batch,
    chooser: Chooser,
    prefixes: Vec<Prefix>,
    waiting: VecDeque<(usize, Request)>,
    slots: Vec<Slot<'m>>,
    parts: Vec<(u32, Part, usize)>,
    ready: Vec<(usize, usize)>,
    ended: Vec<(usize, Finish)>,
    submitted: usize,
    rows: u64,
}

impl<'m> Generator<'m> {
    /// Buffers for passes of `plan.rows` tokens, `plan.sequences` running requests of `plan.positions` tokens at most,
    /// and a cache of `cache_rows` tokens for them and their shared prefixes.
    pub fn new(model: &'m Model, plan: Plan, cache_rows: usize, precision: Precision) -> Self {
        let plan = Plan { rows: plan.rows.max(1), sequences: plan.sequences.max(1), ..plan };
        // A pass may fill prefixes beside its sequences, each of which has two spans.
        let passes = Plan { sequences: 2 * plan.sequences + 1, ..plan };
        Self {
            model,
            plan,
            ws: Workspace::new(model, passes),
            cache: KvCache::with_precision(model.config(), cache_rows, precision),
            free: FreeRows::new(cache_rows),
            batch: Batch::with_capacity(plan.rows, passes.sequences),
            chooser: Chooser::new(model, plan.sequences),
            prefixes: Vec::new(),
            waiting: VecDeque::new(),
            slots: Vec::with_capacity(plan.sequences),
            parts: Vec::with_capacity(passes.sequences),
            ready: Vec::with_capacity(plan.sequences),
            ended: Vec::with_capacity(plan.sequences),
            submitted: 0,
            rows: 0,
        }
    }

    /// Makes sure that passes on so many threads find their buffers.
    pub(crate) fn need_threads(&mut self, threads: usize) {
        self.ws.need_lanes(self.model, threads);
    }

    /// Tokens that fit a sequence.
    fn room(&self) -> usize {
        self.plan.positions.min(self.model.config().context).min(self.cache.rows())
    }

    /// Rows (tokens) forwarded so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether nothing is running or waiting.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.waiting.is_empty()
    }

    /// Keeps `tokens` in the cache, so that prompts of `member` which begin with them and go on are continued from
    /// there. It takes as many rows until [`Generator::clear_prefixes`].
    ///
    /// # Errors
    /// If the cache has not so many free rows in a row.
    pub fn share_prefix(&mut self, member: u32, tokens: &[u32]) -> Result<(), ModelError> {
        let rows = self.free.take(tokens.len()).ok_or(ModelError::Capacity {
            what: "free rows of the cache for a shared prefix",
            asked: tokens.len(),
            planned: self.cache.rows(),
        })?;
        self.prefixes.push(Prefix { member, tokens: tokens.to_vec(), rows, filled: 0 });
        Ok(())
    }

    /// Forgets the shared prefixes.
    ///
    /// # Panics
    /// If a request is running.
    pub fn clear_prefixes(&mut self) {
        assert!(self.slots.is_empty(), "a running request may need a prefix");
        while let Some(p) = self.prefixes.pop() {
            self.free.give(p.rows);
        }
    }

    /// Adds a request, which gets its turn when a place and rows of the cache are free; its number.
    ///
    /// # Errors
    /// An empty prompt, one that is longer than a sequence may be, a token outside the vocabulary, or settings that
    /// are impossible.
    pub fn submit(&mut self, request: Request) -> Result<usize, ModelError> {
        request.check(self.model, self.room())?;
        self.submitted += 1;
        self.waiting.push_back((self.submitted - 1, request));
        Ok(self.submitted - 1)
    }

    /// Drops every request, running or waiting. Prefixes stay, as far as they are in the cache.
    pub fn cancel(&mut self) {
        self.waiting.clear();
        while let Some(slot) = self.slots.pop() {
            self.free.give(slot.rows);
        }
    }

    /// Runs one pass and reports what came of it; false if there was nothing to do. Call it inside the pool that is to do
    /// the work, with the engine of this model.
    ///
    /// # Errors
    /// A request that does not fit the cache even alone; it is dropped.
    pub fn step(
        &mut self,
        engine: &Engine<'_>,
        members: &dyn Members,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, ModelError> {
        self.admit()?;
        self.end_those_that_need_no_token(report);
        if self.slots.is_empty() {
            return Ok(!self.waiting.is_empty());
        }
        self.schedule(members.scope());
        self.fill_batch();
        engine.forward(members, &self.batch, Wanted::Last, &mut self.cache, &mut self.ws)?;
        self.rows += self.batch.rows() as u64;
        self.choose(engine, report);
        Ok(true)
    }

    /// Lets waiting requests in, first come, first served.
    fn admit(&mut self) -> Result<(), ModelError> {
        while self.slots.len() < self.plan.sequences {
            let Some((number, request)) = self.waiting.pop_front() else { break };
            let prefix = self.prefix_of(&request);
            let after = request.prompt.len() - prefix.map_or(0, |p| p.1);
            // The last token chosen is never forwarded.
            let room = self.room() - request.prompt.len() + 1;
            let needed = after + request.max_tokens.min(room).saturating_sub(1);
            match self.free.take(needed) {
                Some(rows) => {
                    self.slots.push(Slot::new(number, request, prefix, rows, room, self.model.tokenizer()));
                }
                None if self.slots.is_empty() => {
                    let planned = self.cache.rows();
                    return Err(ModelError::Capacity { what: "rows of the cache", asked: needed, planned });
                }
                None => {
                    self.waiting.push_front((number, request));
                    break;
                }
            }
        }
        Ok(())
    }

    /// The longest shared prefix that a prompt begins with and goes on from, and its length.
    fn prefix_of(&self, request: &Request) -> Option<(usize, usize)> {
        self.prefixes
            .iter()
            .enumerate()
            .filter(|(_, p)| {
                p.member == request.member
                    && p.tokens.len() < request.prompt.len()
                    && request.prompt.starts_with(&p.tokens)
            })
            .map(|(i, p)| (i, p.tokens.len()))
            .max_by_key(|(_, len)| *len)
    }

    /// What several prompts of a member begin with, if all of that fits beside the largest request.
    fn worth_sharing(&self, requests: &[Request]) -> Vec<(u32, Vec<u32>)> {
        let mut shared: BTreeMap<u32, (&[u32], usize)> = BTreeMap::new();
        for r in requests {
            // A prompt's last token is its own, since its logits are needed.
            let all = &r.prompt[..r.prompt.len().saturating_sub(1)];
            let (prefix, n) = shared.entry(r.member).or_insert((all, 0));
            let same = prefix.iter().zip(all).take_while(|(a, b)| a == b).count();
            (*prefix, *n) = (&prefix[..same], *n + 1);
        }
        shared.retain(|_, (prefix, n)| *n > 1 && prefix.len() >= WORTH_SHARING);
        let all: usize = shared.values().map(|(prefix, _)| prefix.len()).sum();
        let fits = requests.iter().all(|r| {
            let own = r.prompt.len() - shared.get(&r.member).map_or(0, |(prefix, _)| prefix.len());
            all.saturating_add(own).saturating_add(r.max_tokens.min(self.room())) <= self.cache.rows()
        });
        if !fits {
            return Vec::new();
        }
        shared.into_iter().map(|(member, (prefix, _))| (member, prefix.to_vec())).collect()
    }

    /// Ends requests for no tokens at all.
    fn end_those_that_need_no_token(&mut self, report: &mut dyn FnMut(Event<'_>)) {
        for i in (0..self.slots.len()).rev() {
            if let Some(finish) = self.slots[i].ended() {
                self.end(i, finish, report);
            }
        }
    }

    /// Decides what goes into the pass: a token of each sequence that is decoding, then prefixes and prompts as far as
    /// there is room, those of one member beside each other. In [`Scope::Answer`] all of a prompt but its last token is the
    /// base's.
    fn schedule(&mut self, scope: Scope) {
        let reader = |member| if scope == Scope::Answer { BASE } else { member };
        self.parts.clear();
        let mut left = self.plan.rows;
        for (i, slot) in self.slots.iter().enumerate().filter(|(_, s)| s.is_decoding()).take(left) {
            self.parts.push((slot.request.member, Part::Slot(i), 1));
        }
        left -= self.parts.len();
        for (i, slot) in self.slots.iter().enumerate().filter(|(_, s)| !s.is_decoding()) {
            if let Some((p, _)) = slot.prefix {
                let prefix = &mut self.prefixes[p];
                let n = (prefix.tokens.len() - prefix.filled).min(left);
                if n > 0 {
                    self.parts.push((reader(prefix.member), Part::Prefix(p), n));
                    prefix.filled += n;
                    left -= n;
                }
                if prefix.filled < prefix.tokens.len() {
                    continue;
                }
            }
            let beginning = slot.request.prompt.len() - 1;
            let (member, n) = match scope {
                Scope::Answer if slot.filled < beginning => (BASE, beginning - slot.filled),
                _ => (slot.request.member, slot.missing()),
            };
            let n = n.min(left);
            if n > 0 {
                self.parts.push((member, Part::Slot(i), n));
                left -= n;
            }
        }
        // Not the stable sort, which allocates for long lists.
        self.parts.sort_unstable_by_key(|(member, part, _)| (*member, *part));
    }

    /// Puts the parts into the batch and notes which sequences get a token.
    fn fill_batch(&mut self) {
        self.batch.clear();
        self.ready.clear();
        for (row, (member, part, n)) in self.parts.iter().enumerate() {
            match *part {
                Part::Prefix(p) => {
                    let prefix = &self.prefixes[p];
                    let past = prefix.filled - n;
                    self.batch.push(*member, &prefix.tokens[past..prefix.filled], past, prefix.rows.first);
                }
                Part::Slot(i) => {
                    let slot = &mut self.slots[i];
                    let shared =
                        slot.prefix.map_or(Span { first: 0, len: 0 }, |(p, _)| self.prefixes[p].rows);
                    let own = Span { first: slot.rows.first, len: slot.filled - shared.len };
                    self.batch.push_after(*member, slot.next(*n), &[shared, own], own.first + own.len);
                    slot.filled += n;
                    if slot.missing() == 0 {
                        self.ready.push((row, i));
                    }
                }
            }
        }
    }

    /// Chooses a token for each sequence that is ready.
    fn choose(&mut self, engine: &Engine<'_>, report: &mut dyn FnMut(Event<'_>)) {
        let ended = &mut self.ended;
        ended.clear();
        self.chooser.choose(
            engine,
            &mut self.ws,
            &self.ready,
            &mut self.slots,
            &mut |i, slot, token, finish| {
                if let Some(token) = token {
                    report(Event::Token { request: slot.number, token, text: slot.fresh_text() });
                }
                if let Some(finish) = finish {
                    ended.push((i, finish));
                }
            },
        );
        // From the last to the first, so that the numbers of those still to go stay right.
        self.ended.sort_unstable_by_key(|(i, _)| *i);
        while let Some((i, finish)) = self.ended.pop() {
            self.end(i, finish, report);
        }
    }

    fn end(&mut self, i: usize, finish: Finish, report: &mut dyn FnMut(Event<'_>)) {
        let mut slot = self.slots.remove(i);
        self.free.give(slot.rows);
        let completion = slot.complete(finish);
        report(Event::Done { request: slot.number, text: slot.fresh_text(), completion });
    }
}

impl Engine<'_> {
    /// Runs requests to their ends, in batches; results in the order of the requests. What all prompts of a member begin
    /// with is computed once, where the cache has room for it.
    ///
    /// # Errors
    /// As [`Generator::submit`] and [`Generator::step`]; what was running is dropped.
    ///
    /// # Panics
    /// If the generator is not idle.
    pub fn generate<'m>(
        &self,
        members: &dyn Members,
        requests: Vec<Request>,
        generator: &mut Generator<'m>,
    ) -> Result<Vec<Completion>, ModelError> {
        let all = self.generate_until(members, requests, generator, &AtomicBool::new(false))?;
        // Nobody cancels.
        Ok(all.unwrap_or_default())
    }

    /// As [`Engine::generate`], until `cancel` is set: then `None`.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn generate_until<'m>(
        &self,
        members: &dyn Members,
        requests: Vec<Request>,
        generator: &mut Generator<'m>,
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Completion>>, ModelError> {
        assert!(generator.is_idle(), "generate: the generator has requests of its own");
        let first = generator.submitted;
        let mut results: Vec<Option<Completion>> = vec![None; requests.len()];
        generator.clear_prefixes();
        for (member, shared) in generator.worth_sharing(&requests) {
            generator.share_prefix(member, &shared)?;
        }
        let result = requests.into_iter().try_for_each(|r| generator.submit(r).map(drop)).and_then(|()| {
            let mut report = |event: Event<'_>| {
                if let Event::Done { request, completion, .. } = event {
                    results[request - first] = Some(completion);
                }
            };
            while !cancel.load(Ordering::Relaxed) && generator.step(self, members, &mut report)? {}
            Ok(())
        });
        generator.cancel();
        generator.clear_prefixes();
        result?;
        // Every request that was submitted ends, or the step that drops it is an error.
        Ok((!cancel.load(Ordering::Relaxed)).then(|| results.into_iter().flatten().collect()))
    }
}
