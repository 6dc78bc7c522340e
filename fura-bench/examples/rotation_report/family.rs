//! The families of random changes that are compared.

use fura::core::rotation::perturbation::{block_coordinates, dense, low_rank};
use fura::core::rotation::{BlockFrame, Matrix, RotationError};

/// A family of random changes of a weight matrix.
#[derive(Clone, Copy, PartialEq)]
pub enum Family {
    /// FuRA-S with blocks of this size; 1 is channel scaling.
    Blocks(usize),
    /// Coordinates for random orthonormal directions in blocks of this size.
    RandomBlocks(usize),
    /// One block: the matrix's own singular values.
    WholeMatrix,
    /// Independent noise on all entries.
    Dense,
    /// A product of Gaussian factors of this rank.
    LowRank(usize),
}

impl Family {
    pub const ALL: [Family; 7] = [
        Family::Blocks(32),
        Family::Blocks(1),
        Family::RandomBlocks(32),
        Family::WholeMatrix,
        Family::Dense,
        Family::LowRank(16),
        Family::LowRank(1),
    ];

    pub fn name(&self) -> String {
        match self {
            Family::Blocks(1) => "channel scaling".to_owned(),
            Family::Blocks(b) => format!("FuRA-S, b = {b}"),
            Family::RandomBlocks(b) => format!("random bases, b = {b}"),
            Family::WholeMatrix => "SVF".to_owned(),
            Family::Dense => "i.i.d.".to_owned(),
            Family::LowRank(r) => format!("LoRA, r = {r}"),
        }
    }

    /// Whether the theorem says that nothing rotates. Angles between sorted vectors then mean nothing.
    pub fn keeps_frames(&self) -> bool {
        *self == Family::WholeMatrix
    }

    /// A change of `w` with Frobenius norm `norm`.
    pub fn draw(
        &self,
        w: &Matrix,
        norm: f64,
        normal: &mut dyn FnMut() -> f64,
    ) -> Result<Matrix, RotationError> {
        let (rows, columns) = (w.rows(), w.columns());
        Ok(match *self {
            Family::Blocks(b) => block_coordinates(w, &BlockFrame::spectral(w, b)?, norm, normal),
            Family::WholeMatrix => block_coordinates(w, &BlockFrame::spectral(w, columns)?, norm, normal),
            Family::RandomBlocks(b) => {
                block_coordinates(w, &BlockFrame::random(columns, b, normal)?, norm, normal)
            }
            Family::Dense => dense(rows, columns, norm, normal),
            Family::LowRank(r) => low_rank(rows, columns, r, norm, normal),
        })
    }
}
