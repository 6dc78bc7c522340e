//! The input transform of a linear: materialized for a member, applied to its rows.

use fura_simd::{AlignedBuffer, Isa, block};

/// Rows at a time in a forward pass.
const PIECE: usize = 2 * fura_quant::ROW_BLOCK;

/// Buffers of a transform of `rows` rows of `d_in` channels in blocks of `b`. Transform and rows begin with a cache line,
/// as in a forward pass of `fura-model`.
#[derive(Clone, Debug)]
pub struct Input {
    isa: Isa,
    b: usize,
    coordinates: Vec<f32>,
    v: Vec<f32>,
    t: AlignedBuffer,
    x: AlignedBuffer,
    y: AlignedBuffer,
    scratch: Vec<f32>,
}

impl Input {
    /// Constant bases and rows: no kernel's time depends on values. Coordinates of both signs cancel, so that rows stay
    /// finite when they are transformed in place over and over.
    pub fn new(isa: Isa, d_in: usize, b: usize, rows: usize) -> Self {
        let v = vec![0.1; block::matrix_len(d_in, b)];
        let (t, mut x) = (AlignedBuffer::new(v.len()), AlignedBuffer::new(rows * d_in));
        x.fill(0.5);
        let coordinates = (0..d_in).map(|k| if k % 2 == 0 { 0.01 } else { -0.01 }).collect();
        Self { isa, b, coordinates, t, v, y: x.clone(), x, scratch: vec![0.0; b] }
    }

    /// `T = V diag(c) V^T` for every block.
    pub fn materialize(&mut self) {
        block::materialize(self.isa, &self.v, &self.coordinates, self.b, &mut self.t);
    }

    /// Floating-point operations of [`Self::materialize`], a fused multiply-add counted as two.
    pub fn materialize_flops(&self) -> usize {
        // Each of the b x b elements of a block is a sum over b vectors.
        2 * self.t.len() * self.b
    }

    /// `y = x + T x` for every row.
    pub fn apply(&mut self) {
        block::apply(self.isa, &self.t, self.b, self.coordinates.len(), &self.x, &mut self.y);
    }

    /// `x += T x` for every row.
    pub fn apply_in_place(&mut self) {
        let d_in = self.coordinates.len();
        block::apply_in_place(self.isa, &self.t, self.b, d_in, &mut self.x, &mut self.scratch);
    }

    /// `y = x + T x`, some rows at a time into the same buffer, as a forward pass does it on the way to codes.
    pub fn apply_in_pieces(&mut self) {
        let d_in = self.coordinates.len();
        for x in self.x.chunks(PIECE * d_in) {
            block::apply(self.isa, &self.t, self.b, d_in, x, &mut self.y[..x.len()]);
        }
    }

    /// Floating-point operations of each of these.
    pub fn apply_flops(&self) -> usize {
        2 * self.x.len() * self.b
    }
}
