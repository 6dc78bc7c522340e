//! Random changes of a weight matrix to compare, brought to one Frobenius norm.
//!
//! Each function returns the change `D`, not the changed matrix; `normal` gives independent standard normal
//! numbers, and the randomness is the caller's.

use super::{BlockFrame, Matrix};

/// Coordinates drawn independently for the directions of `frame`: FuRA-S, SVF (one block), channel scaling (blocks
/// of one channel) or the random-basis control, as the frame is.
///
/// # Panics
/// If the frame is not of `w`'s width.
pub fn block_coordinates(
    w: &Matrix,
    frame: &BlockFrame,
    norm: f64,
    normal: &mut dyn FnMut() -> f64,
) -> Matrix {
    let c: Vec<f64> = (0..frame.channels()).map(|_| normal()).collect();
    with_norm(&frame.change(w, &c), norm)
}

/// Independent noise on all entries.
pub fn dense(rows: usize, columns: usize, norm: f64, normal: &mut dyn FnMut() -> f64) -> Matrix {
    with_norm(&Matrix::from_fn(rows, columns, |_, _| normal()), norm)
}

/// A product `B A` of Gaussian factors of rank `rank`, as evolution strategies over LoRA make it.
pub fn low_rank(
    rows: usize,
    columns: usize,
    rank: usize,
    norm: f64,
    normal: &mut dyn FnMut() -> f64,
) -> Matrix {
    let b = Matrix::from_fn(rows, rank, |_, _| normal());
    let a = Matrix::from_fn(rank, columns, |_, _| normal());
    with_norm(&(&b * &a), norm)
}

/// `change` scaled to a Frobenius norm; a zero change stays zero.
pub fn with_norm(change: &Matrix, norm: f64) -> Matrix {
    match change.norm() {
        0.0 => change.clone(),
        now => change.scaled(norm / now),
    }
}
