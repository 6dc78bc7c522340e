//! Stands in for faer, which is nine tenths of what a fuzz target would compile: no reader decomposes a matrix by it. Of
//! its interface only what fura-core names is here; decompositions say that they did not converge, upon which the
//! canonical solver of fura-core takes over.
#![forbid(unsafe_code)]

use std::ops::{Add, Index, IndexMut, Sub};

/// A dense matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Mat<T> {
    rows: usize,
    columns: usize,
    entries: Vec<T>,
}

/// A matrix that is read.
#[derive(Debug, Clone, Copy)]
pub struct MatRef<'a, T>(&'a [T], usize, usize);

/// A matrix that is written.
#[derive(Debug)]
pub struct MatMut<'a, T>(#[expect(dead_code, reason = "nothing is written")] &'a mut [T]);

/// Whether a product is added.
#[derive(Debug)]
pub enum Accum {
    /// It is not.
    Replace,
}

/// Threads.
#[derive(Debug)]
pub enum Par {
    /// One.
    Seq,
}

impl Mat<f64> {
    /// All zeros.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self::from_fn(rows, columns, |_, _| 0.0)
    }

    /// By row and column.
    pub fn from_fn(rows: usize, columns: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let entries = (0..rows * columns).map(|k| entry(k / columns, k % columns)).collect();
        Self { rows, columns, entries }
    }

    /// Number of rows.
    pub fn nrows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn ncols(&self) -> usize {
        self.columns
    }

    /// The same entries.
    pub fn as_ref(&self) -> MatRef<'_, f64> {
        MatRef(&self.entries, self.rows, self.columns)
    }

    /// The same entries.
    pub fn as_mut(&mut self) -> MatMut<'_, f64> {
        MatMut(&mut self.entries)
    }

    /// Never called.
    pub fn transpose(&self) -> MatRef<'_, f64> {
        unimplemented!("no reader transposes")
    }

    /// Never called.
    pub fn norm_l2(&self) -> f64 {
        unimplemented!("no reader takes norms")
    }
}

impl Index<(usize, usize)> for Mat<f64> {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.entries[row * self.columns + column]
    }
}

impl IndexMut<(usize, usize)> for Mat<f64> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.entries[row * self.columns + column]
    }
}

impl Add for &Mat<f64> {
    type Output = Mat<f64>;

    /// Never called.
    fn add(self, _: Self) -> Mat<f64> {
        unimplemented!("no reader adds matrices")
    }
}

impl Sub for &Mat<f64> {
    type Output = Mat<f64>;

    /// Never called.
    fn sub(self, _: Self) -> Mat<f64> {
        unimplemented!("no reader subtracts matrices")
    }
}

impl<'a> MatRef<'a, f64> {
    /// From a slice.
    pub fn from_row_major_slice(entries: &'a [f64], rows: usize, columns: usize) -> Self {
        Self(entries, rows, columns)
    }

    /// Rows and columns.
    pub fn shape(self) -> (usize, usize) {
        (self.1, self.2)
    }

    /// Number of rows.
    pub fn nrows(self) -> usize {
        self.1
    }

    /// Number of columns.
    pub fn ncols(self) -> usize {
        self.2
    }

    /// The largest entry.
    pub fn norm_max(self) -> f64 {
        self.0.iter().fold(0.0, |most, entry| entry.abs().max(most))
    }

    /// Never called.
    pub fn subcols(self, _from: usize, _count: usize) -> Self {
        unimplemented!("no reader takes columns of a matrix")
    }

    /// The same entries.
    #[expect(clippy::wrong_self_convention, reason = "faer's name")]
    pub fn to_owned(self) -> Mat<f64> {
        Mat::from_fn(self.1, self.2, |row, column| self[(row, column)])
    }
}

impl Index<(usize, usize)> for MatRef<'_, f64> {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.0[row * self.2 + column]
    }
}

