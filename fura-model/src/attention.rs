//! Attention of a pass's rows over the cache.

use crate::batch::Batch;
use crate::cache::Plane;
use crate::config::ModelConfig;
use crate::forward::Engine;
use crate::rope::Rope;
use crate::workspace::Row;
use fura_simd::attention::{
    HeadRows, Span, attend, attend_half, attend_transposed, attend_transposed_half, transpose_keys,
    transpose_keys_half, transposed_len, transposed_scores,
};

/// Queries that see the same keys, from which on transposing these pays.
const TRANSPOSED: usize = 12;
/// What attention needs for itself, once for each thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Attention weights of one head.
    scores: Vec<f32>,
    /// The cache rows that a token sees, and those that one of several sees.
    seen: Vec<Span>,
    history: Vec<Span>,
    /// Keys of one head, transposed.
    keys: Vec<f32>,
    /// One head before its norm.
    head: Vec<f32>,
}

impl Scratch {
    pub(crate) fn new(c: &ModelConfig, positions: usize, sequences: usize) -> Self {
        Self {
            scores: vec![0.0; transposed_scores(positions)],
            seen: Vec::with_capacity(sequences + 1),
            history: Vec::with_capacity(sequences + 1),
            keys: vec![0.0; transposed_len(positions, c.head_dim)],
            head: vec![0.0; c.head_dim],
        }
    }

    /// Bytes that one takes.
    pub(crate) fn bytes(c: &ModelConfig, positions: usize, sequences: usize) -> usize {
        let numbers = transposed_scores(positions)
            .saturating_add(transposed_len(positions, c.head_dim))
            .saturating_add(c.head_dim);
        let spans = (sequences + 1).saturating_mul(2 * size_of::<Span>());
        numbers.saturating_mul(4).saturating_add(spans)
    }
}

/// Attention of one layer.
pub(crate) struct Attention<'a> {
    pub(crate) engine: &'a Engine<'a>,
    pub(crate) batch: &'a Batch,
    pub(crate) layer: usize,
    pub(crate) plane: Plane<'a>,
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
        // Rows of a sequence follow each other, in order of their positions.
        let mut first = 0;
        for rows in rows.chunk_by(|a, b| a.sequence == b.sequence) {
            let at = first * width..(first + rows.len()) * width;
            let (q, out) = (&q[at.clone()], &mut out[at]);
            if rows.len() * (c.heads / c.kv_heads) >= TRANSPOSED {
                self.together(rows, q, out, scratch);
            } else {
                for (i, row) in rows.iter().enumerate() {
                    let at = i * width..(i + 1) * width;
                    self.alone(*row, &q[at.clone()], &mut out[at], scratch);
                }
            }
            first += rows.len();
        }
    }

    /// All heads of one token.
    fn alone(&self, row: Row, q: &[f32], out: &mut [f32], s: &mut Scratch) {
        let (c, isa) = (self.config(), self.engine.isa());
        let (d, scale, cap) = (c.head_dim, c.attention_scale(), c.variant.attention_cap);
        let n = see(self.batch, row, self.hidden(row), &mut s.seen);
        for (head, (q, out)) in q.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
            let rows = self.head_rows(head / (c.heads / c.kv_heads));
            let (seen, scores) = (&s.seen, &mut s.scores[..n]);
            match self.plane {
                Plane::Single(k, v) => attend(isa, q, k, v, rows, seen, scale, cap, scores, out),
                Plane::Half(k, v) => attend_half(isa, q, k, v, rows, seen, scale, cap, scores, out),
            }
        }
    }

    /// All heads of several tokens of one sequence: the same bits, the keys of each head being transposed once.
    fn together(&self, rows: &[Row], q: &[f32], out: &mut [f32], s: &mut Scratch) {
        let (c, isa) = (self.config(), self.engine.isa());
        let (d, scale, cap) = (c.head_dim, c.attention_scale(), c.variant.attention_cap);
        let (width, group) = (c.d_query(), c.heads / c.kv_heads);
        let ([first, ..], [.., last]) = (rows, rows) else { return };
        let before = self.hidden(*first);
        let n = see(self.batch, *last, before, &mut s.history);
        for kv_head in 0..c.kv_heads {
            let places = self.head_rows(kv_head);
            let keys = &mut s.keys[..transposed_len(n, d)];
            match self.plane {
                Plane::Single(k, _) => transpose_keys(isa, k, d, places, &s.history, keys),
                Plane::Half(k, _) => transpose_keys_half(isa, k, d, places, &s.history, keys),
            }
            for (i, row) in rows.iter().enumerate() {
                let hidden = self.hidden(*row);
                see(self.batch, *row, hidden, &mut s.seen);
                let (skip, seen, scores) = (hidden - before, &s.seen, &mut s.scores);
                for head in kv_head * group..(kv_head + 1) * group {
                    let at = i * width + head * d..i * width + (head + 1) * d;
                    let (q, out) = (&q[at.clone()], &mut out[at]);
                    match self.plane {
                        Plane::Single(_, v) => {
                            attend_transposed(isa, q, keys, skip, v, places, seen, scale, cap, scores, out);
                        }
                        Plane::Half(_, v) => {
                            attend_transposed_half(
                                isa, q, keys, skip, v, places, seen, scale, cap, scores, out,
                            );
                        }
                    }
                }
            }
        }
    }

    fn head_rows(&self, kv_head: usize) -> HeadRows {
        let c = self.config();
        HeadRows { offset: kv_head * c.head_dim, stride: c.d_kv() }
    }
}

/// The cache rows that a token sees, itself last: its sequence's, but for the first `hidden` ones. Returns their number.
fn see(batch: &Batch, row: Row, mut hidden: usize, seen: &mut Vec<Span>) -> usize {
    let s = &batch.sequences[row.sequence];
    let n = row.position + 1 - hidden;
    let own = Span { first: s.store, len: row.position + 1 - s.past };
    seen.clear();
    for span in batch.spans[s.spans.clone()].iter().chain([&own]) {
        let skip = hidden.min(span.len);
        hidden -= skip;
        if skip < span.len {
            seen.push(Span { first: span.first + skip, len: span.len - skip });
        }
    }
    n
}
