//! A dense f64 matrix, so that no linear algebra crate is part of the interface.

use std::ops::{Add, Index, IndexMut, Mul, Sub};

use faer::Mat;

use crate::linalg;

/// A dense `f64` matrix for the analyses of this module.
///
/// ```
/// use fura_core::rotation::Matrix;
/// let w = Matrix::from_rows(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert_eq!((w.rows(), w.columns(), w[(1, 0)]), (2, 3, 4.0));
/// assert_eq!((&w * &w.transpose())[(0, 1)], 32.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix(pub(super) Mat<f64>);

impl Matrix {
    /// The matrix whose entry in row `i`, column `j` is `entry(i, j)`.
    pub fn from_fn(rows: usize, columns: usize, entry: impl FnMut(usize, usize) -> f64) -> Self {
        Self(Mat::from_fn(rows, columns, entry))
    }

    /// From row-major weights, such as a dequantized `d_out x d_in` layer.
    ///
    /// # Panics
    /// If there are not `rows * columns` of them.
    pub fn from_rows(rows: usize, columns: usize, weights: &[f32]) -> Self {
        assert_eq!(Some(weights.len()), rows.checked_mul(columns), "weights of a {rows} x {columns} matrix");
        Self::from_fn(rows, columns, |i, j| f64::from(weights[i * columns + j]))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.nrows()
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.0.ncols()
    }

    /// The transpose.
    pub fn transpose(&self) -> Self {
        Self(self.0.transpose().to_owned())
    }

    /// This matrix times a number.
    pub fn scaled(&self, by: f64) -> Self {
        Self::from_fn(self.rows(), self.columns(), |i, j| self[(i, j)] * by)
    }

    /// Columns `range` alone.
    ///
    /// # Panics
    /// If there are no such columns.
    pub fn column_range(&self, range: std::ops::Range<usize>) -> Self {
        Self(self.0.as_ref().subcols(range.start, range.len()).to_owned())
    }

    /// Frobenius norm, the root of the sum of squares.
    pub fn norm(&self) -> f64 {
        self.0.norm_l2()
    }

    /// Frobenius norm without the diagonal.
    pub fn off_diagonal_norm(&self) -> f64 {
        let mut off = self.0.clone();
        (0..self.rows().min(self.columns())).for_each(|i| off[(i, i)] = 0.0);
        off.norm_l2()
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;
    fn index(&self, at: (usize, usize)) -> &f64 {
        &self.0[at]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, at: (usize, usize)) -> &mut f64 {
        &mut self.0[at]
    }
}

impl Mul for &Matrix {
    type Output = Matrix;
    /// # Panics
    /// If the inner sizes differ.
    fn mul(self, other: &Matrix) -> Matrix {
        Matrix(linalg::product(self.0.as_ref(), other.0.as_ref()))
    }
}

impl Add for &Matrix {
    type Output = Matrix;
    /// # Panics
    /// If the shapes differ.
    fn add(self, other: &Matrix) -> Matrix {
        Matrix(&self.0 + &other.0)
    }
}

impl Sub for &Matrix {
    type Output = Matrix;
    /// # Panics
    /// If the shapes differ.
    fn sub(self, other: &Matrix) -> Matrix {
        Matrix(&self.0 - &other.0)
    }
}
