//! Closed forms of the expected drift and rotation under random coordinates.
//!
//! Coordinates are independent with mean 0 and variance `tau^2`. Drift is the root mean square of the relative
//! change of the spectrum, `|sigma' - sigma| / |sigma|`, to first order and divided by `tau`; rotations are mean
//! squares of generator entries, divided by `tau^2`. Noise of another kind is compared at the same expected
//! norm, `tau |W|`, which is exactly what coordinates of any block size have.

use super::Matrix;

/// Drift over `tau` of block spectral coordinates:
///
#[doc = include_str!("../formulas/drift.html")]
///
/// In words: a singular value drifts as far as its vector is concentrated on few block directions.
///
/// # Panics
/// If there are fewer participation ratios than singular values.
pub fn drift(s: &[f64], participation: &[f64]) -> f64 {
    assert!(s.len() <= participation.len(), "a participation ratio for each singular value");
    let energy: f64 = s.iter().map(|s| s * s).sum();
    let moved: f64 = s.iter().zip(participation).map(|(s, ipr)| s * s * ipr).sum();
    (moved / energy).sqrt()
}

/// Drift over `tau` if singular vectors are in general position to the block directions:
/// `sqrt(3 / (n + 2))` for `n` input channels, whatever the block size.
///
/// ```
/// assert!((fura_core::rotation::expectation::drift_in_general_position(576) - 0.0720).abs() < 1e-4);
/// ```
pub fn drift_in_general_position(channels: usize) -> f64 {
    (3.0 / (channels as f64 + 2.0)).sqrt()
}

/// Drift over `tau` of independent noise on all entries of an `m x n` matrix, and, averaged over its factors,
/// of a low-rank change: `1 / sqrt(max(m, n))`.
pub fn drift_of_dense_noise(rows: usize, columns: usize) -> f64 {
    1.0 / (rows.max(columns) as f64).sqrt()
}

/// Mean squares over `tau^2` of the left generator's entries under block spectral coordinates:
///
#[doc = include_str!("../formulas/rotation_variance.html")]
///
/// `a` are the [`overlaps`](super::BlockFrame::overlaps). The entry of two equal singular values is infinite or NaN.
///
/// # Panics
/// If there are fewer rows of overlaps than singular values.
pub fn left_rotation(s: &[f64], overlaps: &Matrix) -> Matrix {
    let q = s.len();
    assert!(q <= overlaps.rows(), "a row of overlaps for each singular value");
    let squares = Matrix::from_fn(q, overlaps.columns(), |i, k| overlaps[(i, k)].powi(2));
    let shared = &squares * &squares.transpose();
    Matrix::from_fn(q, q, |i, j| match i == j {
        true => 0.0,
        false => 4.0 * (s[i] * s[j] / gap(s, i, j)).powi(2) * shared[(i, j)],
    })
}

/// The same for independent noise on all entries of an `m x n` matrix:
/// `(sigma_i^2 + sigma_j^2) / (sigma_j^2 - sigma_i^2)^2` times `|W|^2 / (m n)`. Averaged over the factors it is also
/// that of a low-rank change, as long as the change is small against the gaps.
pub fn left_rotation_of_dense_noise(s: &[f64], rows: usize, columns: usize) -> Matrix {
    let variance = s.iter().map(|s| s * s).sum::<f64>() / (rows as f64 * columns as f64);
    Matrix::from_fn(s.len(), s.len(), |i, j| match i == j {
        true => 0.0,
        false => variance * (s[i] * s[i] + s[j] * s[j]) / gap(s, i, j).powi(2),
    })
}

/// `sigma_j^2 - sigma_i^2`, factored to keep its digits.
fn gap(s: &[f64], i: usize, j: usize) -> f64 {
    (s[j] - s[i]) * (s[j] + s[i])
}
