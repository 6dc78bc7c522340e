//! Properties of block spectra.

use faer::{Mat, MatRef};
use fura_core::spectrum::{BlockSpectrum, Decomposer, Solver, SpectrumError};
use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// Weight blocks of the kinds that trouble eigensolvers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Int4Grid,
    RankDeficient,
    Zero,
    Constant,
    Graded,
    RepeatedColumns,
    ScaledAxes,
    Tiny,
    Huge,
}

const KINDS: [Kind; 9] = [
    Kind::Int4Grid,
    Kind::RankDeficient,
    Kind::Zero,
    Kind::Constant,
    Kind::Graded,
    Kind::RepeatedColumns,
    Kind::ScaledAxes,
    Kind::Tiny,
    Kind::Huge,
];

fn build(kind: Kind, d_out: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut code = || (rng.next_u32() % 16) as f32 - 8.0;
    let mut w: Vec<f32> = (0..d_out * width).map(|_| 0.01 * code()).collect();
    for r in 0..d_out {
        for j in 0..width {
            let x = &mut w[r * width + j];
            match kind {
                Kind::Int4Grid => {}
                Kind::RankDeficient => *x = ((r % 3 * (j + 1)) % 7) as f32 - 3.0,
                Kind::Zero => *x = 0.0,
                Kind::Constant => *x = 0.5,
                Kind::Graded => *x *= 0.25f32.powi(j as i32 % 12),
                Kind::RepeatedColumns => {}
                Kind::ScaledAxes => *x = if r == j { 3.0 } else { 0.0 },
                Kind::Tiny => *x *= 1e-36,
                Kind::Huge => *x *= 1e34,
            }
        }
        if let Kind::RepeatedColumns = kind {
            for j in 1..width {
                w[r * width + j] = w[r * width + j / 2];
            }
        }
    }
    w
}

fn block() -> impl Strategy<Value = (Kind, usize, usize, u64)> {
    (prop::sample::select(&KINDS[..]), 1usize..80, 1usize..40, any::<u64>())
}

fn decompose(solver: Solver, w: &[f32], d_out: usize, width: usize) -> BlockSpectrum {
    Decomposer::new(solver).decompose_block(w, d_out, width).unwrap()
}

/// Unit roundoff of f32, the rounding of the outputs.
const U: f64 = 1.0 / 16_777_216.0;

fn check(w: &[f32], width: usize, spectrum: &BlockSpectrum) -> Result<(), TestCaseError> {
    let n = width;
    let v = |k: usize, i: usize| f64::from(spectrum.v[k * n + i]);
    let s = |k: usize| f64::from(spectrum.s[k]);
    // Rounding moves component i by at most U |v_i|, so an inner product of unit vectors by at most
    // 2 U sum |v_i| |v'_i| <= 2 U (Cauchy-Schwarz); the solver's own f64 errors fit in the third U.
    for a in 0..n {
        for b in 0..n {
            let dot: f64 = (0..n).map(|i| v(a, i) * v(b, i)).sum();
            let want = f64::from(u8::from(a == b));
            prop_assert!((dot - want).abs() <= 3.0 * U, "{a} {b} {dot}");
        }
    }
    prop_assert!(spectrum.s.is_sorted_by(|a, b| a >= b));
    // G v = s^2 v up to rounding of v (U |G| both sides) and of s (2 U s^2): 4 U |G|_F in all.
    let g =
        |i: usize, j: usize| -> f64 { w.chunks_exact(n).map(|r| f64::from(r[i]) * f64::from(r[j])).sum() };
    let g: Vec<f64> = (0..n * n).map(|at| g(at / n, at % n)).collect();
    let norm = g.iter().map(|x| x * x).sum::<f64>().sqrt();
    for k in 0..n {
        let residual: f64 = (0..n)
            .map(|i| (0..n).map(|j| g[i * n + j] * v(k, j)).sum::<f64>() - s(k) * s(k) * v(k, i))
            .map(|x| x * x)
            .sum();
        // Singular values below the smallest normal f32 round absolutely, not relatively.
        let underflow = 2.0 * s(k) * f64::from(f32::MIN_POSITIVE) + 1e-76;
        prop_assert!(residual.sqrt() <= 4.0 * U * norm + underflow, "vector {k}");
        let vector = &spectrum.v[k * n..(k + 1) * n];
        let largest = vector.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        prop_assert_eq!(vector.iter().find(|x| x.abs() == largest), Some(&largest));
    }
    Ok(())
}

