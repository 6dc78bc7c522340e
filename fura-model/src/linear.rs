//! A linear layer: the member's input transform, int8 codes, the matrix product, the bias.

use crate::batch::BASE;
use crate::layer::Layer;
use crate::members::Transform;
use crate::workspace::{PIECE, Run, TransformedInput};
use fura_quant::{ActivationRows, PackedMatrix, ROW_BLOCK, TILE};
use fura_simd::elementwise::add;
use fura_simd::{Isa, block};
use rayon::prelude::*;

/// Which rows a linear is asked for, and how.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// The first one's index in the pass.
    pub(crate) first: usize,
    /// Threads that the product may be split over.
    pub(crate) threads: usize,
}

impl Layer<'_> {
    /// `out = W T x + bias` for linear `k` of the layer, each run of rows with its member's transform.
    pub(crate) fn linear(
        &self,
        k: usize,
        rows: Rows,
        x: &[f32],
        input: &mut TransformedInput,
        out: &mut [f32],
    ) {
        let (model, isa) = (self.engine.model(), self.engine.isa());
        let linear = model.linear_index(self.layer, k);
        let w = model.linear(linear);
        let d_in = w.d_in();
        let block = model.layout().block();
        let basis = model.basis(linear);
        let n = x.len() / d_in;
        input.codes.begin(n, d_in);
        // Rows whose codes are there; after the first transform the others pass through `input.rows`.
        let (mut done, mut changed) = (0, false);
        for Run { member, start, end } in self.runs.iter().filter_map(|run| run.within(rows.first, n)) {
            let coordinates = &mut input.coordinates[..d_in];
            let transform = match member {
                BASE => Transform::Identity,
                member => self.members.transform(member, linear, coordinates),
            };
            let t = match transform {
                Transform::Identity => None,
                Transform::Coordinates => {
                    let t = &mut input.transform[..basis.len()];
                    block::materialize(isa, basis, coordinates, block, t);
                    Some(&*t)
                }
                Transform::Materialized(t) => Some(t),
            };
            if !changed && t.is_some() {
                // Earlier runs, if any, were identities: their rows are used as they are.
                changed = true;
                done = start / ROW_BLOCK * ROW_BLOCK;
                input.codes.quantize_from(isa, 0, &x[..done * d_in]);
                let rest = &x[done * d_in..start * d_in];
                input.rows[..rest.len()].copy_from_slice(rest);
            }
            let mut at = start;
            while changed && at < end {
                let end = end.min(done + PIECE);
                let (from, to) = (at * d_in..end * d_in, (at - done) * d_in..(end - done) * d_in);
                match t {
                    Some(t) => block::apply(isa, t, block, d_in, &x[from], &mut input.rows[to]),
                    None => input.rows[to].copy_from_slice(&x[from]),
                }
                at = end;
                if at == done + PIECE || at == n {
                    input.codes.quantize_from(isa, done, &input.rows[..(at - done) * d_in]);
                    done = at;
                }
            }
        }
        if !changed {
            input.codes.quantize_from(isa, 0, x);
        }
        let out = &mut out[..n * w.d_out()];
        multiply(isa, &w, input.codes.view(), rows.threads, out);
        if let Some(bias) = model.bias(self.layer, k) {
            out.chunks_exact_mut(bias.len()).for_each(|row| add(row, bias));
        }
    }
}

/// A matrix product; that of a single row is split over tiles.
fn multiply(isa: Isa, w: &PackedMatrix<'_>, x: ActivationRows<'_>, threads: usize, out: &mut [f32]) {
    let tiles = w.tiles();
    if threads == 1 || x.rows() > 1 {
        return w.multiply(isa, x, 0..tiles, out, w.d_out());
    }
    let share = tiles.div_ceil(threads);
    out.par_chunks_mut(share * TILE).enumerate().for_each(|(i, out)| {
        let width = out.len();
        w.multiply(isa, x, i * share..((i + 1) * share).min(tiles), out, width);
    });
}
