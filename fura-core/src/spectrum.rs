//! Block spectra: the right singular frame `V` and singular values `s` of each column block.
//!
//! For a column block `W_k` (`d_out x w`) with thin SVD `U diag(s) V^T`, FuRA-S scales singular
//! value `i` by `1 + c_i`. That acts on the layer's input alone,
//! `U diag(s (1 + c)) V^T = W_k (I + V diag(c) V^T)`, so `U` is never formed and `V`, `s` come
//! from the `w x w` Gram matrix of the *dequantized* block. The exact weights must be used:
//! singular vectors of a half-precision copy differ by percents where singular values crowd.
//!
//! # The same bits everywhere
//! A coordinate means something only with respect to one particular `V`, and crowded singular
//! values make `V` sensitive to the last bit of whatever computed it. [`Solver::Canonical`] is
//! therefore specified down to the operation and uses plain `f64` arithmetic only:
//!
//! 1. `G_ij = sum_r W_ri W_rj`, each product exact, rows `r` added in order.
//! 2. Cyclic Jacobi from the identity, row by row, to off-diagonals below `2^-53` of the
//!    diagonal pair (or of `trace / w`, which ends the search inside a null space).
//! 3. Order by descending eigenvalue, ties by position; `s_i = sqrt(max(lambda_i, 0))`.
//! 4. Round `V` and `s` to `f32`; then each vector's component of largest magnitude (the first
//!    among equals) is made positive.
//!
//! Degenerate spectra follow from step 2: a pair of columns that is already orthogonal is not
//! rotated, so an all-zero block has `V = I`, as do orthogonal columns of equal norm.
//!
//! Squaring costs accuracy only below `1e-8 s_1`: there, in a numerical null space, `s` is
//! rounding noise, and `V` an orthonormal basis on which no coordinate has an effect.

use std::ops::Range;

mod error;
mod fast;
mod jacobi;
mod queue;
mod thin;

use crate::layout::column_blocks;

pub use error::SpectrumError;
pub use queue::BlockQueue;

/// Spectrum of one column block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSpectrum {
    /// Right singular vectors, each contiguous: `v[k * width + i]` is component `i` (input
    /// channel) of vector `k`.
    pub v: Vec<f32>,
    /// Singular values, descending, in the weights' unit. `v.len() == s.len().pow(2)`.
    pub s: Vec<f32>,
}

/// Spectra of all column blocks of one linear.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearSpectrum {
    block: usize,
    v: Vec<f32>,
    s: Vec<f32>,
}

impl LinearSpectrum {
    /// Block size (the last block may be shorter).
    pub fn block(&self) -> usize {
        self.block
    }

    /// All blocks' right singular vectors, block after block, each as in [`BlockSpectrum::v`].
    pub fn v(&self) -> &[f32] {
        &self.v
    }

    /// Singular values, one per input channel: block after block, descending within a block.
    pub fn s(&self) -> &[f32] {
        &self.s
    }

    /// Columns, right singular vectors and singular values of each block in order.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = (Range<usize>, &[f32], &[f32])> {
        column_blocks(self.s.len(), self.block).map(|columns| {
            // All blocks before this one are whole.
            let start = columns.start * self.block;
            let v = &self.v[start..start + columns.len() * columns.len()];
            let s = &self.s[columns.clone()];
            (columns, v, s)
        })
    }
}

/// How eigenvectors of a Gram matrix are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Solver {
    /// The scheme of the [module page](self): same bits on every machine. `O(w^3)` per sweep;
    /// right for blocks up to a few hundred channels.
    #[default]
    Canonical,
    /// faer's divide-and-conquer eigensolver: several times faster on wide blocks, equal to
    /// rounding, but its bits depend on the processor. Only for work that stays on one
    /// machine, or keeps `V` with the result.
    Fast,
    /// faer's singular value decomposition of the block itself: small singular values and their
    /// vectors to `1e-16 s_1` instead of the Gram matrix's `1e-8 s_1`, in more memory (the block
    /// once more in `f64`) and several times the time. Bits depend on the processor as with
    /// [`Fast`](Self::Fast). For blocks whose condition number matters, such as whole matrices.
    ThinSvd,
}

/// Computes block spectra, keeping its workspace between blocks.
///
/// ```
/// use fura_core::spectrum::Decomposer;
/// // Two orthogonal columns of norms 1 and 2: the frame is the axes, the larger first.
/// let w = [1.0, 0.0,
///          0.0, 2.0,
///          0.0, 0.0];
/// let spectrum = Decomposer::default().decompose_block(&w, 3, 2)?;
/// assert_eq!(spectrum.s, [2.0, 1.0]);
/// assert_eq!(spectrum.v, [0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), fura_core::spectrum::SpectrumError>(())
/// ```
#[derive(Default)]
pub struct Decomposer {
    solver: Solver,
    gram: Vec<f64>,
    frame: Vec<f64>,
    values: Vec<f64>,
    order: Vec<usize>,
    block: Vec<f32>,
    fast: fast::FastSolver,
}

