//! Expected drift and rotation: exact averages, Monte Carlo, general position, and independent golden values.

use crate::matrices::{gaussian, generic, normals, with_spectrum};
use fura_core::rotation::diagnostics::{participation, spectral_shift};
use fura_core::rotation::expectation::{
    drift, drift_in_general_position, drift_of_dense_noise, left_rotation, left_rotation_of_dense_noise,
};
use fura_core::rotation::perturbation::{dense, low_rank};
use fura_core::rotation::{BlockFrame, FirstOrder, Matrix, Svd, generator};
use proptest::prelude::*;

const TAU: f64 = 0.1;

/// All `2^n` sign patterns times `TAU`. Coordinates that are independent with mean 0 and variance `TAU^2` give the
/// same averages of everything linear or quadratic in them, so these averages are exact.
fn all_signs(n: usize) -> impl Iterator<Item = Vec<f64>> {
    (0..1u32 << n).map(move |bits| (0..n).map(|k| if bits >> k & 1 == 1 { TAU } else { -TAU }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// `E W' W'^T = (1 + tau^2) W W^T`: on average even the small singular values keep their scale. And
    /// `E |W' - W|^2 = tau^2 |W|^2` for every block size, which is what makes norms comparable.
    #[test]
    fn the_left_gram_matrix_keeps_its_shape((w, block, _) in generic(true).prop_filter("small", |(w, ..)| w.columns() <= 10)) {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let n = w.columns();
        let mut mean = Matrix::from_fn(w.rows(), w.rows(), |_, _| 0.0);
        let mut square = 0.0;
        for c in all_signs(n) {
            let change = frame.change(&w, &c);
            square += change.norm().powi(2) / (1u32 << n) as f64;
            let changed = &w + &change;
            mean = &mean + &(&changed * &changed.transpose()).scaled(1.0 / (1u32 << n) as f64);
        }
        let expected = (&w * &w.transpose()).scaled(1.0 + TAU * TAU);
        prop_assert!((&mean - &expected).norm() < 1e-12 * expected.norm());
        prop_assert!((square / (TAU * w.norm()).powi(2) - 1.0).abs() < 1e-12);
    }

    /// The closed forms are the averages of the first-order theorem.
    #[test]
    fn closed_forms_average_the_theorem((w, block, _) in generic(false).prop_filter("small", |(w, ..)| w.columns() <= 10)) {
        let (svd, frame) = (Svd::thin(&w).unwrap(), BlockFrame::spectral(&w, block).unwrap());
        let (n, overlaps) = (w.columns(), frame.overlaps(&svd));
        let (mut shift, mut rotation) = (0.0, Matrix::from_fn(n, n, |_, _| 0.0));
        let weight = 1.0 / (1u32 << n) as f64 / (TAU * TAU);
        for c in all_signs(n) {
            let first = FirstOrder::of_input_stretch(&svd, &generator(&overlaps, &c)).unwrap();
            shift += weight * first.singular_values.iter().map(|d| d * d).sum::<f64>();
            rotation = &rotation + &Matrix::from_fn(n, n, |i, j| weight * first.left[(i, j)].powi(2));
        }
        let expected = drift(svd.s(), &participation(&overlaps));
        prop_assert!((shift.sqrt() / w.norm() / expected - 1.0).abs() < 1e-12);
        let expected = left_rotation(svd.s(), &overlaps);
        prop_assert!((&rotation - &expected).norm() <= 1e-12 * expected.norm());
    }
}

/// The mean of a matrix-valued sample, and the root mean square error of that mean in Frobenius norm.
fn mean(draws: usize, mut draw: impl FnMut() -> Matrix) -> (Matrix, f64) {
    let first = draw();
    let (mut sum, mut squares) = (first.clone(), first.norm().powi(2));
    for _ in 1..draws {
        let next = draw();
        squares += next.norm().powi(2);
        sum = &sum + &next;
    }
    let mean = sum.scaled(1.0 / draws as f64);
    let variance = squares / draws as f64 - mean.norm().powi(2);
    (mean, (variance / (draws - 1) as f64).sqrt())
}

/// With normal coordinates, within three standard errors; and independent noise of equal norm does what
/// coordinates do not: it adds `tau^2 |W|^2 / m` to every eigenvalue, which overwrites the small ones.
#[test]
fn normal_coordinates_keep_the_left_gram_matrix_and_noise_does_not() {
    let mut normal = normals(3);
    let (m, n) = (12, 18);
    let w = with_spectrum(m, n, &(0..m).map(|k| 0.5f64.powi(k as i32)).collect::<Vec<_>>(), &mut normal);
    let gram = |changed: &Matrix| changed * &changed.transpose();
    let frame = BlockFrame::spectral(&w, 6).unwrap();
    let (average, error) = mean(4000, || {
        let c: Vec<f64> = (0..n).map(|_| TAU * normal()).collect();
        gram(&(&w + &frame.change(&w, &c)))
    });
    let kept = gram(&w).scaled(1.0 + TAU * TAU);
    assert!((&average - &kept).norm() < 3.0 * error);
    let deviation = TAU * w.norm() / ((m * n) as f64).sqrt();
    let (average, error) = mean(4000, || gram(&(&w + &gaussian(m, n, &mut normal).scaled(deviation))));
    let overwritten = &gram(&w)
        + &Matrix::from_fn(m, m, |i, j| if i == j { n as f64 * deviation * deviation } else { 0.0 });
    assert!((&average - &overwritten).norm() < 3.0 * error);
    assert!((&average - &kept).norm() > 10.0 * error);
}

/// Noise on all entries, and on average low-rank noise too, has the closed forms of the general theorem.
#[test]
fn dense_and_low_rank_noise_have_their_closed_forms() {
    let mut normal = normals(4);
    let (m, n) = (9, 6);
    let w = with_spectrum(m, n, &[6.0, 5.0, 3.5, 2.5, 1.5, 1.0], &mut normal);
    let svd = Svd::thin(&w).unwrap();
    let expected = left_rotation_of_dense_noise(svd.s(), m, n);
    for rank in [0, 1, 4] {
        let mut shift = 0.0;
        let (draws, norm) = (20_000, TAU * w.norm());
        let (average, error) = mean(draws, || {
            let change = match rank {
                0 => dense(m, n, norm, &mut normal),
                rank => low_rank(m, n, rank, norm, &mut normal),
            };
            let p = &(&svd.u().transpose() * &change) * svd.v();
            let first = FirstOrder::of_change(&svd, &p).unwrap();
            shift += first.singular_values.iter().map(|d| d * d).sum::<f64>() / draws as f64;
            Matrix::from_fn(n, n, |i, j| first.left[(i, j)].powi(2) / (TAU * TAU))
        });
        assert!((&average - &expected).norm() < 3.5 * error, "rank {rank}");
        let relative = shift.sqrt() / norm / drift_of_dense_noise(m, n);
        // The sum of n squares of 20,000 draws: a relative error of the root below 1 %.
        assert!((relative - 1.0).abs() < 0.02, "rank {rank}: {relative}");
    }
}

/// Singular vectors in general position to the directions: drift `tau sqrt(3 / (n + 2))` for every spectrum and
/// block size, one block included (of a random basis, which is not SVF).
#[test]
fn drift_in_general_position_needs_no_spectrum() {
    let n = 96;
    for (seed, spectrum) in
        [|_| 1.0, |k| 1.0 / (1.0 + k as f64).sqrt(), |k| 0.97f64.powi(k)].into_iter().enumerate()
    {
        let spectrum: fn(i32) -> f64 = spectrum;
        let mut normal = normals(seed as u64);
        let s: Vec<f64> = (0..n).map(|k| spectrum(k) + 1e-4 * f64::from(n - k)).collect();
        let w = with_spectrum(n as usize, n as usize, &s, &mut normal);
        let svd = Svd::thin(&w).unwrap();
        let energy: Vec<f64> = svd.s().iter().map(|s| s * s).collect();
        let total: f64 = energy.iter().sum();
        for block in [1, 8, 32, 96] {
            let frame = BlockFrame::random(n as usize, block, &mut normal).unwrap();
            let ratios = participation(&frame.overlaps(&svd));
            // E a^4 = 3/n^2 and E a^8 = 105/n^4 of a Haar entry, so IPR has the relative deviation sqrt(96/9/n); its
            // weighted mean falls with the energies' spread, and the root halves it. Five deviations.
            let spread = energy.iter().map(|e| (e / total).powi(2)).sum::<f64>().sqrt();
            let bound = 5.0 * 0.5 * (96.0 / 9.0 / f64::from(n)).sqrt() * spread;
            let ratio = drift(svd.s(), &ratios) / drift_in_general_position(n as usize);
            assert!((ratio - 1.0).abs() < bound, "block {block}: {ratio}, bound {bound}");
            assert!(bound < 0.25);
        }
    }
}

/// The spectrum's measured shift at a finite size is the expected one.
#[test]
fn finite_changes_drift_as_expected() {
    let mut normal = normals(6);
    let (n, tau, draws) = (48, 1e-3, 40);
    // Well apart, so that a change of this size is small against the gaps.
    let s: Vec<f64> = (0..n).map(|k| 1.0 + 0.2 * (n - k) as f64).collect();
    let w = with_spectrum(n, n, &s, &mut normal);
    let svd = Svd::thin(&w).unwrap();
    let frame = BlockFrame::spectral(&w, 8).unwrap();
    let expected = tau * drift(svd.s(), &participation(&frame.overlaps(&svd)));
    let squares: Vec<f64> = (0..draws)
        .map(|_| {
            let c: Vec<f64> = (0..n).map(|_| tau * normal()).collect();
            let after = Svd::thin(&(&w + &frame.change(&w, &c))).unwrap();
            (spectral_shift(svd.s(), after.s()) / expected).powi(2)
        })
        .collect();
    let mean = squares.iter().sum::<f64>() / draws as f64;
    let variance = squares.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (draws - 1) as f64;
    assert!((mean - 1.0).abs() < 3.0 * (variance / draws as f64).sqrt(), "{mean}");
}

/// Values computed independently of this crate (numpy) for one draw each of square matrices of 256 channels with
/// Gaussian entries, and with random frames and singular values `k^-0.5` and `k^-1`.
#[test]
fn golden_drifts_of_synthetic_spectra() {
    const BLOCKS: [usize; 5] = [256, 64, 16, 4, 1];
    const DRAWS: usize = 8;
    let golden = [
        (0.0, [1.0, 0.137, 0.115, 0.108, 0.108]),
        (0.5, [1.0, 0.296, 0.157, 0.118, 0.108]),
        (1.0, [1.0, 0.478, 0.247, 0.141, 0.110]),
    ];
    let n = 256;
    for (power, golden) in golden {
        let draw = |seed| {
            let mut normal = normals(seed);
            let w = if power == 0.0 {
                gaussian(n, n, &mut normal)
            } else {
                let s: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-power)).collect();
                with_spectrum(n, n, &s, &mut normal)
            };
            let svd = Svd::thin(&w).unwrap();
            BLOCKS.map(|block| {
                let frame = BlockFrame::spectral(&w, block).unwrap();
                drift(svd.s(), &participation(&frame.overlaps(&svd)))
            })
        };
        let draws: Vec<[f64; 5]> = (1..=DRAWS as u64).map(draw).collect();
        for (k, golden) in golden.into_iter().enumerate() {
            let values = || draws.iter().map(|draw| draw[k]);
            let mean = values().sum::<f64>() / DRAWS as f64;
            let deviation = (values().map(|x| (x - mean).powi(2)).sum::<f64>() / (DRAWS - 1) as f64).sqrt();
            eprintln!("k^-{power} block {}: {mean:.4} +- {deviation:.4}, golden {golden}", BLOCKS[k]);
            // One draw against eight: within four deviations, and the rounding of the golden value.
            assert!((mean - golden).abs() <= 4.0 * deviation + 0.0006, "k^-{power} block {}", BLOCKS[k]);
        }
    }
}
