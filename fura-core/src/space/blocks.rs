//! Block spaces: coordinates scale directions of the input within column blocks.

use std::ops::Range;

use fura_simd::{Isa, block};

use super::{Entry, Read, Space};
use crate::layout::{Layout, Linear};
use crate::noise::Noise;

/// Why a block space was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// Not one basis per linear.
    #[error("block space: {found} bases given, expected {expected}, one per linear")]
    Count {
        /// Bases given.
        found: usize,
        /// Linears of the layout.
        expected: usize,
    },
    /// A basis of another size.
    #[error("block space: the basis of {linear:?} has {found} numbers, expected {expected} by its blocks")]
    Length {
        /// The linear.
        linear: String,
        /// Numbers given.
        found: usize,
        /// Numbers expected: the squares of the block sizes.
        expected: usize,
    },
}

/// Coordinates that scale the input along the vectors of a basis in every column block:
/// `x' = x + V diag(c) V^T x`, or, which is the same, `W' = W (I + V diag(c) V^T)`.
///
/// The basis decides what it is. With the blocks' right singular vectors it is **FuRA-S**; with one block
/// as wide as the linear it is **SVF**, which scales the singular values of `W` itself (with `d_out < d_in`
/// the directions that `W` ignores have coordinates too, without effect); with blocks of one channel it is
/// **channel scaling** and the basis does not matter; with [random](Self::random) orthogonal bases it shows
/// what the spectral ones are worth.
///
/// ```
/// use fura_core::layout::{Layout, Linear};
/// use fura_core::space::{Blocks, Space};
/// use fura_core::spectrum::Decomposer;
/// let w = [3.0f32, 1.0, 1.0, 3.0];
/// let layout = Layout::new(2, [Linear::new("w", 2, 2)])?;
/// let bases = vec![Decomposer::default().decompose_linear(&w, 2, 2, 2)?.v().to_vec()];
/// let space = Blocks::new(layout, bases)?;
/// let c = [0.5, 0.0];
/// let read = |range: std::ops::Range<usize>, out: &mut [f32]| out.copy_from_slice(&c[range]);
/// let (mut y, mut scratch) = ([0.0; 2], Vec::new());
/// space.transform(0, &read, &[1.0, 1.0], &mut y, &mut scratch);
/// assert!((y[0] - 1.5).abs() < 1e-6 && (y[1] - 1.5).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Blocks<V = Vec<f32>> {
    layout: Layout,
    bases: Vec<V>,
    isa: Isa,
}

impl<V: AsRef<[f32]>> Blocks<V> {
    /// The space of `layout` with the bases `V` of its linears, as
    /// [`LinearSpectrum::v`](crate::spectrum::LinearSpectrum::v) lays them out; they may be borrowed.
    ///
    /// # Errors
    /// Bases that do not fit the layout.
    pub fn new(layout: Layout, bases: Vec<V>) -> Result<Self, BlocksError> {
        let (found, expected) = (bases.len(), layout.linears().len());
        if found != expected {
            return Err(BlocksError::Count { found, expected });
        }
        for (l, (linear, basis)) in layout.linears().iter().zip(&bases).enumerate() {
            let (found, expected) = (basis.as_ref().len(), block::matrix_len(linear.d_in, width(&layout, l)));
            if found != expected {
                return Err(BlocksError::Length { linear: linear.name.clone(), found, expected });
            }
        }
        Ok(Self { layout, bases, isa: Isa::detect() })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reads the coordinates and materializes the linear's transform; returns it.
    fn materialize<'s>(&self, linear: usize, read: Read<'_>, scratch: &'s mut Vec<f32>) -> &'s [f32] {
        let v = self.bases[linear].as_ref();
        let d_in = self.layout.linears()[linear].d_in;
        scratch.clear();
        scratch.resize(d_in + v.len(), 0.0);
        let (c, matrices) = scratch.split_at_mut(d_in);
        read(0..d_in, c);
        block::materialize(self.isa, v, c, width(&self.layout, linear), matrices);
        matrices
    }
}

impl Blocks {
    /// Random orthogonal bases, uniformly distributed (Haar): a control for the spectral ones.
    ///
    /// They are a function of the seed and the layout: Gaussian vectors of the
    /// [noise](crate::noise) of `seed`, made orthonormal one after another in `f64`.
    pub fn random(layout: Layout, seed: u64) -> Self {
        let noise = Noise::new(seed);
        let bases = (0..layout.linears().len()).map(|l| {
            let mut basis =
                Vec::with_capacity(block::matrix_len(layout.linears()[l].d_in, width(&layout, l)));
            for columns in layout.block_ranges(l) {
                // No search tells the last generation, so its noise is free.
                let pair = (layout.offset(l) + columns.start) as u32;
                basis.extend(orthonormal(columns.len(), &noise, pair));
            }
            basis
        });
        let bases = bases.collect();
        Self { layout, bases, isa: Isa::detect() }
    }

    /// Channel scaling, blocks of one channel: `x'_j = (1 + c_j) x_j`.
    ///
    /// # Errors
    /// As [`Layout::new`](crate::layout::Layout::new).
    pub fn channels(linears: Vec<Linear>) -> Result<Self, crate::layout::LayoutError> {
        let layout = Layout::new(1, linears)?;
        let bases = layout.linears().iter().map(|linear| vec![1.0; linear.d_in]).collect();
        Ok(Self { layout, bases, isa: Isa::detect() })
    }
}

impl<V: AsRef<[f32]>> Space for Blocks<V> {
    fn linears(&self) -> &[Linear] {
        self.layout.linears()
    }

    fn coordinates(&self, linear: usize) -> usize {
        self.layout.range(linear).len()
    }

    fn entry(&self) -> Entry {
        Entry::Input
    }

    fn transform(&self, linear: usize, read: Read<'_>, x: &[f32], y: &mut [f32], scratch: &mut Vec<f32>) {
        let d_in = self.layout.linears()[linear].d_in;
        let matrices = self.materialize(linear, read, scratch);
        block::apply(self.isa, matrices, width(&self.layout, linear), d_in, x, y);
    }

    fn perturb(
        &self,
        linear: usize,
        read: Read<'_>,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let d_in = self.layout.linears()[linear].d_in;
        assert_eq!(w.len(), rows.len() * d_in, "weights of {} rows", rows.len());
        self.materialize(linear, read, scratch);
        let width = width(&self.layout, linear);
        let end = scratch.len();
        scratch.resize(end + width, 0.0);
        let (matrices, block) = scratch[d_in..].split_at_mut(end - d_in);
        // The transform is symmetric, so a row of `W` is changed as an input is.
        block::apply_in_place(self.isa, matrices, width, d_in, w, block);
    }
}

/// Width of a linear's blocks, the last one apart.
fn width(layout: &Layout, linear: usize) -> usize {
    layout.block_range(linear, 0).len()
}

/// An orthonormal basis of `n` dimensions, vector after vector.
fn orthonormal(n: usize, noise: &Noise, pair: u32) -> Vec<f32> {
    let mut gaussian = vec![0.0f32; n * n];
    noise.fill(u32::MAX, pair, 0..n * n, &mut gaussian);
    let mut basis: Vec<f64> = gaussian.iter().map(|&x| x.into()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for k in 0..n {
        let (done, rest) = basis.split_at_mut(k * n);
        let vector = &mut rest[..n];
        // Twice is enough (Kahan, Parlett): what the first pass leaves is rounding.
        for _ in 0..2 {
            for other in done.chunks_exact(n) {
                let along = dot(other, vector);
                vector.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
            }
        }
        let norm = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    basis.into_iter().map(|x| x as f32).collect()
}
