//! Dense f64 linear algebra from faer: sequential, whatever features and global settings faer is built with.
//!
//! Together with `spectrum/fast.rs` the only module that knows faer, whose API moves with each 0.x release.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::matmul::matmul;
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::{Accum, Mat, MatRef, Par};

/// Singular values, descending, with left and right singular vectors as columns.
pub(crate) struct SvdParts {
    pub(crate) u: Mat<f64>,
    pub(crate) s: Vec<f64>,
    pub(crate) v: Mat<f64>,
}

/// The singular value decomposition of a finite matrix: with square `u` and `v` if `full`, otherwise with as many
/// columns as there are singular values. `None` where it did not converge.
pub(crate) fn decompose(a: MatRef<'_, f64>, full: bool) -> Option<SvdParts> {
    let (m, n) = a.shape();
    let q = m.min(n);
    let vectors = if full { ComputeSvdVectors::Full } else { ComputeSvdVectors::Thin };
    let (rows, columns) = if full { (m, n) } else { (q, q) };
    let mut parts = SvdParts { u: Mat::zeros(m, rows), s: vec![0.0; q], v: Mat::zeros(n, columns) };
    // The algorithm squares entries; powers of two scale exactly.
    let exponent = match a.norm_max() {
        0.0 => 0,
        largest => libm::ilogb(largest),
    };
    let down = libm::scalbn(1.0, -exponent);
    let scaled = Mat::from_fn(m, n, |i, j| a[(i, j)] * down);
    let scratch = svd_scratch::<f64>(m, n, vectors, vectors, Par::Seq, Default::default());
    svd(
        scaled.as_ref(),
        DiagMut::from_slice_mut(&mut parts.s),
        Some(parts.u.as_mut()),
        Some(parts.v.as_mut()),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    )
    .ok()?;
    parts.s.iter_mut().for_each(|s| *s = libm::scalbn(*s, exponent));
    Some(parts)
}

/// `a b`.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows(), b.ncols());
    matmul(out.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    out
}
