//! Measures of what an update did to a weight matrix, as used for the updates of reinforcement learning.
//!
//! One trap: sorted singular vectors of two matrices cannot be compared where singular values cross. A change
//! that only rescales singular values, and rotates nothing, then shows angles of up to 90 degrees. Only
//! [`left_residual`] and [`right_residual`] decide whether frames moved; principal angles say how far leading
//! subspaces did.

use super::{Matrix, RotationError, Svd};

/// Normalized spectral shift `|sigma' - sigma| / |sigma|`, singular values sorted (arXiv 2511.08567).
///
/// # Panics
/// If the spectra differ in length.
pub fn spectral_shift(before: &[f64], after: &[f64]) -> f64 {
    distance(before, after) / norm(before)
}

/// Spectral share `|sigma' - sigma| / |dW|` of an update with Frobenius norm `change` (arXiv 2607.19331): 1 if
/// it only changes singular values, small if it only rotates.
///
/// # Panics
/// If the spectra differ in length.
pub fn spectral_share(before: &[f64], after: &[f64], change: f64) -> f64 {
    distance(before, after) / change
}

/// Spectral concentration of an update: the share of its squared norm on the diagonal of `U^T D V`, relative to
/// that of independent noise, `1 / max(m, n)`. Noise has 1, an update of singular values alone `max(m, n)`.
///
/// # Panics
/// If `change` is not of the shape of the decomposed matrix.
pub fn spectral_concentration(svd: &Svd, change: &Matrix) -> f64 {
    let q = svd.s().len();
    let along = &svd.u().column_range(0..q).transpose() * change;
    let v = svd.v();
    let diagonal: f64 =
        (0..q).map(|i| (0..v.rows()).map(|k| along[(i, k)] * v[(k, i)]).sum::<f64>().powi(2)).sum();
    diagonal / change.norm().powi(2) * change.rows().max(change.columns()) as f64
}

/// Principal angles, ascending, in radians, between the spans of the first `k` columns of two matrices with
/// orthonormal columns (A. Bjoerck and G. Golub, *Math. Comp.* 27, 1973): from cosines where they are large and
/// from sines where they are small, so that tiny angles keep their digits.
///
/// ```
/// use fura_core::rotation::{Matrix, diagnostics::principal_angles};
/// let a = Matrix::from_rows(3, 1, &[1.0, 0.0, 0.0]);
/// let b = Matrix::from_rows(3, 1, &[0.6, 0.8, 0.0]);
/// assert!((principal_angles(&a, &b, 1)?[0] - 0.8f64.asin()).abs() < 1e-7);
/// # Ok::<(), fura_core::rotation::RotationError>(())
/// ```
///
/// # Errors
/// As [`Svd::thin`].
///
/// # Panics
/// If the matrices have fewer than `k` columns, or different numbers of rows.
pub fn principal_angles(a: &Matrix, b: &Matrix, k: usize) -> Result<Vec<f64>, RotationError> {
    let (a, b) = (a.column_range(0..k), b.column_range(0..k));
    let shared = &a.transpose() * &b;
    let outside = &b - &(&a * &shared);
    let cosines = Svd::thin(&shared)?;
    let sines = Svd::thin(&outside)?;
    // Cosines descend, so angles ascend; sines descend with the angles. `outside` has min(rows, k) >= k of them.
    Ok((cosines.s().iter().zip(sines.s().iter().rev()))
        .map(
            |(cos, sin)| {
                if *cos < std::f64::consts::FRAC_1_SQRT_2 { cos.acos() } else { sin.min(1.0).asin() }
            },
        )
        .collect())
}

/// Inverse participation ratios `sum_k a_ik^4` of the rows of `overlaps`: 1 if singular vector `i` is one block
/// direction, `1 / n` if it is spread evenly over all.
pub fn participation(overlaps: &Matrix) -> Vec<f64> {
    let row = |i: usize| (0..overlaps.columns()).map(|k| overlaps[(i, k)].powi(4)).sum();
    (0..overlaps.rows()).map(row).collect()
}

/// Stable rank `sum sigma_i^2 / sigma_1^2`: how many directions share a matrix's norm. Descending singular values;
/// NaN for a zero matrix.
pub fn stable_rank(s: &[f64]) -> f64 {
    s.iter().map(|x| x * x).sum::<f64>() / (s[0] * s[0])
}

/// Mean relative change `|sigma' - sigma| / sigma` of the smallest `fraction` of the singular values (at least one):
/// what is done to the directions that hold little.
///
/// # Panics
/// If the spectra are empty or differ in length.
pub fn tail_change(before: &[f64], after: &[f64], fraction: f64) -> f64 {
    assert!(!before.is_empty() && before.len() == after.len(), "two spectra of equal length");
    let count = ((before.len() as f64 * fraction).round() as usize).clamp(1, before.len());
    let tail = before.iter().zip(after).rev().take(count);
    tail.map(|(before, after)| (after - before).abs() / before).sum::<f64>() / count as f64
}

/// How far the left singular frame of `w` fails to be one of `changed`: the off-diagonal part of `U^T W' W'^T U`,
/// relative to all of it, in Frobenius norm. 0 exactly if every left singular vector stayed; indifferent to their
/// order.
///
/// # Panics
/// If `changed` is not of the shape of the decomposed matrix.
pub fn left_residual(svd: &Svd, changed: &Matrix) -> f64 {
    let along = &svd.u().transpose() * changed;
    let gram = &along * &along.transpose();
    gram.off_diagonal_norm() / gram.norm()
}

/// The same of the right frame, from `V^T W'^T W' V`. For a wide matrix give [`Svd::full`]: without the null
/// space, what moves into it is not seen.
///
/// # Panics
/// If `changed` is not of the shape of the decomposed matrix.
pub fn right_residual(svd: &Svd, changed: &Matrix) -> f64 {
    let along = changed * svd.v();
    let gram = &along.transpose() * &along;
    gram.off_diagonal_norm() / gram.norm()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "two spectra of equal length");
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}
