//! Applying coordinates to a layer's input: `x' = x + V diag(c) V^T x` in every column block.
//!
//! With the thin singular value decompositions of the column blocks,
//!
#![doc = include_str!("formulas/transform.html")]
//!
//! in words: scaling the block's singular values by one plus the coordinates equals multiplying the block from
//! the right by identity plus `V diag(c) V^T`. So `W' x = W x'`: the weights, whatever their format, are used as
//! they are. The matrices `V diag(c) V^T` are materialized once for a member and a linear, then applied to all of
//! its rows; kernels and canonical order are those of [`fura_simd::block`], equal bits on every CPU. Rows that start with
//! a cache line ([`AlignedBuffer`]) are the fastest. In the other [form](crate::layout::Form) nothing is materialized:
//! [`apply_factored`] takes bases and coordinates.

use crate::layout::Layout;
pub use fura_simd::Isa;
pub use fura_simd::block::apply_factored;
use fura_simd::{AlignedBuffer, block};

/// Materialized transforms of one linear, in a buffer that is reused from member to member.
///
/// ```
/// use fura_core::spectrum::Decomposer;
/// use fura_core::transform::{Isa, Transform};
///
/// // One linear of 2 outputs and 2 inputs, one block.
/// let w = [3.0f32, 1.0, 1.0, 3.0];
/// let spectrum = Decomposer::default().decompose_linear(&w, 2, 2, 2)?;
/// let mut t = Transform::with_capacity(2, 2);
/// t.materialize(Isa::detect(), spectrum.v(), &[0.5, 0.0], 2);
/// // The leading singular value (4, along (1, 1)) grows by half; the other direction is unchanged.
/// let mut y = [0.0; 2];
/// t.apply(Isa::detect(), &[1.0, 1.0], &mut y);
/// assert!((y[0] - 1.5).abs() < 1e-6 && (y[1] - 1.5).abs() < 1e-6);
/// # Ok::<(), fura_core::spectrum::SpectrumError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transform {
    block: usize,
    d_in: usize,
    /// Room for them: those of the linear come first.
    matrices: AlignedBuffer,
    /// A block of a row.
    scratch: Vec<f32>,
}

impl Transform {
    /// Room for linears of up to `d_in` inputs in blocks of `block`.
    pub fn with_capacity(d_in: usize, block: usize) -> Self {
        let matrices = AlignedBuffer::new(block::matrix_len(d_in, block));
        Self { block, d_in: 0, matrices, scratch: Vec::with_capacity(block.min(d_in)) }
    }

    /// Room for any linear of a layout.
    pub fn for_layout(layout: &Layout) -> Self {
        let sizes = || layout.linears().iter().enumerate().map(|(l, w)| (w.d_in, layout.block_of(l)));
        let matrices = sizes().map(|(d_in, block)| block::matrix_len(d_in, block)).max().unwrap_or(0);
        let row = sizes().map(|(d_in, block)| block.min(d_in)).max().unwrap_or(0);
        let (matrices, scratch) = (AlignedBuffer::new(matrices), Vec::with_capacity(row));
        Self { block: layout.block(), d_in: 0, matrices, scratch }
    }

    /// Computes the transforms of a linear from its bases (`LinearSpectrum::v`) and a member's coordinates, one
    /// for each input channel. Allocates nothing if the linear fits the capacity.
    ///
    /// # Panics
    /// If `v` is not as long as `coordinates` and `block` say.
    pub fn materialize(&mut self, isa: Isa, v: &[f32], coordinates: &[f32], block: usize) {
        self.block = block;
        self.d_in = coordinates.len();
        let len = self.len();
        if len > self.matrices.len() {
            self.matrices = AlignedBuffer::new(len);
        }
        self.scratch.resize(block.min(self.d_in), 0.0);
        block::materialize(isa, v, coordinates, block, &mut self.matrices[..len]);
    }

    /// Length of the linear's matrices.
    fn len(&self) -> usize {
        block::matrix_len(self.d_in, self.block)
    }

    /// Transforms rows of the linear's input; rows lie one after another in `x` and `y`.
    ///
    /// # Panics
    /// If `x` and `y` differ in length or are not whole rows, or nothing was materialized.
    pub fn apply(&self, isa: Isa, x: &[f32], y: &mut [f32]) {
        block::apply(isa, &self.matrices[..self.len()], self.block, self.d_in, x, y);
    }

    /// Transforms rows in place, with the same bits. Where nothing else needs the linear's input this moves half of the
    /// memory: it is the faster the more rows there are.
    ///
    /// # Panics
    /// If `x` is not whole rows, or nothing was materialized.
    pub fn apply_in_place(&mut self, isa: Isa, x: &mut [f32]) {
        let t = &self.matrices[..self.len()];
        block::apply_in_place(isa, t, self.block, self.d_in, x, &mut self.scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spectrum::Decomposer;

    /// The input-transform identity against a dense f64 product: `W' x` with scaled block singular values.
    #[test]
    fn equals_scaling_the_singular_values_of_the_blocks() {
        let (d_out, d_in, b) = (40usize, 70usize, 32usize);
        let w: Vec<f32> = (0..d_out * d_in).map(|i| ((i * 7919 % 31) as f32 - 15.0) * 0.01).collect();
        let spectrum = Decomposer::default().decompose_linear(&w, d_out, d_in, b).unwrap();
        let c: Vec<f32> = (0..d_in).map(|i| ((i * 13 % 11) as f32 - 5.0) * 0.05).collect();
        let x: Vec<f32> = (0..d_in).map(|i| ((i * 29 % 17) as f32 - 8.0) * 0.1).collect();
        let mut t = Transform::with_capacity(d_in, b);
        t.materialize(Isa::detect(), spectrum.v(), &c, b);
        let mut y = vec![0.0; d_in];
        t.apply(Isa::detect(), &x, &mut y);
        for row in w.chunks_exact(d_in) {
            let transformed: f64 = row.iter().zip(&y).map(|(w, y)| f64::from(*w) * f64::from(*y)).sum();
            // W'_k x_k = sum_i (1 + c_i) (W_k v_i) (v_i . x_k): U s is W V, so no U is needed.
            let mut expected = 0.0;
            for (columns, v, _) in spectrum.blocks() {
                let n = columns.len();
                for (v, c) in v.chunks_exact(n).zip(&c[columns.clone()]) {
                    let along = |a: &[f32]| -> f64 {
                        a.iter().zip(v).map(|(a, v)| f64::from(*a) * f64::from(*v)).sum()
                    };
                    expected +=
                        (1.0 + f64::from(*c)) * along(&row[columns.clone()]) * along(&x[columns.clone()]);
                }
            }
            // V is orthonormal to f32 rounding; both sums have 70 terms of at most 0.15 * 0.8 * 1.25.
            assert!((transformed - expected).abs() < 70.0 * 0.15 * 32.0 * f64::from(f32::EPSILON));
        }
    }
}
