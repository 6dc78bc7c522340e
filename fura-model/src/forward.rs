//! The forward pass of a batch, readable from top to bottom.
//!
//! Canonical (contract C1): every row's arithmetic is a function of its own sequence and member; nothing
//! depends on what else is in the batch, on how it was cut, or on threads.

use crate::attention::{Attention, Scratch};
use crate::batch::Batch;
use crate::cache::KvCache;
use crate::config::Activation;
use crate::error::ModelError;
use crate::members::{Members, Transform};
use crate::model::Model;
use crate::workspace::{Row, Run, TransformedInput, Workspace};
use fura_quant::{ActivationRows, GROUP, PackedMatrix, ROW_BLOCK, TILE};
use fura_simd::elementwise::{add, geglu, rms_norm, soft_cap, swiglu};
use fura_simd::{Isa, block};
use rayon::prelude::*;
use std::ops::Range;

/// Rows of the head that are computed together.
pub(crate) const HEAD_ROWS: usize = 12;

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
        self.layers(members, batch, 0..self.model.config().layers, cache, ws);
        Ok(())
    }

    /// Forwards a batch of whole prompts through the first `layers` layers only and copies the residual stream of
    /// every row to `states` (`rows x d_model`).
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If there are not more than `layers` layers, or `states` is not as long as the rows.
    pub fn states(
        &self,
        members: &dyn Members,
        batch: &Batch,
        layers: usize,
        cache: &mut KvCache,
        ws: &mut Workspace,
        states: &mut [f32],
    ) -> Result<(), ModelError> {
        assert!(layers < self.model.config().layers, "states: no layer is left");
        self.embed(batch, Wanted::All, cache, ws)?;
        self.layers(members, batch, 0..layers, cache, ws);
        states.copy_from_slice(&ws.x[..batch.rows() * self.model.config().d_model]);
        Ok(())
    }

    /// Goes on from [`Engine::states`] after `layers` layers, with the same bits as one whole pass. Members that
    /// are the base in those layers can share them: a population trained in the upper layers computes the
    /// lower ones once. The batch holds whole prompts (nothing in the cache before them, but its sequences may continue
    /// each other); its sequences say where their rows lie in `states`.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If a sequence's rows lie outside `states`.
    pub fn forward_from(
        &self,
        members: &dyn Members,
        batch: &Batch,
        layers: usize,
        states: &[f32],
        wanted: Wanted,
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) -> Result<(), ModelError> {
        place_rows(batch, wanted, cache, ws)?;
        let d = self.model.config().d_model;
        for s in &batch.sequences {
            let (to, from) = (s.start * d, s.state * d);
            ws.x[to..to + s.len * d].copy_from_slice(&states[from..from + s.len * d]);
        }
        self.layers(members, batch, layers..self.model.config().layers, cache, ws);
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
        place_rows(batch, wanted, cache, ws)?;
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
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) {
        let c = self.model.config();
        let d = c.d_model;
        let n = ws.all.len();
        let end = range.end == c.layers;
        for layer in range {
            let last = layer + 1 == c.layers;
            let windowed = c.window(layer).is_some();
            let [query_norm, key_norm] = match self.model.head_norms(layer) {
                Some([query, key]) => [Some(query), Some(key)],
                None => [None, None],
            };
            let [attention_post, mlp_post] = match self.model.post_norms(layer) {
                Some([attention, mlp]) => [Some(attention), Some(mlp)],
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
                cache.store(self.isa, layer, row.store, k, &ws.v[at]);
            }
            // After the last layer's keys and values, only the wanted rows matter.
            if last {
                for (to, from) in ws.wanted_index.iter().enumerate() {
                    ws.x.copy_within(from * d..(from + 1) * d, to * d);
                    ws.h.copy_within(from * d..(from + 1) * d, to * d);
                }
            }
            let (rows, runs) = if last { (&ws.wanted, &ws.wanted_runs) } else { (&ws.all, &ws.all_runs) };
            let n = rows.len();
            self.linear(members, layer, 0, runs, &ws.h[..n * d], &mut ws.input, &mut ws.q);
            let d_query = c.d_query();
            let attention = Attention {
                engine: self,
                batch,
                layer,
                plane: cache.layer(layer),
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
            self.linear(members, layer, 3, runs, &ws.attended[..n * d_query], &mut ws.input, &mut ws.h);
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
        if end {
            let n = ws.wanted.len();
            self.norm(self.model.output_norm(), &ws.x[..n * d], &mut ws.h);
        }
    }

    /// Logits over the vocabulary of wanted row `row` of the last pass.
    ///
    /// # Panics
    /// If there is no such row or `out` is not as long as the vocabulary.
    pub fn logits(&self, ws: &mut Workspace, row: usize, out: &mut [f32]) {
        self.logits_of_rows(ws, &[row], out);
    }

    /// Logits over the vocabulary of several wanted rows, one row of `out` after the other: the bits of
    /// [`Engine::logits`], the head's weights being read once for up to 12 rows.
    ///
    /// # Panics
    /// If there is no such row or `out` is not as long as all of their vocabularies.
    pub fn logits_of_rows(&self, ws: &mut Workspace, rows: &[usize], out: &mut [f32]) {
        let head = self.model.head();
        let (vocab, threads) = (head.d_out(), self.threads());
        assert_eq!(out.len(), rows.len() * vocab, "one logit for each token of the vocabulary and each row");
        for (rows, out) in rows.chunks(HEAD_ROWS).zip(out.chunks_mut(HEAD_ROWS * vocab)) {
            self.quantize_twice(ws, rows);
            let x = ws.input.codes.view();
            if threads == 1 {
                self.head_tiles(&head, x, out);
            } else if rows.len() == 1 {
                let share = head.tiles().div_ceil(threads);
                out.par_chunks_mut(share * TILE).enumerate().for_each(|(i, out)| {
                    for (tile, out) in (i * share..).zip(out.chunks_mut(TILE)) {
                        self.head_tile(&head, x, tile, out);
                    }
                });
            } else {
                // A row is two of codes, and a cut lies between blocks of those.
                let share = rows.len().div_ceil(threads).next_multiple_of(ROW_BLOCK.div_ceil(2));
                out.par_chunks_mut(share * vocab).enumerate().for_each(|(i, out)| {
                    let n = out.len() / vocab;
                    self.head_tiles(&head, x.slice(2 * i * share, 2 * n), out);
                });
            }
        }
        self.cap_logits(out);
    }

    /// Logits of some tokens only, for wanted row `row`: the same bits as [`Engine::logits`] gives them.
    ///
    /// # Panics
    /// If there is no such row, a token is outside the vocabulary, or the lengths differ.
    pub fn logits_of(&self, ws: &mut Workspace, row: usize, tokens: &[u32], out: &mut [f32]) {
        assert_eq!(tokens.len(), out.len(), "one logit for each token");
        let head = self.model.head();
        self.quantize_twice(ws, &[row]);
        for (token, out) in tokens.iter().zip(out.iter_mut()) {
            let tile = *token as usize / TILE;
            let mut lanes = [0.0; TILE];
            let width = TILE.min(head.d_out() - tile * TILE);
            self.head_tile(&head, ws.input.codes.view(), tile, &mut lanes[..width]);
            *out = lanes[*token as usize % TILE];
        }
        self.cap_logits(out);
    }

    fn cap_logits(&self, logits: &mut [f32]) {
        if let Some(cap) = self.model.config().variant.logit_cap {
            soft_cap(self.isa, logits, cap);
        }
    }

    /// Codes of the final states of wanted rows, and after each row's those of what its codes leave over. The head is the
    /// one place where an activation's rounding reaches the logits unaveraged; a second int8 row costs decoding little,
    /// since reading the head's weights dominates, and takes a sixth off the divergence from exact activations.
    fn quantize_twice(&self, ws: &mut Workspace, rows: &[usize]) {
        let d = self.model.config().d_model;
        let pairs = &mut ws.head_rows[..2 * rows.len() * d];
        for (row, pair) in rows.iter().zip(pairs.chunks_exact_mut(2 * d)) {
            assert!(*row < ws.wanted.len(), "no such row in the last pass");
            let (h, rest) = pair.split_at_mut(d);
            h.copy_from_slice(&ws.h[row * d..(row + 1) * d]);
            ws.input.codes.quantize(self.isa, h, d);
            for (g, (h, rest)) in h.chunks_exact(GROUP).zip(rest.chunks_exact_mut(GROUP)).enumerate() {
                let group = ws.input.codes.view().group(0, g);
                for ((rest, h), code) in rest.iter_mut().zip(h).zip(&group.codes) {
                    *rest = h - group.scale * f32::from(*code);
                }
            }
        }
        ws.input.codes.quantize(self.isa, pairs, d);
    }

    /// Logits of all tiles for each pair of rows of codes.
    fn head_tiles(&self, head: &PackedMatrix<'_>, x: ActivationRows<'_>, out: &mut [f32]) {
        let vocab = head.d_out();
        let n = out.len() / vocab;
        let mut lanes = [0.0; 2 * HEAD_ROWS * TILE];
        for tile in 0..head.tiles() {
            head.multiply(self.isa, x, tile..tile + 1, &mut lanes[..2 * n * TILE], TILE);
            let width = TILE.min(vocab - tile * TILE);
            for (out, lanes) in out.chunks_exact_mut(vocab).zip(lanes.chunks_exact(2 * TILE)) {
                for (i, out) in out[tile * TILE..][..width].iter_mut().enumerate() {
                    *out = lanes[i] + lanes[TILE + i];
                }
            }
        }
    }

    /// Logits of one tile and one row: those of the codes plus those of the rest.
    fn head_tile(&self, head: &PackedMatrix<'_>, x: ActivationRows<'_>, tile: usize, out: &mut [f32]) {
        let mut lanes = [0.0; 2 * TILE];
        head.multiply(self.isa, x, tile..tile + 1, &mut lanes, TILE);
        for (i, out) in out.iter_mut().enumerate() {
            *out = lanes[i] + lanes[TILE + i];
        }
    }

    fn threads(&self) -> usize {
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
        let mut changed = false;
        for run in runs {
            let rows = run.start * d_in..run.end * d_in;
            let coordinates = &mut input.coordinates[..d_in];
            let t = match members.transform(run.member, linear, coordinates) {
                Transform::Identity => None,
                Transform::Coordinates => {
                    let t = &mut input.transform[..basis.len()];
                    block::materialize(self.isa, basis, coordinates, block, t);
                    Some(&*t)
                }
                Transform::Materialized(t) => Some(t),
            };
            match t {
                Some(t) => {
                    if !changed {
                        // Earlier runs, if any, were identities: their rows are used as they are.
                        input.rows[..rows.start].copy_from_slice(&x[..rows.start]);
                        changed = true;
                    }
                    block::apply(self.isa, t, block, d_in, &x[rows.clone()], &mut input.rows[rows]);
                }
                None if changed => input.rows[rows.clone()].copy_from_slice(&x[rows]),
                None => {}
            }
        }
        let rows = if changed { &input.rows[..x.len()] } else { x };
        input.codes.quantize(self.isa, rows, d_in);
        let n = x.len() / d_in;
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

/// Lists all rows and the wanted ones with their runs, checking every capacity.
fn place_rows(batch: &Batch, wanted: Wanted, cache: &KvCache, ws: &mut Workspace) -> Result<(), ModelError> {
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
        capacity("rows of the cache", s.store + s.len, cache.rows())?;
        for span in &batch.spans[s.spans.clone()] {
            capacity("rows of the cache", span.first + span.len, cache.rows())?;
        }
        capacity("spans of a sequence", s.spans.len(), ws.plan.sequences)?;
        let first = match wanted {
            Wanted::All => 0,
            Wanted::Last => s.len.saturating_sub(1),
        };
        extend(&mut ws.all_runs, s.member, ws.all.len(), s.len);
        extend(&mut ws.wanted_runs, s.member, ws.wanted.len(), s.len - first);
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
