//! The forward pass of a batch, readable from top to bottom.
//!
//! Canonical (contract C1): every row's arithmetic is a function of its own sequence and member; nothing
//! depends on what else is in the batch, on how it was cut, or on threads.

use crate::attention::{Attention, Scratch};
use crate::batch::{BASE, Batch};
use crate::cache::KvCache;
use crate::config::Activation;
use crate::error::ModelError;
use crate::members::{Members, Transform};
use crate::model::Model;
use crate::shared::Shared;
use crate::workspace::{PIECE, Row, Run, TransformedInput, Workspace};
use fura_quant::{ActivationRows, PackedMatrix, ROW_BLOCK, TILE};
use fura_simd::elementwise::{add, geglu, rms_norm, swiglu};
use fura_simd::{Isa, block};
use rayon::prelude::*;
use std::ops::Range;

/// Which rows' final states are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The last row of each sequence.
    Last,
    /// Every row.
    All,
}

/// Whether a pass may use the threads of the current rayon pool. Results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Stay on this thread: right when workers forward different batches side by side.
    Serial,
    /// Split each matrix product over the pool the caller has entered.
    Pool,
}

/// How to run passes: instruction set and threads.
#[derive(Clone, Copy, Debug)]
pub struct Engine<'m> {
    model: &'m Model,
    isa: Isa,
    threads: Threads,
}

