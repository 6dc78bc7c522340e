//! Diagnostics on cases whose answer is known.

use crate::matrices::{gaussian, normals, orthonormal, with_spectrum};
use fura_core::rotation::diagnostics::{
    left_residual, participation, principal_angles, right_residual, spectral_concentration, spectral_share,
    spectral_shift, stable_rank, tail_change,
};
use fura_core::rotation::perturbation::{block_coordinates, dense, low_rank};
use fura_core::rotation::{BlockFrame, Matrix, Svd};
use proptest::prelude::*;

proptest! {
    /// Two planes turned against each other by known angles, tiny to right.
    #[test]
    fn principal_angles_are_those_put_in(
        logs in prop::collection::vec(-12.0f64..0.19, 3), rows in 6usize..12, seed: u64,
    ) {
        let mut angles: Vec<f64> = logs.iter().map(|log| 10f64.powf(*log)).collect();
        angles.sort_by(f64::total_cmp);
        let normal = &mut normals(seed);
        let q = orthonormal(rows, 6, normal);
        let turned = Matrix::from_fn(rows, 3, |i, k| angles[k].cos() * q[(i, k)] + angles[k].sin() * q[(i, k + 3)]);
        // The span matters, not its basis.
        let turned = &turned * &orthonormal(3, 3, normal);
        let found = principal_angles(&q, &turned, 3).unwrap();
        for (found, angle) in found.iter().zip(&angles) {
            prop_assert!((found - angle).abs() < 1e-14, "{found} {angle}");
        }
    }
}

#[test]
fn spectra_are_compared_relative_to_the_first() {
    assert_eq!(spectral_shift(&[3.0, 4.0], &[3.0, 4.5]), 0.1);
    assert_eq!(spectral_share(&[3.0, 4.0], &[3.0, 4.5], 2.0), 0.25);
    assert_eq!(stable_rank(&[2.0, 2.0, 1.0]), 2.25);
    assert_eq!(tail_change(&[5.0, 4.0, 2.0, 1.0], &[9.0, 9.0, 1.0, 1.25], 0.5), 0.375);
    assert_eq!(tail_change(&[5.0, 1.0], &[9.0, 1.5], 0.1), 0.5);
}

/// Scaling singular values is all spectrum; turning both frames is none; noise has the share of its diagonal.
#[test]
fn concentration_separates_scaling_from_turning() {
    let mut normal = normals(8);
    let (m, n) = (40, 24);
    let s: Vec<f64> = (0..n).map(|k| 1.0 + (n - k) as f64).collect();
    let w = with_spectrum(m, n, &s, &mut normal);
    let svd = Svd::thin(&w).unwrap();
    let scaling = block_coordinates(&w, &BlockFrame::spectral(&w, n).unwrap(), 1e-3, &mut normal);
    assert!((spectral_concentration(&svd, &scaling) / m as f64 - 1.0).abs() < 1e-10);
    let after = Svd::thin(&(&w + &scaling)).unwrap();
    assert!((spectral_share(svd.s(), after.s(), scaling.norm()) - 1.0).abs() < 1e-9);
    // U skew diag(s) V^T has a zero diagonal.
    let g = gaussian(n, n, &mut normal);
    let skew = &g - &g.transpose();
    let turning = Matrix::from_fn(n, n, |i, j| skew[(i, j)] * svd.s()[j]);
    let turning = &(svd.u() * &turning) * &svd.v().transpose();
    assert!(spectral_concentration(&svd, &turning) < 1e-25);
    let draws = 200;
    let noise: f64 = (0..draws).map(|_| spectral_concentration(&svd, &dense(m, n, 1.0, &mut normal))).sum();
    // A sum of n squares of unit variance has relative deviation sqrt(2 / n).
    let error = (2.0 / n as f64 / f64::from(draws)).sqrt();
    assert!((noise / f64::from(draws) - 1.0).abs() < 4.0 * error);
}

#[test]
fn participation_runs_from_one_direction_to_all() {
    let spread = 0.25f64.sqrt();
    let overlaps = Matrix::from_fn(2, 4, |i, k| if i == 0 { f64::from(u8::from(k == 2)) } else { spread });
    assert_eq!(participation(&overlaps), [1.0, 0.25]);
}

#[test]
fn residuals_see_turned_frames_and_nothing_else() {
    let mut normal = normals(9);
    let w = with_spectrum(5, 8, &[5.0, 4.0, 3.0, 2.0, 1.0], &mut normal);
    let svd = Svd::full(&w).unwrap();
    let sized = |s: [f64; 5]| {
        let scaled = Matrix::from_fn(5, 5, |i, k| svd.u()[(i, k)] * s[k]);
        &scaled * &svd.v().column_range(0..5).transpose()
    };
    // Scaled, reordered and sign-flipped singular values keep both frames.
    let reordered = sized([1.0, 9.0, -3.0, 0.0, 7.0]);
    assert!(left_residual(&svd, &reordered) < 1e-14 && right_residual(&svd, &reordered) < 1e-14);
    // One rotation from the left leaves the right frame alone.
    let turned = &orthonormal(5, 5, &mut normal) * &w;
    assert!(left_residual(&svd, &turned) > 0.1 && right_residual(&svd, &turned) < 1e-14);
    let turned = &w * &orthonormal(8, 8, &mut normal);
    assert!(left_residual(&svd, &turned) < 1e-14 && right_residual(&svd, &turned) > 0.1);
}

#[test]
fn perturbations_have_the_norm_and_rank_asked_for() {
    let mut normal = normals(10);
    let w = gaussian(12, 9, &mut normal);
    let frame = BlockFrame::random(9, 4, &mut normal).unwrap();
    let changes = [
        block_coordinates(&w, &frame, 0.3, &mut normal),
        dense(12, 9, 0.3, &mut normal),
        low_rank(12, 9, 2, 0.3, &mut normal),
    ];
    assert!(changes.iter().all(|change| (change.norm() - 0.3).abs() < 1e-15));
    assert_eq!(changes.each_ref().map(|change| Svd::thin(change).unwrap().rank()), [9, 9, 2]);
    // A zero matrix has only the zero change.
    let zero = Matrix::from_fn(12, 9, |_, _| 0.0);
    assert_eq!(block_coordinates(&zero, &frame, 0.3, &mut normal).norm(), 0.0);
}
