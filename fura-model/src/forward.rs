//! The forward pass of a batch, readable from top to bottom.
//!
//! Canonical (contract C1): every row's arithmetic is a function of its own sequence and member; nothing
//! depends on what else is in the batch, on how it was cut, or on threads.

use crate::attention::Attention;
use crate::awake::keep_awake;
use crate::batch::Batch;
use crate::cache::KvCache;
use crate::error::ModelError;
use crate::layer::Layer;
use crate::members::Members;
use crate::model::Model;
use crate::placement::place_rows;
use crate::shared::Shared;
use crate::workspace::Workspace;
use fura_simd::Isa;
use fura_simd::elementwise::rms_norm;
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
    /// Split a pass's rows over the pool the caller has entered, or the products of a single row.
    Pool,
}

/// Rows of a pass up to which its threads stay awake: it takes so little time then that waking them would be much of it.
const AWAKE_ROWS: usize = 8;

/// How far a layer is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Until the rows that go on have attended.
    Attention,
    Whole,
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
                self.layer(members, batch, layer, Extent::Attention, None, cache, ws);
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
        ws.need_lanes(self.model, self.threads());
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
            let last = layer + 1 == c.layers;
            let (part, runs, rope) = ws.part(c, last, self.threads());
            let rest = Layer { engine: self, members, layer, runs, rope };
            part.run(c, &|_| 1, &|mut part| rest.after_attention(&mut part));
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
        ws.need_lanes(self.model, self.threads());
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
        let others = if batch.rows() <= AWAKE_ROWS { self.threads() - 1 } else { 0 };
        keep_awake(others, &mut || {
            for layer in range.clone() {
                self.layer(members, batch, layer, Extent::Whole, earlier, cache, ws);
            }
        });
        let c = self.model.config();
        if end == c.layers {
            let n = ws.wanted.len();
            let norm = self.model.output_norm();
            for (x, h) in ws.x.chunks_exact(c.d_model).zip(ws.h.chunks_exact_mut(c.d_model)).take(n) {
                rms_norm(x, norm, c.norm_eps, h);
            }
        }
    }

    /// A layer: keys and values of all rows, what the rows that go on attend to, and the rest. In the last layer those are
    /// the wanted rows, whose residual stream then comes first.
    fn layer(
        &self,
        members: &dyn Members,
        batch: &Batch,
        layer: usize,
        extent: Extent,
        earlier: Option<&KvCache>,
        cache: &mut KvCache,
        ws: &mut Workspace,
    ) {
        let c = self.model.config();
        let (d, threads) = (c.d_model, self.threads());
        let before = rows_of(earlier);
        let (part, runs, rope) = ws.part(c, false, threads);
        let all = Layer { engine: self, members, layer, runs, rope };
        let queries = part.linear_rows().threads > 1;
        part.run(c, &|_| 1, &|part| all.keys_and_values(part));
        let kv = ws.k.chunks_exact(c.d_kv()).zip(ws.v.chunks_exact(c.d_kv()));
        for (row, (k, v)) in ws.all.iter().zip(kv) {
            cache.store(self.isa, layer, row.store - before, k, v);
        }
        // After the last layer's keys and values, only the wanted rows matter.
        let last = layer + 1 == c.layers;
        if last {
            for (to, from) in ws.wanted_index.iter().enumerate() {
                ws.x.copy_within(from * d..(from + 1) * d, to * d);
                ws.h.copy_within(from * d..(from + 1) * d, to * d);
            }
        }
        let (part, runs, rope) = ws.part(c, last, threads);
        if part.rows.is_empty() {
            return;
        }
        let going_on = Layer { engine: self, members, layer, runs, rope };
        let attention = Attention {
            engine: self,
            batch,
            layer,
            cache: &*cache,
            earlier,
            rope,
            query_norm: self.model.head_norms(layer).map(|[query, _]| query),
        };
        part.run(c, &|row| going_on.cost(row), &|mut part| {
            going_on.attend(&attention, &mut part, queries);
            if extent == Extent::Whole {
                going_on.after_attention(&mut part);
            }
        });
    }

    pub(crate) fn threads(&self) -> usize {
        match self.threads {
            Threads::Serial => 1,
            Threads::Pool => rayon::current_num_threads(),
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
}

fn rows_of(earlier: Option<&KvCache>) -> usize {
    earlier.map_or(0, KvCache::rows)
}