proptest! {
    #[test]
    fn frames_are_orthonormal_eigenvectors((kind, d_out, width, seed) in block()) {
        let w = build(kind, d_out, width, seed);
        for solver in [Solver::Canonical, Solver::Fast] {
            check(&w, width, &decompose(solver, &w, d_out, width))?;
        }
    }

    /// Against faer's f64 SVD of the block itself, which does not square the condition number.
    #[test]
    fn singular_values_agree_with_a_thin_svd((kind, d_out, width, seed) in block()) {
        let w = build(kind, d_out, width, seed);
        let wide: Mat<f64> =
            MatRef::from_row_major_slice(&w, d_out, width).map(|&x| f64::from(x)).to_owned();
        let svd = wide.thin_svd().unwrap();
        let expected = svd.S().column_vector();
        let s_1 = expected[0];
        let spectrum = decompose(Solver::Canonical, &w, d_out, width);
        for (k, &s) in spectrum.s.iter().enumerate() {
            let want = if k < d_out.min(width) { expected[k] } else { 0.0 };
            // |s^2 - want^2| <= e = c 2^-53 s_1^2, with c = d_out (summation) + 64 n (rotations),
            // so |s - want| is at most sqrt(e) and at most e / want; s and faer's own values
            // round on top.
            let e = (d_out + 64 * width) as f64 / 9_007_199_254_740_992.0 * s_1 * s_1;
            let bound = e.sqrt().min(e / want.max(f64::MIN_POSITIVE))
                + U * want.max(f64::from(f32::MIN_POSITIVE)) + 1e-14 * s_1;
            prop_assert!((f64::from(s) - want).abs() <= bound, "{k}: {s} {want} {bound}");
        }
    }

    /// Workspace left by other blocks, the surrounding matrix and the way it is fetched must
    /// not reach the result.
    #[test]
    fn bits_depend_on_the_block_alone(
        (kind, d_out, width, seed) in block(), size in 1usize..40,
    ) {
        let w = build(kind, d_out, width, seed);
        let mut used = Decomposer::default();
        used.decompose_block(&build(Kind::Int4Grid, 9, 40, seed), 9, 40).unwrap();
        let linear = used.decompose_linear(&w, d_out, width, size).unwrap();
        let cut = |columns: std::ops::Range<usize>| -> Vec<f32> {
            w.chunks_exact(width).flat_map(|row| row[columns.clone()].to_vec()).collect()
        };
        let fetched = used
            .decompose_columns(d_out, width, size, |columns, out| out.copy_from_slice(&cut(columns)))
            .unwrap();
        prop_assert_eq!(&fetched, &linear);
        prop_assert_eq!(linear.s().len(), width);
        for (columns, v, s) in linear.blocks() {
            let alone = decompose(Solver::Canonical, &cut(columns.clone()), d_out, columns.len());
            prop_assert_eq!(v, &alone.v[..]);
            prop_assert_eq!(s, &alone.s[..]);
        }
    }
}

/// Pinned on one machine and compared on all: the canonical solver's whole point.
#[test]
fn canonical_bits_are_pinned() {
    let mut hash = blake3::Hasher::new();
    for kind in KINDS {
        for (d_out, width) in [(96, 32), (5, 24), (1, 8), (64, 1)] {
            let spectrum = decompose(Solver::Canonical, &build(kind, d_out, width, 5), d_out, width);
            for x in spectrum.v.iter().chain(&spectrum.s) {
                hash.update(&x.to_bits().to_le_bytes());
            }
        }
    }
    assert_eq!(
        hash.finalize().to_hex().as_str(),
        "eb7da439d13c396754f1c5e044291d2d1bcfba72efdcdfec737c9b0102e247b3"
    );
}

#[test]
fn degenerate_spectra_keep_the_axes() {
    for kind in [Kind::Zero, Kind::ScaledAxes] {
        let spectrum = decompose(Solver::Canonical, &build(kind, 6, 6, 0), 6, 6);
        for (k, vector) in spectrum.v.chunks_exact(6).enumerate() {
            assert!(vector.iter().enumerate().all(|(i, &x)| x == f32::from(u8::from(i == k))));
        }
    }
}

#[test]
fn one_channel_and_one_row() {
    let column = decompose(Solver::Canonical, &[3.0, -4.0], 2, 1);
    assert_eq!((column.v, column.s), (vec![1.0], vec![5.0]));
    let row = decompose(Solver::Canonical, &[3.0, 4.0], 1, 2);
    assert_eq!(row.s[0], 5.0);
    assert_eq!(row.v[..2], [0.6, 0.8]);
    // The null vector is orthogonal to it, its singular value noise of the squared problem.
    assert!(row.s[1] < 5.0 * 1e-7);
}

#[test]
fn bad_input_is_an_error() {
    let mut d = Decomposer::default();
    let error = |result: Result<BlockSpectrum, _>| result.unwrap_err();
    assert!(matches!(error(d.decompose_block(&[], 0, 1)), SpectrumError::BadSize { .. }));
    assert!(matches!(
        error(d.decompose_block(&[1.0], usize::MAX, usize::MAX)),
        SpectrumError::BadSize { .. }
    ));
    assert!(matches!(
        error(d.decompose_block(&[1.0; 5], 2, 3)),
        SpectrumError::Length { expected: 6, found: 5 }
    ));
    for bad in [f32::NAN, f32::INFINITY] {
        let w = [1.0, 2.0, 3.0, 4.0, 5.0, bad];
        let fetched = d.decompose_columns(2, 3, 2, |columns, out| {
            let rows = w.chunks_exact(3).flat_map(|row| &row[columns.clone()]);
            out.iter_mut().zip(rows).for_each(|(out, w)| *out = *w);
        });
        for result in [d.decompose_linear(&w, 2, 3, 2), fetched] {
            assert!(matches!(result, Err(SpectrumError::NonFinite { row: 1, column: 2, .. })));
        }
    }
    assert!(matches!(error(d.decompose_block(&[f32::MAX; 2], 1, 2)), SpectrumError::Overflow { .. }));
}

/// Wide enough for faer to divide and conquer, which loses digits on matrices far from unit scale.
#[test]
fn wide_blocks_of_every_kind() {
    for kind in KINDS {
        for (d_out, width) in [(20, 160), (300, 200)] {
            let w = build(kind, d_out, width, 3);
            for solver in [Solver::Canonical, Solver::Fast] {
                if let Err(error) = check(&w, width, &decompose(solver, &w, d_out, width)) {
                    panic!("{kind:?} {d_out} x {width}, {solver:?}: {error}");
                }
            }
        }
    }
}