impl<'a> MatMut<'a, f64> {
    /// From a slice.
    pub fn from_column_major_slice_mut(entries: &'a mut [f64], _rows: usize, _columns: usize) -> Self {
        Self(entries)
    }

    /// Never called.
    pub fn subcols_mut(self, _from: usize, _count: usize) -> Self {
        unimplemented!("no reader writes columns of a matrix")
    }

    /// Never called.
    pub fn copy_from(self, _: &Mat<f64>) {
        unimplemented!("no reader copies matrices")
    }
}

pub mod diag {
    //! Diagonals.

    /// A diagonal that is written.
    #[derive(Debug)]
    pub struct DiagMut<'a>(#[expect(dead_code, reason = "nothing is written")] &'a mut [f64]);

    impl<'a> DiagMut<'a> {
        /// From a slice.
        pub fn from_slice_mut(entries: &'a mut [f64]) -> Self {
            Self(entries)
        }
    }
}

pub mod dyn_stack {
    //! Workspace, of which none is needed.

    /// A size.
    #[derive(Debug)]
    pub struct StackReq;

    impl StackReq {
        /// Nothing.
        pub fn size_bytes(&self) -> usize {
            0
        }
    }

    /// A buffer.
    #[derive(Debug)]
    pub struct MemBuffer;

    impl MemBuffer {
        /// An empty one.
        pub fn new(_: StackReq) -> Self {
            Self
        }
    }

    /// A buffer that is used.
    #[derive(Debug)]
    pub struct MemStack;

    impl MemStack {
        /// An empty one.
        pub fn new(_: &mut MemBuffer) -> Self {
            Self
        }
    }
}

pub mod linalg {
    //! Decompositions, which do not converge.

    pub mod matmul {
        //! Products.

        use crate::{Accum, MatMut, MatRef, Par};

        /// Never called.
        pub fn matmul(_: MatMut<'_, f64>, _: Accum, _: MatRef<'_, f64>, _: MatRef<'_, f64>, _: f64, _: Par) {
            unimplemented!("no reader multiplies matrices")
        }
    }

    pub mod svd {
        //! Singular values.

        use crate::diag::DiagMut;
        use crate::dyn_stack::{MemStack, StackReq};
        use crate::{MatMut, MatRef, Par};

        /// Which vectors.
        #[derive(Debug, Clone, Copy)]
        pub enum ComputeSvdVectors {
            /// All.
            Full,
            /// As many as values.
            Thin,
        }

        /// No workspace.
        pub fn svd_scratch<T>(
            _: usize,
            _: usize,
            _: ComputeSvdVectors,
            _: ComputeSvdVectors,
            _: Par,
            (): (),
        ) -> StackReq {
            StackReq
        }

        /// Does not converge.
        pub fn svd(
            _: MatRef<'_, f64>,
            _: DiagMut<'_>,
            _: Option<MatMut<'_, f64>>,
            _: Option<MatMut<'_, f64>>,
            _: Par,
            _: MemStack,
            (): (),
        ) -> Result<(), ()> {
            Err(())
        }
    }

    pub mod evd {
        //! Eigenvalues.

        use crate::diag::DiagMut;
        use crate::dyn_stack::{MemStack, StackReq};
        use crate::{MatMut, MatRef, Par};

        /// Whether vectors are wanted.
        #[derive(Debug)]
        pub enum ComputeEigenvectors {
            /// They are.
            Yes,
        }

        /// No workspace.
        pub fn self_adjoint_evd_scratch<T>(_: usize, _: ComputeEigenvectors, _: Par, (): ()) -> StackReq {
            StackReq
        }

        /// Does not converge.
        pub fn self_adjoint_evd(
            _: MatRef<'_, f64>,
            _: DiagMut<'_>,
            _: Option<MatMut<'_, f64>>,
            _: Par,
            _: MemStack,
            (): (),
        ) -> Result<(), ()> {
            Err(())
        }
    }
}
