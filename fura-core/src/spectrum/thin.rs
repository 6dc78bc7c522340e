//! The thin-SVD route: the block itself is decomposed, not its Gram matrix.

use std::ops::Range;

use faer::Mat;

use super::SpectrumError;
use crate::linalg;

/// Squared singular values of a column block to `values`, its right singular vectors to the rows of `frame`
/// (`width x width`: with a basis of the null space where the block has fewer rows than columns).
pub(super) fn decompose(
    weights: &[f32],
    stride: usize,
    columns: Range<usize>,
    frame: &mut [f64],
    values: &mut [f64],
) -> Result<(), SpectrumError> {
    let (rows, width) = (weights.len() / stride, columns.len());
    for (row, line) in weights.chunks_exact(stride).enumerate() {
        super::check_finite(row, columns.start, &line[columns.clone()])?;
    }
    let block = Mat::from_fn(rows, width, |row, j| f64::from(weights[row * stride + columns.start + j]));
    let Some(parts) = linalg::decompose(block.as_ref(), rows < width) else {
        return Err(SpectrumError::NoConvergence { columns });
    };
    values.fill(0.0);
    for (value, s) in values.iter_mut().zip(&parts.s) {
        *value = s * s;
    }
    for (k, vector) in frame.chunks_exact_mut(width).enumerate() {
        for (i, component) in vector.iter_mut().enumerate() {
            *component = parts.v[(i, k)];
        }
    }
    Ok(())
}
