//! Why rescaling block singular values rotates a matrix: the rotation theorem, its exact criteria, and what to
//! measure.
//!
//! Everything here is an analysis in `f64`, for research and reports; training does not call it. Cut the columns of
//! `W` (`m x n`) into blocks and stretch the input by `1 + c_k` along the right singular vectors `e_k` of the
//! blocks ([`BlockFrame`]): `W' = W (I + M)`, `M = sum_k c_k e_k e_k^T`. Let `W = U diag(sigma) V^T` be the
//! decomposition of the *whole* matrix ([`Svd`]) and `A = V^T M V` ([`generator`]). Along `W (I + t M)`, with
//! `dU = U Omega^U` and `dV = V Omega^V`, for simple nonzero singular values,
//!
#![doc = include_str!("formulas/rotation.html")]
//!
//! In words: the diagonal of `A` changes singular values; all the rest of it rotates singular vectors, left and
//! right together, and more the closer two singular values are ([`FirstOrder`]).
//!
//! - One block gives `A = diag(c)`: no rotation. Two or more blocks of generic weights rotate for all coordinates
//!   that are not constant ([`OverlapGraph`]).
//! - Singular values hardly move: `tau sqrt(3 / (n + 2))` in relative norm for coordinates of deviation `tau`
//!   ([`expectation`]), and never beyond `min(1 + c)` and `max(1 + c)` times what they were ([`ostrowski`]).
//! - What an update did is measured with [`diagnostics`], and compared at equal norm with the random changes of
//!   [`perturbation`].
//!
//! ```
//! use fura_core::rotation::diagnostics::{left_residual, spectral_shift};
//! use fura_core::rotation::{BlockFrame, Matrix, Svd};
//!
//! let w = Matrix::from_fn(6, 4, |i, j| ((i * 5 + j * 3) % 7) as f64 - 3.0);
//! let svd = Svd::thin(&w)?;
//! let c = [0.3, -0.2, 0.1, -0.1];
//! // The residual of the left frame after a change by these coordinates, in blocks of `block`.
//! let residual = |block: usize| {
//!     let frame = BlockFrame::spectral(&w, block)?;
//!     Ok::<_, fura_core::rotation::RotationError>(left_residual(&svd, &(&w + &frame.change(&w, &c))))
//! };
//! assert!(residual(4)? < 1e-14); // one block only changes singular values
//! assert!(residual(2)? > 1e-2); // two rotate
//! # Ok::<(), fura_core::rotation::RotationError>(())
//! ```

mod criteria;
pub mod diagnostics;
mod error;
pub mod expectation;
mod first_order;
mod frame;
mod matrix;
pub mod perturbation;
mod svd;

pub use criteria::{OverlapGraph, ostrowski};
pub use error::RotationError;
pub use first_order::FirstOrder;
pub use frame::{BlockFrame, generator};
pub use matrix::Matrix;
pub use svd::Svd;
