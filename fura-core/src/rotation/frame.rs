//! The block frame: the orthonormal input directions that coordinates stretch.

use super::{Matrix, RotationError, Svd};
use crate::layout::column_blocks;
use crate::spectrum::LinearSpectrum;

/// Orthonormal directions `e_1 .. e_n` of a layer's input, each supported on one column block; coordinate `k`
/// stretches the input along `e_k` by `1 + c_k`:
///
/// ```text
/// W' = W (I + M),   M = sum_k c_k e_k e_k^T
/// ```
///
/// FuRA-S takes the right singular vectors of the blocks ([`spectral`](Self::spectral)). One block is SVF, blocks
/// of one channel are channel scaling, and [`random`](Self::random) is the control that asks whether the spectral
/// directions matter.
#[derive(Debug, Clone)]
pub struct BlockFrame {
    block: usize,
    channels: usize,
    /// Square, directions as columns.
    blocks: Vec<Matrix>,
}

impl BlockFrame {
    /// The right singular vectors of the column blocks of `w`, in `f64`. A block wider than `w` is high has
    /// a basis of its null space as its last directions.
    ///
    /// # Errors
    /// As [`Svd::full`].
    ///
    /// # Panics
    /// If `block` is 0.
    pub fn spectral(w: &Matrix, block: usize) -> Result<Self, RotationError> {
        let blocks = column_blocks(w.columns(), block).map(|columns| {
            let part = w.column_range(columns.clone());
            let svd = if w.rows() < columns.len() { Svd::full(&part) } else { Svd::thin(&part) };
            Ok(svd?.v().clone())
        });
        Ok(Self { block, channels: w.columns(), blocks: blocks.collect::<Result<_, RotationError>>()? })
    }

    /// The frame that an engine uses: orthonormal to the rounding of `f32`.
    pub fn from_spectrum(spectrum: &LinearSpectrum) -> Self {
        let blocks = spectrum.blocks().map(|(columns, v, _)| {
            let n = columns.len();
            Matrix::from_fn(n, n, |i, k| f64::from(v[k * n + i]))
        });
        Self { block: spectrum.block(), channels: spectrum.s().len(), blocks: blocks.collect() }
    }

    /// In every block a basis drawn uniformly from all orthonormal ones; `normal` gives independent standard
    /// normal numbers.
    ///
    /// # Errors
    /// As [`Svd::thin`], if `normal` gives no numbers.
    ///
    /// # Panics
    /// If `block` is 0.
    pub fn random(
        channels: usize,
        block: usize,
        normal: &mut dyn FnMut() -> f64,
    ) -> Result<Self, RotationError> {
        let blocks = column_blocks(channels, block).map(|columns| {
            let gaussian = Matrix::from_fn(columns.len(), columns.len(), |_, _| normal());
            // The orthogonal polar factor inherits the Gaussian's invariance under rotations.
            let svd = Svd::thin(&gaussian)?;
            Ok(svd.u() * &svd.v().transpose())
        });
        Ok(Self { block, channels, blocks: blocks.collect::<Result<_, RotationError>>()? })
    }

    /// Block size (the last block may be shorter).
    pub fn block(&self) -> usize {
        self.block
    }

    /// Number of directions, which is that of input channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// `W E`, the images of the directions as columns: `U_k diag(s_k)` of the blocks if the frame is theirs.
    ///
    /// # Panics
    /// If `w` does not have as many columns as there are channels, here and below.
    pub fn images(&self, w: &Matrix) -> Matrix {
        assert_eq!(w.columns(), self.channels, "columns of the weights");
        let mut out = Matrix::from_fn(w.rows(), self.channels, |_, _| 0.0);
        for (columns, v) in column_blocks(self.channels, self.block).zip(&self.blocks) {
            let images = &w.column_range(columns.clone()) * v;
            out.0.as_mut().subcols_mut(columns.start, columns.len()).copy_from(&images.0);
        }
        out
    }

    /// The change `W M` of the weights.
    ///
    /// # Panics
    /// If there is not one coordinate for each channel, here and below.
    pub fn change(&self, w: &Matrix, c: &[f64]) -> Matrix {
        assert_eq!(c.len(), self.channels, "number of coordinates");
        let images = self.images(w);
        let mut out = Matrix::from_fn(w.rows(), self.channels, |_, _| 0.0);
        for (columns, v) in column_blocks(self.channels, self.block).zip(&self.blocks) {
            let stretched = Matrix::from_fn(w.rows(), columns.len(), |i, k| {
                images[(i, columns.start + k)] * c[columns.start + k]
            });
            let change = &stretched * &v.transpose();
            out.0.as_mut().subcols_mut(columns.start, columns.len()).copy_from(&change.0);
        }
        out
    }

    /// The transformed input `x + M x`.
    ///
    /// # Panics
    /// If `x` does not have one value for each channel.
    pub fn transform(&self, x: &[f64], c: &[f64]) -> Vec<f64> {
        assert_eq!((x.len(), c.len()), (self.channels, self.channels), "inputs and coordinates");
        let mut out = x.to_vec();
        for (columns, v) in column_blocks(self.channels, self.block).zip(&self.blocks) {
            let first = columns.start;
            for k in 0..columns.len() {
                let along: f64 = (0..columns.len()).map(|i| v[(i, k)] * x[first + i]).sum();
                (0..columns.len()).for_each(|i| out[first + i] += v[(i, k)] * c[first + k] * along);
            }
        }
        out
    }

    /// `V^T E`: entry `(i, k)` is the overlap `a_ik` of right singular vector `i` of the whole matrix with direction
    /// `k`. Rows are unit vectors.
    ///
    /// # Panics
    /// If the matrix does not have as many columns as there are channels.
    pub fn overlaps(&self, svd: &Svd) -> Matrix {
        self.images(&svd.v().transpose())
    }
}

/// `A = V^T M V` from overlaps: `A_ij = sum_k a_ik c_k a_jk`, symmetric.
///
/// # Panics
/// If there is not one coordinate for each column.
pub fn generator(overlaps: &Matrix, c: &[f64]) -> Matrix {
    assert_eq!(c.len(), overlaps.columns(), "number of coordinates");
    let stretched = Matrix::from_fn(overlaps.rows(), c.len(), |i, k| overlaps[(i, k)] * c[k]);
    &stretched * &overlaps.transpose()
}
