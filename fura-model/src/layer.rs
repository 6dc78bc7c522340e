//! One layer, on the rows of one thread.

use crate::attention::Attention;
use crate::config::Activation;
use crate::forward::Engine;
use crate::members::Members;
use crate::part::Part;
use crate::rope::Rope;
use crate::workspace::{Lane, Row, Run};
use fura_simd::elementwise::{add, geglu, rms_norm, swiglu};

/// An int8 product takes about so much less time than one of f32 in attention.
const INTEGER_SPEED: usize = 8;

/// A layer and whose rows pass through it.
pub(crate) struct Layer<'a> {
    pub(crate) engine: &'a Engine<'a>,
    pub(crate) members: &'a dyn Members,
    pub(crate) layer: usize,
    pub(crate) runs: &'a [Run],
    pub(crate) rope: &'a Rope,
}

impl Layer<'_> {
    /// Keys, rotated, and values of rows, which leave their normed input in `h`; of a single row on several threads also its
    /// query, since they have to meet once less then.
    pub(crate) fn keys_and_values(&self, part: Part<'_>) {
        let (model, c) = (self.engine.model(), self.engine.model().config());
        let rows = part.linear_rows();
        let [lane, ..] = part.lanes else { return };
        self.norm(model.attention_norm(self.layer), part.x, part.h);
        if rows.threads > 1 {
            self.linears([0, 1, 2], rows, part.h, &mut lane.input, [part.q, part.k, part.v]);
        } else {
            self.linears([1, 2], rows, part.h, &mut lane.input, [part.k, part.v]);
        }
        let key_norm = model.head_norms(self.layer).map(|[_, key]| key);
        let windowed = c.window(self.layer).is_some();
        for (row, k) in part.rows.iter().zip(part.k.chunks_exact_mut(c.d_kv())) {
            self.engine.head_norms(key_norm, k, &mut lane.head);
            self.rope.rotate(k, row.position, self.layer, windowed);
        }
    }

    /// What rows attend to, from their normed input, or from their queries if those are there.
    pub(crate) fn attend(&self, attention: &Attention<'_>, part: &mut Part<'_>, queries: bool) {
        let rows = part.linear_rows();
        let [lane, ..] = &mut *part.lanes else { return };
        if !queries {
            self.linear(0, rows, part.h, &mut lane.input, part.q);
        }
        attention.rows(part.rows, part.q, part.attended, &mut lane.attention);
    }

    /// The rest of the layer: the output projection of attention and the MLP, each added to the residual stream.
    pub(crate) fn after_attention(&self, part: &mut Part<'_>) {
        let (engine, model) = (self.engine, self.engine.model());
        let [attention_post, mlp_post] = match model.post_norms(self.layer) {
            Some([attention, mlp]) => [Some(attention), Some(mlp)],
            None => [None, None],
        };
        let rows = part.linear_rows();
        let [Lane { input, normed, .. }, ..] = &mut *part.lanes else { return };
        self.linear(3, rows, part.attended, input, part.h);
        self.add_output(attention_post, part.x, part.h, normed);
        self.norm(model.mlp_norm(self.layer), part.x, part.h);
        self.linears([4, 5], rows, part.h, input, [part.gate, part.up]);
        let gated = match model.config().variant.activation {
            Activation::Silu => swiglu,
            Activation::GeluTanh => geglu,
        };
        gated(engine.isa(), part.gate, part.up);
        self.linear(6, rows, part.gate, input, part.h);
        self.add_output(mlp_post, part.x, part.h, normed);
    }

    /// What a row costs behind its keys and values, in products of f32.
    pub(crate) fn cost(&self, row: &Row) -> usize {
        let c = self.engine.model().config();
        let linears = 2 * c.d_model * c.d_query() + 3 * c.d_model * c.d_ff;
        let seen = (row.position + 1).min(c.window(self.layer).unwrap_or(usize::MAX));
        linears / INTEGER_SPEED + 2 * c.d_query() * seen
    }

    fn norm(&self, weight: &[f32], x: &[f32], h: &mut [f32]) {
        let (d, eps) = (weight.len(), self.engine.model().config().norm_eps);
        for (x, h) in x.chunks_exact(d).zip(h.chunks_exact_mut(d)) {
            rms_norm(x, weight, eps, h);
        }
    }

    /// Adds what attention or the MLP gave to the residual stream, after its norm if there is one.
    fn add_output(&self, post_norm: Option<&[f32]>, x: &mut [f32], y: &[f32], normed: &mut [f32]) {
        let Some(weight) = post_norm else { return add(x, y) };
        let d = weight.len();
        for (x, y) in x.chunks_exact_mut(d).zip(y.chunks_exact(d)) {
            rms_norm(y, weight, self.engine.model().config().norm_eps, normed);
            add(x, normed);
        }
    }
}
