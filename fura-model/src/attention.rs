//! Attention of a pass's rows over the cache.

use crate::batch::Batch;
use crate::cache::{HeadCache, KvCache};
use crate::config::ModelConfig;
use crate::forward::Engine;
use crate::rope::Rope;
use crate::workspace::Row;
use fura_simd::attention::{Span, attend, attend_half, scratch_len};
use std::ops::Range;

/// Queries of one head's keys and values that attend together, about: they read them once.
const QUERIES: usize = 12;

/// Rows of a sequence that attend together.
fn rows_together(c: &ModelConfig) -> usize {
    (QUERIES * c.kv_heads / c.heads).max(1)
}

/// What attention needs for itself, once for each thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// For the attention weights of queries that share keys and values.
    scores: Vec<f32>,
    /// Such queries of several rows, and what they attend to.
    queries: Vec<f32>,
    attended: Vec<f32>,
    /// The cache rows that a token sees.
    seen: Vec<Span>,
    /// One head before its norm.
    head: Vec<f32>,
}

impl Scratch {
    pub(crate) fn new(c: &ModelConfig, positions: usize, sequences: usize) -> Self {
        let queries = rows_together(c) * c.heads / c.kv_heads;
        Self {
            scores: vec![0.0; scratch_len(queries, c.head_dim, positions)],
            queries: vec![0.0; queries * c.head_dim],
            attended: vec![0.0; queries * c.head_dim],
            seen: Vec::with_capacity(sequences + 1),
            head: vec![0.0; c.head_dim],
        }
    }

    /// Bytes that one takes.
    pub(crate) fn bytes(c: &ModelConfig, positions: usize, sequences: usize) -> usize {
        let queries = rows_together(c) * c.heads / c.kv_heads;
        let scores = positions.saturating_mul(queries).saturating_add(scratch_len(0, c.head_dim, 0));
        let numbers = scores.saturating_add((2 * queries + 1) * c.head_dim);
        numbers.saturating_mul(4).saturating_add((sequences + 1).saturating_mul(size_of::<Span>()))
    }
}

/// Attention of one layer.
pub(crate) struct Attention<'a> {
    pub(crate) engine: &'a Engine<'a>,
    pub(crate) batch: &'a Batch,
    pub(crate) layer: usize,
    pub(crate) cache: &'a KvCache,
    /// Rows before those of `cache`.
    pub(crate) earlier: Option<&'a KvCache>,
    pub(crate) rope: &'a Rope,
    pub(crate) query_norm: Option<&'a [f32]>,
}

impl Attention<'_> {
    fn config(&self) -> &ModelConfig {
        self.engine.model().config()
    }

    /// Positions before the first that a row sees.
    fn hidden(&self, row: Row) -> usize {
        (row.position + 1).saturating_sub(self.config().window(self.layer).unwrap_or(usize::MAX))
    }

    /// Norms and rotates the queries `q` of `rows` and attends with them.
    pub(crate) fn rows(&self, rows: &[Row], q: &mut [f32], out: &mut [f32], scratch: &mut Scratch) {
        let c = self.config();
        let (width, windowed) = (c.d_query(), c.window(self.layer).is_some());
        for (row, q) in rows.iter().zip(q.chunks_exact_mut(width)) {
            self.engine.head_norms(self.query_norm, q, &mut scratch.head);
            self.rope.rotate(q, row.position, self.layer, windowed);
        }
        // Rows of a sequence follow each other, and read the same keys and values of a head: one head after the other, some rows
        // together.
        let mut first = 0;
        for rows in rows.chunk_by(|a, b| a.sequence == b.sequence && a.position + 1 == b.position) {
            for kv_head in 0..c.kv_heads {
                let mut done = 0;
                while let Some(row) = rows.get(done) {
                    // A row that does not see the first ones any more differs from the next by more than one at the end.
                    let most = (done + rows_together(c)).min(rows.len());
                    let together = match self.hidden(rows[most - 1]) {
                        0 => done..most,
                        _ => done..done + 1,
                    };
                    let last = rows[together.end - 1];
                    see(self.batch, last, self.hidden(*row), &mut scratch.seen);
                    let first = first + done;
                    done = together.end;
                    self.head(kv_head, first..first + together.len(), q, out, scratch);
                }
            }
            first += rows.len();
        }
    }

    /// What the queries of a head's group attend to, of rows that each see one cached row more, the last one `scratch.seen`.
    fn head(&self, kv_head: usize, rows: Range<usize>, q: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        let c = self.config();
        let (d, group, width) = (c.head_dim, c.heads / c.kv_heads * c.head_dim, c.d_query());
        let at = |row: usize| row * width + kv_head * group..row * width + (kv_head + 1) * group;
        let Scratch { scores, queries, attended, seen, .. } = scratch;
        let cache = self.cache.head(self.layer, kv_head, self.earlier);
        let (isa, scale, cap) = (self.engine.isa(), c.attention_scale(), c.variant.attention_cap);
        let n = rows.len();
        let mut attend = |q: &[f32], out: &mut [f32]| match cache {
            HeadCache::Single(k, v) => attend(isa, q, n, d, k, v, seen, scale, cap, scores, out),
            HeadCache::Half(k, v) => attend_half(isa, q, n, d, k, v, seen, scale, cap, scores, out),
        };
        if n == 1 {
            return attend(&q[at(rows.start)], &mut out[at(rows.start)]);
        }
        let (queries, attended) = (&mut queries[..n * group], &mut attended[..n * group]);
        for (row, query) in rows.clone().zip(queries.chunks_exact_mut(group)) {
            query.copy_from_slice(&q[at(row)]);
        }
        attend(queries, attended);
        for (row, attended) in rows.zip(attended.chunks_exact(group)) {
            out[at(row)].copy_from_slice(attended);
        }
    }
}

/// The cache rows that a token sees, itself last: its sequence's, but for the first `hidden` ones.
fn see(batch: &Batch, row: Row, mut hidden: usize, seen: &mut Vec<Span>) {
    let s = &batch.sequences[row.sequence];
    let own = Span { first: s.store, len: row.position + 1 - s.past };
    seen.clear();
    for span in batch.spans[s.spans.clone()].iter().chain([&own]) {
        let skip = hidden.min(span.len);
        hidden -= skip;
        if skip < span.len {
            seen.push(Span { first: span.first + skip, len: span.len - skip });
        }
    }
}
