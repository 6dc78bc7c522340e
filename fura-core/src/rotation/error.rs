//! What can go wrong with an analysis.

/// Why an analysis could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// A matrix has no entries.
    #[error("rotation: the matrix is {rows} x {columns}, expected at least 1 x 1")]
    Empty {
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// An entry is NaN or infinite.
    #[error("rotation: the entry at row {row}, column {column} is {value}; the weights are damaged")]
    NonFinite {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
        /// The value found.
        value: f64,
    },
    /// The singular value decomposition did not converge.
    #[error("rotation: the decomposition of a {rows} x {columns} matrix did not converge; please report it")]
    NoConvergence {
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// Two nonzero singular values coincide, so their singular vectors have no derivative.
    #[error(
        "rotation: singular values {i} and {j} are both {value:e} to rounding, so their vectors are not unique; \
         only the subspace they span can be compared"
    )]
    Degenerate {
        /// The first.
        i: usize,
        /// The second.
        j: usize,
        /// Their value.
        value: f64,
    },
}
