//! Attention of a pass's rows over the cache.

use crate::batch::Batch;
use crate::cache::{HeadCache, KvCache};
use crate::config::ModelConfig;
use crate::forward::Engine;
use crate::rope::Rope;
use crate::workspace::Row;
use fura_simd::attention::{Span, attend, attend_half, scratch_len};

/// What attention needs for itself, once for each thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// For the attention weights of the heads that share keys and values.
    scores: Vec<f32>,
    /// The cache rows that a token sees.
    seen: Vec<Span>,
    /// One head before its norm.
    head: Vec<f32>,
}

impl Scratch {
    pub(crate) fn new(c: &ModelConfig, positions: usize, sequences: usize) -> Self {
        Self {
            scores: vec![0.0; scratch_len(c.heads / c.kv_heads, c.head_dim, positions)],
            seen: Vec::with_capacity(sequences + 1),
            head: vec![0.0; c.head_dim],
        }
    }

    /// Bytes that one takes.
    pub(crate) fn bytes(c: &ModelConfig, positions: usize, sequences: usize) -> usize {
        let scores =
            positions.saturating_mul(c.heads / c.kv_heads).saturating_add(scratch_len(0, c.head_dim, 0));
        let numbers = scores.saturating_add(c.head_dim);
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
        // Rows of a sequence follow each other, and read the same keys and values of a head: one head after the other.
        let (d, scale, cap) = (c.head_dim, c.attention_scale(), c.variant.attention_cap);
        let (isa, group) = (self.engine.isa(), c.heads / c.kv_heads * c.head_dim);
        let mut first = 0;
        for rows in rows.chunk_by(|a, b| a.sequence == b.sequence) {
            for kv_head in 0..c.kv_heads {
                let cache = self.cache.head(self.layer, kv_head, self.earlier);
                for (i, row) in (first..).zip(rows) {
                    let hidden = self.hidden(*row);
                    see(self.batch, *row, hidden, &mut scratch.seen);
                    let at = i * width + kv_head * group..i * width + (kv_head + 1) * group;
                    let (q, out) = (&q[at.clone()], &mut out[at]);
                    let (seen, scores) = (&scratch.seen, &mut scratch.scores);
                    match cache {
                        HeadCache::Single(k, v) => attend(isa, q, d, k, v, seen, scale, cap, scores, out),
                        HeadCache::Half(k, v) => attend_half(isa, q, d, k, v, seen, scale, cap, scores, out),
                    }
                }
            }
            first += rows.len();
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
