//! What can go wrong with a decomposition.

use std::ops::Range;

/// Why a spectrum could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpectrumError {
    /// A dimension or the block size is zero, or the sizes do not fit memory.
    #[error("spectrum: weights {d_out} x {d_in} with block {block}: sizes must be at least 1 and fit memory")]
    BadSize {
        /// Rows.
        d_out: usize,
        /// Columns.
        d_in: usize,
        /// Block size.
        block: usize,
    },
    /// The weight slice does not have `d_out * d_in` elements.
    #[error("spectrum: {found} weights given, expected {expected} (d_out * d_in, row-major)")]
    Length {
        /// Elements expected.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// A weight is NaN or infinite.
    #[error(
        "spectrum: weight at row {row}, column {column} is {value}; the weights are damaged or were dequantized wrongly"
    )]
    NonFinite {
        /// Row in the linear.
        row: usize,
        /// Column in the linear.
        column: usize,
        /// The value found.
        value: f32,
    },
    /// A singular value is beyond `f32`.
    #[error(
        "spectrum: the block at columns {columns:?} has a singular value beyond f32; the weights are damaged"
    )]
    Overflow {
        /// The block's columns.
        columns: Range<usize>,
    },
    /// The eigensolver did not converge.
    #[error(
        "spectrum: the block at columns {columns:?} did not converge; please report its weights as a defect"
    )]
    NoConvergence {
        /// The block's columns.
        columns: Range<usize>,
    },
    /// The work was cancelled.
    #[error(
        "spectrum: cancelled with the first {done} of {blocks} blocks done; start again to have them all"
    )]
    Cancelled {
        /// Leading blocks that were done.
        done: usize,
        /// Blocks in all.
        blocks: usize,
    },
}

impl SpectrumError {
    /// The same error with columns counted `by` later: those of the linear, not of its block.
    pub(super) fn shifted(self, by: usize) -> Self {
        let shift = |columns: Range<usize>| columns.start + by..columns.end + by;
        match self {
            Self::NonFinite { row, column, value } => Self::NonFinite { row, column: column + by, value },
            Self::Overflow { columns } => Self::Overflow { columns: shift(columns) },
            Self::NoConvergence { columns } => Self::NoConvergence { columns: shift(columns) },
            other => other,
        }
    }
}
