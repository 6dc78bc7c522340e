//! A linear layer: the member's input transform, int8 codes, the matrix product, the bias.

use crate::batch::BASE;
use crate::layer::Layer;
use crate::members::Transform;
use crate::workspace::{Input, PIECE, Run, SAME_INPUT, Transformed};
use fura_core::layout::Form;
use fura_quant::{ActivationRows, Activations, PackedMatrix, ROW_BLOCK, TILE};
use fura_simd::elementwise::add;
use fura_simd::{Isa, block};

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
    pub(crate) fn linear(&self, k: usize, rows: Rows, x: &[f32], input: &mut Input, out: &mut [f32]) {
        self.linears([k], rows, x, input, [out]);
    }

    /// As [`Self::linear`], for linears of the same input. Threads share the products of a single row, all at once since
    /// they have to meet after it.
    pub(crate) fn linears<const N: usize>(
        &self,
        linears: [usize; N],
        rows: Rows,
        x: &[f32],
        input: &mut Input,
        mut outs: [&mut [f32]; N],
    ) {
        const { assert!(N <= SAME_INPUT, "codes for each") };
        let isa = self.engine.isa();
        let Input { transformed, codes } = input;
        if rows.threads == 1 {
            let [codes, ..] = codes;
            for (k, out) in linears.into_iter().zip(outs) {
                self.encode(k, rows.first, x, transformed, codes);
                self.product(k, codes, out).run(isa);
                self.add_bias(k, codes, out);
            }
            return;
        }
        let mut products = [const { None }; N];
        for (i, ((k, codes), out)) in linears.into_iter().zip(codes.iter_mut()).zip(&mut outs).enumerate() {
            self.encode(k, rows.first, x, transformed, codes);
            products[i] = Some(self.product(k, codes, out));
        }
        share(isa, products, rows.threads);
        for ((k, codes), out) in linears.into_iter().zip(codes).zip(outs) {
            self.add_bias(k, codes, out);
        }
    }

    fn product<'a>(&'a self, k: usize, x: &'a Activations, out: &'a mut [f32]) -> Product<'a> {
        let (w, x) = (self.engine.model().linear(self.engine.model().linear_index(self.layer, k)), x.view());
        Product { w, x, first: 0, out: &mut out[..x.rows() * w.d_out()] }
    }

    fn add_bias(&self, k: usize, x: &Activations, out: &mut [f32]) {
        if let Some(bias) = self.engine.model().bias(self.layer, k) {
            out.chunks_exact_mut(bias.len()).take(x.view().rows()).for_each(|row| add(row, bias));
        }
    }

    /// The codes of `T x`.
    fn encode(&self, k: usize, first: usize, x: &[f32], buffers: &mut Transformed, codes: &mut Activations) {
        let (model, isa) = (self.engine.model(), self.engine.isa());
        let linear = model.linear_index(self.layer, k);
        let d_in = model.linear(linear).d_in();
        let block = model.layout().block();
        let basis = model.basis(linear);
        let n = x.len() / d_in;
        codes.begin(n, d_in);
        // Rows whose codes are there; after the first transform the others pass through `buffers.rows`.
        let (mut done, mut changed) = (0, false);
        for Run { member, start, end } in self.runs.iter().filter_map(|run| run.within(first, n)) {
            let coordinates = &mut buffers.coordinates[..d_in];
            let transform = match member {
                BASE => Transform::Identity,
                member => self.members.transform(member, linear, coordinates),
            };
            let change = match transform {
                Transform::Identity => None,
                Transform::Coordinates(Form::Materialized) => {
                    let t = &mut buffers.transform[..basis.len()];
                    block::materialize(isa, basis, coordinates, block, t);
                    Some(Change::Matrix(&*t))
                }
                Transform::Coordinates(Form::Factored) => Some(Change::Coordinates(&*coordinates)),
                Transform::Materialized(t) => Some(Change::Matrix(t)),
            };
            if !changed && change.is_some() {
                // Earlier runs, if any, were identities: their rows are used as they are.
                changed = true;
                done = start / ROW_BLOCK * ROW_BLOCK;
                codes.quantize_from(isa, 0, &x[..done * d_in]);
                let rest = &x[done * d_in..start * d_in];
                buffers.rows[..rest.len()].copy_from_slice(rest);
            }
            let mut at = start;
            while changed && at < end {
                let end = end.min(done + PIECE);
                let (from, to) = (at * d_in..end * d_in, (at - done) * d_in..(end - done) * d_in);
                let (from, to) = (&x[from], &mut buffers.rows[to]);
                match change {
                    Some(Change::Matrix(t)) => block::apply(isa, t, block, d_in, from, to),
                    Some(Change::Coordinates(c)) => block::apply_factored(isa, basis, c, block, from, to),
                    None => to.copy_from_slice(from),
                }
                at = end;
                if at == done + PIECE || at == n {
                    codes.quantize_from(isa, done, &buffers.rows[..(at - done) * d_in]);
                    done = at;
                }
            }
        }
        if !changed {
            codes.quantize_from(isa, 0, x);
        }
    }
}

/// What changes a member's rows.
#[derive(Clone, Copy)]
enum Change<'a> {
    Matrix(&'a [f32]),
    Coordinates(&'a [f32]),
}

/// Outputs of a matrix product from tile `first` on.
struct Product<'a> {
    w: PackedMatrix<'a>,
    x: ActivationRows<'a>,
    first: usize,
    out: &'a mut [f32],
}

impl<'a> Product<'a> {
    fn run(self, isa: Isa) {
        let width = self.out.len() / self.x.rows();
        let tiles = self.first..self.first + width.div_ceil(TILE);
        self.w.multiply(isa, self.x, tiles, self.out, width);
    }

    /// The product of a single row, cut after a share of its tiles.
    fn split(self, left: usize, all: usize) -> (Self, Self) {
        let tiles = self.out.len().div_ceil(TILE) * left / all;
        let (out, rest) = self.out.split_at_mut(tiles * TILE);
        let right = Self { w: self.w, x: self.x, first: self.first + tiles, out: rest };
        (Self { w: self.w, x: self.x, first: self.first, out }, right)
    }
}

/// The products of a single row on so many threads, each taking its share of every product.
fn share<const N: usize>(isa: Isa, products: [Option<Product<'_>>; N], threads: usize) {
    if threads == 1 {
        return products.into_iter().flatten().for_each(|product| product.run(isa));
    }
    let left = threads / 2;
    let mut halves = products.map(|p| p.map(|p| p.split(left, threads)).unzip());
    let first = halves.each_mut().map(|half| half.0.take());
    let second = halves.map(|half| half.1);
    rayon::join(|| share(isa, first, left), || share(isa, second, threads - left));
}
