//! The decomposition of a whole weight matrix.

use super::{Matrix, RotationError};
use crate::linalg;

/// `W = U diag(s) V^T` of a whole `m x n` weight matrix, `s` descending, vectors as columns.
///
/// ```
/// use fura_core::rotation::{Matrix, Svd};
/// let w = Matrix::from_rows(2, 3, &[0.0, 3.0, 0.0, 2.0, 0.0, 0.0]);
/// let thin = Svd::thin(&w)?;
/// assert_eq!((thin.s()[0], thin.s()[1], thin.v().columns()), (3.0, 2.0, 2));
/// assert_eq!(Svd::full(&w)?.v().columns(), 3);
/// # Ok::<(), fura_core::rotation::RotationError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Svd {
    u: Matrix,
    s: Vec<f64>,
    v: Matrix,
}

impl Svd {
    /// With `q = min(m, n)` vectors on both sides.
    ///
    /// # Errors
    /// An empty or non-finite matrix, or no convergence.
    pub fn thin(w: &Matrix) -> Result<Self, RotationError> {
        Self::decompose(w, false)
    }

    /// With square `U` and `V`: vectors `q` and later of the longer side span the null space.
    ///
    /// # Errors
    /// As [`thin`](Self::thin).
    pub fn full(w: &Matrix) -> Result<Self, RotationError> {
        Self::decompose(w, true)
    }

    fn decompose(w: &Matrix, full: bool) -> Result<Self, RotationError> {
        let (rows, columns) = (w.rows(), w.columns());
        if rows == 0 || columns == 0 {
            return Err(RotationError::Empty { rows, columns });
        }
        for row in 0..rows {
            for column in 0..columns {
                let value = w[(row, column)];
                if !value.is_finite() {
                    return Err(RotationError::NonFinite { row, column, value });
                }
            }
        }
        let parts = linalg::decompose(w.0.as_ref(), full);
        let parts = parts.ok_or(RotationError::NoConvergence { rows, columns })?;
        Ok(Self { u: Matrix(parts.u), s: parts.s, v: Matrix(parts.v) })
    }

    /// Left singular vectors, `m x q` or `m x m`.
    pub fn u(&self) -> &Matrix {
        &self.u
    }

    /// Singular values, `q` of them, descending.
    pub fn s(&self) -> &[f64] {
        &self.s
    }

    /// Right singular vectors, `n x q` or `n x n`.
    pub fn v(&self) -> &Matrix {
        &self.v
    }

    /// Number of singular values above `max(m, n) epsilon s_1`, below which they are rounding noise.
    pub fn rank(&self) -> usize {
        let size = self.u.rows().max(self.v.rows()) as f64;
        let floor = self.s[0] * size * f64::EPSILON;
        self.s.iter().take_while(|s| **s > floor).count()
    }
}