impl<'m> Engine<'m> {
    /// An engine on `model`.
    pub fn new(model: &'m Model, isa: Isa, threads: Threads) -> Self {
        Self { model, isa, threads }
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The instruction set kernels run on.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Forwards a batch: fills the cache rows of its tokens and leaves the normed final states of the wanted
    /// rows in the workspace, in order, for [`Engine::logits`] and [`Engine::logits_of`].
    ///
    /// # Errors
    /// A token outside the vocabulary, or a batch larger than the workspace or the cache.
    pub fn forward(
        &self,
        members: &dyn Members,
        batch: &Batch,
        wanted: Wanted,
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) -> Result<(), ModelError> {
        self.embed(batch, wanted, cache, ws)?;
        self.layers(members, batch, 0..self.model.config().layers, None, cache, ws);
        Ok(())
    }

    /// Forwards a batch of whole prompts as far as `shared` says and copies what the rest needs to `states`:
    /// [`Shared::width`] numbers for every row, or for the last row of each sequence where only those go on
    /// ([`Shared::is_last_attention`]).
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If nothing is left above `shared`, or `states` is not as long as those rows.
    pub fn states(
        &self,
        members: &dyn Members,
        batch: &Batch,
        shared: Shared,
        cache: &mut KvCache,
        ws: &mut Workspace,
        states: &mut [f32],
    ) -> Result<(), ModelError> {
        let c = self.model.config();
        assert!(shared.layers() < c.layers, "states: no layer is left");
        let wanted = if shared.is_last_attention(c) { Wanted::Last } else { Wanted::All };
        self.embed(batch, wanted, cache, ws)?;
        self.layers(members, batch, 0..shared.layers(), None, cache, ws);
        match shared {
            Shared::Layers(_) => states.copy_from_slice(&ws.x[..batch.rows() * c.d_model]),
            Shared::Attention(layer) => {
                self.attend(members, batch, layer, None, cache, ws);
                let n = ws.wanted.len();
                let rows = ws.x.chunks_exact(c.d_model).zip(ws.attended.chunks_exact(c.d_query()));
                assert_eq!(states.len(), n * shared.width(c), "states of {n} rows");
                for (state, (x, attended)) in states.chunks_exact_mut(shared.width(c)).zip(rows) {
                    let (to_x, to_attended) = state.split_at_mut(c.d_model);
                    to_x.copy_from_slice(x);
                    to_attended.copy_from_slice(attended);
                }
            }
        }
        Ok(())
    }

    /// Goes on from [`Engine::states`], with the same bits as one whole pass. Members that are alike in what is `shared`
    /// can have it computed once: a population that perturbs upper layers computes the lower ones once. The batch holds
    /// whole prompts (its sequences may continue each other), what follows the rows of `earlier`, or one row for each
    /// state where only last rows go on; its sequences say where their rows lie in `states`. Rows of `cache` are numbered
    /// after those of `earlier`.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If a sequence's rows lie outside `states`, a sequence is longer than the one row that goes on, its own rows of the
    /// cache lie among those of `earlier`, or `earlier` is of another precision.
    pub fn forward_from(
        &self,
        members: &dyn Members,
        batch: &Batch,
        shared: Shared,
        states: &[f32],
        wanted: Wanted,
        earlier: Option<&KvCache>,
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) -> Result<(), ModelError> {
        let c = self.model.config();
        place_rows(batch, wanted, rows_of(earlier) + cache.rows(), ws)?;
        let before = rows_of(earlier);
        assert!(batch.sequences.iter().all(|s| s.store >= before), "own rows come after the earlier ones");
        assert!(!shared.is_last_attention(c) || batch.rows() == batch.sequences(), "one row for each state");
        let (d, width) = (c.d_model, shared.width(c));
        for s in &batch.sequences {
            let states = states[s.state * width..].chunks_exact(width);
            assert!(states.len() >= s.len, "a sequence's states");
            for (row, state) in (s.start..s.start + s.len).zip(states) {
                let (x, attended) = state.split_at(d);
                ws.x[row * d..][..d].copy_from_slice(x);
                ws.attended[row * c.d_query()..][..attended.len()].copy_from_slice(attended);
            }
        }
        let mut next = shared.layers();
        if let Shared::Attention(layer) = shared {
            self.after_attention(members, layer, ws);
            next = layer + 1;
        }
        self.layers(members, batch, next..c.layers, earlier, cache, ws);
        Ok(())
    }

    /// Places a batch's rows and begins the residual stream with their embeddings.
    fn embed(
        &self,
        batch: &Batch,
        wanted: Wanted,
        cache: &KvCache,
        ws: &mut Workspace,
    ) -> Result<(), ModelError> {
        let c = self.model.config();
        batch.check(c.vocab)?;
        place_rows(batch, wanted, cache.rows(), ws)?;
        let embedding = self.model.embedding();
        for (row, token) in ws.x.chunks_exact_mut(c.d_model).zip(&batch.tokens) {
            embedding.decode_row(*token as usize, row);
            if let Some(scale) = c.variant.embedding_scale {
                row.iter_mut().for_each(|x| *x *= scale);
            }
        }
        Ok(())
    }

    /// Runs layers on the residual stream; after the last one, the wanted rows are normed.
    fn layers(
        &self,
        members: &dyn Members,
        batch: &Batch,
        range: Range<usize>,
        earlier: Option<&KvCache>,
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) {
        let end = range.end;
        for layer in range {
            self.attend(members, batch, layer, earlier, cache, ws);
            self.after_attention(members, layer, ws);
        }
        let c = self.model.config();
        if end == c.layers {
            let n = ws.wanted.len();
            self.norm(self.model.output_norm(), &ws.x[..n * c.d_model], &mut ws.h);
        }
    }

    /// The first part of a layer: keys and values of all rows, and what the rows that go on attend to. In the last layer
    /// those are the wanted rows, whose residual stream then comes first.
    fn attend(
        &self,
        members: &dyn Members,
        batch: &Batch,
        layer: usize,
        earlier: Option<&KvCache>,
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) {
        let c = self.model.config();
        let d = c.d_model;
        let n = ws.all.len();
        let before = rows_of(earlier);
        let windowed = c.window(layer).is_some();
        let [query_norm, key_norm] = match self.model.head_norms(layer) {
            Some([query, key]) => [Some(query), Some(key)],
            None => [None, None],
        };
        self.norm(self.model.attention_norm(layer), &ws.x[..n * d], &mut ws.h);
        self.linear(members, layer, 1, &ws.all_runs, &ws.h[..n * d], &mut ws.input, &mut ws.k);
        self.linear(members, layer, 2, &ws.all_runs, &ws.h[..n * d], &mut ws.input, &mut ws.v);
        for (i, row) in ws.all.iter().enumerate() {
            let at = i * c.d_kv()..(i + 1) * c.d_kv();
            let k = &mut ws.k[at.clone()];
            self.head_norms(key_norm, k, &mut ws.head);
            ws.rope.rotate(k, row.position, layer, windowed);
            cache.store(self.isa, layer, row.store - before, k, &ws.v[at]);
        }
        // After the last layer's keys and values, only the wanted rows matter.
        let last = layer + 1 == c.layers;
        if last {
            for (to, from) in ws.wanted_index.iter().enumerate() {
                ws.x.copy_within(from * d..(from + 1) * d, to * d);
                ws.h.copy_within(from * d..(from + 1) * d, to * d);
            }
        }
        let (rows, runs) = if last { (&ws.wanted, &ws.wanted_runs) } else { (&ws.all, &ws.all_runs) };
        let n = rows.len();
        if n == 0 {
            return;
        }
        self.linear(members, layer, 0, runs, &ws.h[..n * d], &mut ws.input, &mut ws.q);
        let d_query = c.d_query();
        let attention = Attention {
            engine: self,
            batch,
            layer,
            plane: cache.layer(layer, earlier),
            rope: &ws.rope,
            query_norm,
        };
        let plan = ws.plan;
        attention.run(
            rows,
            &mut ws.q[..n * d_query],
            &mut ws.attended[..n * d_query],
            self.threads(),
            &mut ws.attention,
            || Scratch::new(c, plan.positions, plan.sequences),
        );
    }

    /// The rest of a layer for the rows that go on: the output projection of attention and the MLP, each added to the
    /// residual stream.
    fn after_attention(&self, members: &dyn Members, layer: usize, ws: &mut Workspace) {
        let c = self.model.config();
        let d = c.d_model;
        let [attention_post, mlp_post] = match self.model.post_norms(layer) {
            Some([attention, mlp]) => [Some(attention), Some(mlp)],
            None => [None, None],
        };
        let last = layer + 1 == c.layers;
        let (n, runs) = if last { (ws.wanted.len(), &ws.wanted_runs) } else { (ws.all.len(), &ws.all_runs) };
        if n == 0 {
            return;
        }
        self.linear(members, layer, 3, runs, &ws.attended[..n * c.d_query()], &mut ws.input, &mut ws.h);
        self.add_output(attention_post, &mut ws.x[..n * d], &ws.h[..n * d], &mut ws.head_rows[..d]);
        self.norm(self.model.mlp_norm(layer), &ws.x[..n * d], &mut ws.h);
        self.linear(members, layer, 4, runs, &ws.h[..n * d], &mut ws.input, &mut ws.gate);
        self.linear(members, layer, 5, runs, &ws.h[..n * d], &mut ws.input, &mut ws.up);
        let gated = match c.variant.activation {
            Activation::Silu => swiglu,
            Activation::GeluTanh => geglu,
        };
        gated(self.isa, &mut ws.gate[..n * c.d_ff], &ws.up[..n * c.d_ff]);
        self.linear(members, layer, 6, runs, &ws.gate[..n * c.d_ff], &mut ws.input, &mut ws.h);
        self.add_output(mlp_post, &mut ws.x[..n * d], &ws.h[..n * d], &mut ws.head_rows[..d]);
    }

    pub(crate) fn threads(&self) -> usize {
        match self.threads {
            Threads::Serial => 1,
            Threads::Pool => rayon::current_num_threads(),
        }
    }

    fn norm(&self, weight: &[f32], x: &[f32], h: &mut [f32]) {
        let (d, eps) = (weight.len(), self.model.config().norm_eps);
        for (x, h) in x.chunks_exact(d).zip(h.chunks_exact_mut(d)) {
            rms_norm(x, weight, eps, h);
        }
    }

    /// Norms every head of a row in place, if the model does.
    pub(crate) fn head_norms(&self, weight: Option<&[f32]>, row: &mut [f32], head: &mut [f32]) {
        let Some(weight) = weight else { return };
        for x in row.chunks_exact_mut(weight.len()) {
            head.copy_from_slice(x);
            rms_norm(head, weight, self.model.config().norm_eps, x);
        }
    }

    /// Adds what attention or the MLP gave to the residual stream, after its norm if there is one.
    fn add_output(&self, post_norm: Option<&[f32]>, x: &mut [f32], y: &[f32], normed: &mut [f32]) {
        let Some(weight) = post_norm else { return add(x, y) };
        let d = weight.len();
        for (x, y) in x.chunks_exact_mut(d).zip(y.chunks_exact(d)) {
            rms_norm(y, weight, self.model.config().norm_eps, normed);
            add(x, normed);
        }
    }

    /// `out = W T x + bias` for linear `k` of a layer, each run of rows with its member's transform.
    fn linear(
        &self,
        members: &dyn Members,
        layer: usize,
        k: usize,
        runs: &[Run],
        x: &[f32],
        input: &mut TransformedInput,
        out: &mut [f32],
    ) {
        let linear = self.model.linear_index(layer, k);
        let w = self.model.linear(linear);
        let d_in = w.d_in();
        let block = self.model.layout().block();
        let basis = self.model.basis(linear);
        let n = x.len() / d_in;
        input.codes.begin(n, d_in);
        // Rows whose codes are there; after the first transform the others pass through `input.rows`.
        let (mut done, mut changed) = (0, false);
        for run in runs {
            let coordinates = &mut input.coordinates[..d_in];
            let transform = match run.member {
                BASE => Transform::Identity,
                member => members.transform(member, linear, coordinates),
            };
            let t = match transform {
                Transform::Identity => None,
                Transform::Coordinates => {
                    let t = &mut input.transform[..basis.len()];
                    block::materialize(self.isa, basis, coordinates, block, t);
                    Some(&*t)
                }
                Transform::Materialized(t) => Some(t),
            };
            if !changed && t.is_some() {
                // Earlier runs, if any, were identities: their rows are used as they are.
                changed = true;
                done = run.start / ROW_BLOCK * ROW_BLOCK;
                input.codes.quantize_from(self.isa, 0, &x[..done * d_in]);
                let rest = &x[done * d_in..run.start * d_in];
                input.rows[..rest.len()].copy_from_slice(rest);
            }
            let mut at = run.start;
            while changed && at < run.end {
                let end = run.end.min(done + PIECE);
                let (from, to) = (at * d_in..end * d_in, (at - done) * d_in..(end - done) * d_in);
                match t {
                    Some(t) => block::apply(self.isa, t, block, d_in, &x[from], &mut input.rows[to]),
                    None => input.rows[to].copy_from_slice(&x[from]),
                }
                at = end;
                if at == done + PIECE || at == n {
                    input.codes.quantize_from(self.isa, done, &input.rows[..(at - done) * d_in]);
                    done = at;
                }
            }
        }
        if !changed {
            input.codes.quantize_from(self.isa, 0, x);
        }
        let out = &mut out[..n * w.d_out()];
        self.multiply(&w, input.codes.view(), out);
        if let Some(bias) = self.model.bias(layer, k) {
            out.chunks_exact_mut(bias.len()).for_each(|row| add(row, bias));
        }
    }

    /// A matrix product, split over rows if there are several, else over tiles.
    fn multiply(&self, w: &PackedMatrix<'_>, x: ActivationRows<'_>, out: &mut [f32]) {
        let threads = self.threads();
        let (isa, tiles) = (self.isa, w.tiles());
        if threads == 1 {
            w.multiply(isa, x, 0..tiles, out, w.d_out());
        } else if x.rows() == 1 {
            let share = tiles.div_ceil(threads);
            out.par_chunks_mut(share * TILE).enumerate().for_each(|(i, out)| {
                let width = out.len();
                w.multiply(isa, x, i * share..((i + 1) * share).min(tiles), out, width);
            });
        } else {
            let share = x.rows().div_ceil(threads).next_multiple_of(ROW_BLOCK);
            out.par_chunks_mut(share * w.d_out()).enumerate().for_each(|(i, out)| {
                let rows = out.len() / w.d_out();
                w.multiply(isa, x.slice(i * share, rows), 0..tiles, out, w.d_out());
            });
        }
    }
}

fn rows_of(earlier: Option<&KvCache>) -> usize {
    earlier.map_or(0, KvCache::rows)
}

/// Lists all rows and the wanted ones with their runs, checking every capacity.
fn place_rows(
    batch: &Batch,
    wanted: Wanted,
    cache_rows: usize,
    ws: &mut Workspace,
) -> Result<(), ModelError> {
    let capacity = |what, asked, planned| {
        if asked <= planned { Ok(()) } else { Err(ModelError::Capacity { what, asked, planned }) }
    };
    capacity("rows of a batch", batch.rows(), ws.plan.rows)?;
    capacity("sequences of a batch", batch.sequences(), ws.plan.sequences)?;
    ws.all.clear();
    ws.all_runs.clear();
    ws.wanted.clear();
    ws.wanted_runs.clear();
    ws.wanted_index.clear();
    for (sequence, s) in batch.sequences.iter().enumerate() {
        capacity("positions of a sequence", s.past + s.len, ws.rope.positions())?;
        capacity("rows of the cache", s.store + s.len, cache_rows)?;
        for span in &batch.spans[s.spans.clone()] {
            capacity("rows of the cache", span.first + span.len, cache_rows)?;
        }
        capacity("spans of a sequence", s.spans.len(), ws.plan.sequences)?;
        let first = match wanted {
            Wanted::All => 0,
            Wanted::Last if !s.goes_on => s.len,
            Wanted::Last => s.len.saturating_sub(1),
        };
        extend(&mut ws.all_runs, s.member, ws.all.len(), s.len);
        if first < s.len {
            extend(&mut ws.wanted_runs, s.member, ws.wanted.len(), s.len - first);
        }
        for i in 0..s.len {
            let row = Row { position: s.past + i, store: s.store + i, sequence };
            if i >= first {
                ws.wanted.push(row);
                ws.wanted_index.push(ws.all.len());
            }
            ws.all.push(row);
        }
    }
    Ok(())
}

fn extend(runs: &mut Vec<Run>, member: u32, start: usize, len: usize) {
    match runs.last_mut() {
        Some(run) if run.member == member => run.end += len,
        _ => runs.push(Run { member, start, end: start + len }),
    }
}