impl std::fmt::Debug for Decomposer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("Decomposer").field("solver", &self.solver)).finish_non_exhaustive()
    }
}

impl Decomposer {
    /// A decomposer using `solver`; `Decomposer::default()` is the canonical one.
    pub fn new(solver: Solver) -> Self {
        Self { solver, ..Self::default() }
    }

    /// Spectrum of one block: `weights` is row-major, `d_out` rows of `width` values.
    ///
    /// # Errors
    /// Sizes that do not match, non-finite weights, values beyond `f32`.
    pub fn decompose_block(
        &mut self,
        weights: &[f32],
        d_out: usize,
        width: usize,
    ) -> Result<BlockSpectrum, SpectrumError> {
        let size = check_size(d_out, width, width)?;
        check_length(weights, d_out * width)?;
        let mut spectrum = BlockSpectrum { v: vec![0.0; size], s: vec![0.0; width] };
        self.decompose(weights, width, 0..width, &mut spectrum.v, &mut spectrum.s)?;
        Ok(spectrum)
    }

    /// Spectra of all blocks of a linear: `weights` is row-major, `d_out` rows of `d_in` values.
    ///
    /// # Errors
    /// As [`decompose_block`](Self::decompose_block); rows and columns in errors count within
    /// the linear.
    pub fn decompose_linear(
        &mut self,
        weights: &[f32],
        d_out: usize,
        d_in: usize,
        block: usize,
    ) -> Result<LinearSpectrum, SpectrumError> {
        check_size(d_out, d_in, block)?;
        check_length(weights, d_out * d_in)?;
        self.run(d_out, d_in, block, |_, columns, v, s, this| this.decompose(weights, d_in, columns, v, s))
    }

    /// Like [`decompose_linear`](Self::decompose_linear) where the whole dequantized matrix
    /// should not be held: `fetch(columns, out)` writes the row-major `d_out x columns.len()`
    /// block, and is called once per block in order.
    ///
    /// # Errors
    /// As [`decompose_linear`](Self::decompose_linear).
    pub fn decompose_columns(
        &mut self,
        d_out: usize,
        d_in: usize,
        block: usize,
        mut fetch: impl FnMut(Range<usize>, &mut [f32]),
    ) -> Result<LinearSpectrum, SpectrumError> {
        self.run(d_out, d_in, block, |d_out, columns, v, s, this| {
            this.decompose_fetch(d_out, columns, &mut fetch, v, s)
        })
    }

    /// Spectrum of the block at `columns` of a linear, written by `fetch`; errors count within the linear.
    fn decompose_fetched(
        &mut self,
        d_out: usize,
        columns: Range<usize>,
        fetch: impl FnMut(Range<usize>, &mut [f32]),
    ) -> Result<BlockSpectrum, SpectrumError> {
        let width = columns.len();
        let mut spectrum = BlockSpectrum { v: vec![0.0; width * width], s: vec![0.0; width] };
        self.decompose_fetch(d_out, columns, fetch, &mut spectrum.v, &mut spectrum.s)?;
        Ok(spectrum)
    }

    fn decompose_fetch(
        &mut self,
        d_out: usize,
        columns: Range<usize>,
        mut fetch: impl FnMut(Range<usize>, &mut [f32]),
        v: &mut [f32],
        s: &mut [f32],
    ) -> Result<(), SpectrumError> {
        let width = columns.len();
        let mut weights = std::mem::take(&mut self.block);
        weights.clear();
        weights.resize(d_out * width, 0.0);
        fetch(columns.clone(), &mut weights);
        let result = self.decompose(&weights, width, 0..width, v, s);
        self.block = weights;
        result.map_err(|error| error.shifted(columns.start))
    }

    fn run(
        &mut self,
        d_out: usize,
        d_in: usize,
        block: usize,
        mut decompose: impl FnMut(
            usize,
            Range<usize>,
            &mut [f32],
            &mut [f32],
            &mut Self,
        ) -> Result<(), SpectrumError>,
    ) -> Result<LinearSpectrum, SpectrumError> {
        let size = check_size(d_out, d_in, block)?;
        let mut spectrum = LinearSpectrum { block: block.min(d_in), v: vec![0.0; size], s: vec![0.0; d_in] };
        let mut rest = &mut spectrum.v[..];
        for columns in column_blocks(d_in, block) {
            let (v, tail) = rest.split_at_mut(columns.len() * columns.len());
            rest = tail;
            decompose(d_out, columns.clone(), v, &mut spectrum.s[columns], self)?;
        }
        Ok(spectrum)
    }

    /// Decomposes `columns` of the row-major `weights` with rows of `stride` values.
    fn decompose(
        &mut self,
        weights: &[f32],
        stride: usize,
        columns: Range<usize>,
        v: &mut [f32],
        s: &mut [f32],
    ) -> Result<(), SpectrumError> {
        let n = columns.len();
        resize(&mut self.gram, n * n);
        resize(&mut self.frame, n * n);
        resize(&mut self.values, n);
        if self.solver == Solver::ThinSvd {
            thin::decompose(weights, stride, columns.clone(), &mut self.frame, &mut self.values)?;
        } else {
            gram(weights, stride, columns.clone(), &mut self.gram)?;
            let fast = self.solver == Solver::Fast
                && (self.fast).diagonalize(&mut self.gram, &mut self.frame, &mut self.values, n);
            if !fast {
                if !jacobi::diagonalize(&mut self.gram, &mut self.frame, n) {
                    return Err(SpectrumError::NoConvergence { columns });
                }
                for (k, value) in self.values.iter_mut().enumerate() {
                    *value = self.gram[k * n + k];
                }
            }
        }
        let values = &self.values;
        self.order.clear();
        self.order.extend(0..n);
        // Breaking ties by position makes the unstable, allocation-free sort a stable one.
        (self.order).sort_unstable_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
        for ((&k, s), v) in self.order.iter().zip(s).zip(v.chunks_exact_mut(n)) {
            *s = values[k].max(0.0).sqrt() as f32;
            if !s.is_finite() {
                return Err(SpectrumError::Overflow { columns });
            }
            for (out, &component) in v.iter_mut().zip(&self.frame[k * n..]) {
                *out = component as f32;
            }
            fix_sign(v);
        }
        Ok(())
    }
}

/// Elements of `V` over all blocks, having checked that every size fits memory.
fn check_size(d_out: usize, d_in: usize, block: usize) -> Result<usize, SpectrumError> {
    let bad = SpectrumError::BadSize { d_out, d_in, block };
    if d_out == 0 || d_in == 0 || block == 0 {
        return Err(bad);
    }
    let width = block.min(d_in);
    let bytes = |count: usize| count.checked_mul(8).filter(|&b| isize::try_from(b).is_ok());
    let fits = (d_in.checked_mul(width)).and_then(bytes).is_some()
        && (d_out.checked_mul(d_in)).and_then(bytes).is_some();
    let last = d_in % width;
    match fits {
        true => Ok((d_in - last) * width + last * last),
        false => Err(bad),
    }
}

fn check_length(weights: &[f32], expected: usize) -> Result<(), SpectrumError> {
    let found = weights.len();
    match found == expected {
        true => Ok(()),
        false => Err(SpectrumError::Length { expected, found }),
    }
}

fn resize(buffer: &mut Vec<f64>, len: usize) {
    buffer.clear();
    buffer.resize(len, 0.0);
}

fn check_finite(row: usize, first_column: usize, line: &[f32]) -> Result<(), SpectrumError> {
    match line.iter().position(|w| !w.is_finite()) {
        Some(at) => Err(SpectrumError::NonFinite { row, column: first_column + at, value: line[at] }),
        None => Ok(()),
    }
}

/// `G = W^T W` of a column block in `f64`, rows added in order, both triangles.
fn gram(weights: &[f32], stride: usize, columns: Range<usize>, g: &mut [f64]) -> Result<(), SpectrumError> {
    let n = columns.len();
    for (row, line) in weights.chunks_exact(stride).enumerate() {
        let line = &line[columns.clone()];
        check_finite(row, columns.start, line)?;
        for (i, &w_i) in line.iter().enumerate() {
            // A product of two f32 is exact in f64, so only the addition rounds.
            let w_i = f64::from(w_i);
            for (g_ij, &w_j) in g[i * n + i..(i + 1) * n].iter_mut().zip(&line[i..]) {
                *g_ij += w_i * f64::from(w_j);
            }
        }
    }
    for i in 0..n {
        for j in 0..i {
            g[i * n + j] = g[j * n + i];
        }
    }
    Ok(())
}

/// Makes the component of largest magnitude, the first among equals, positive.
fn fix_sign(vector: &mut [f32]) {
    let mut largest = 0.0f32;
    for &x in vector.iter() {
        if x.abs() > largest.abs() {
            largest = x;
        }
    }
    let negate = largest < 0.0;
    for x in vector {
        // Adding zero turns -0.0 into 0.0: one spelling of zero.
        *x = if negate { -*x } else { *x } + 0.0;
    }
}
