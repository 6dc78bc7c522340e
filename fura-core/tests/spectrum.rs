//! Properties of block spectra.

use faer::{Mat, MatRef};
use fura_core::spectrum::{BlockQueue, BlockSpectrum, Decomposer, Solver, SpectrumError};
use fura_core::transform::Transform;
use fura_simd::Isa;
use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
        for solver in [Solver::Canonical, Solver::Fast, Solver::ThinSvd] {
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
            for solver in [Solver::Canonical, Solver::Fast, Solver::ThinSvd] {
                if let Err(error) = check(&w, width, &decompose(solver, &w, d_out, width)) {
                    panic!("{kind:?} {d_out} x {width}, {solver:?}: {error}");
                }
            }
        }
    }
}

/// The two routes side by side on a block whose singular values are known exactly: `H diag(s) H` with a Hadamard matrix
/// and powers of two down to `2^-20`, which `f32` holds without rounding.
#[test]
fn the_gram_route_loses_small_singular_values_and_the_svd_route_does_not() {
    let n = 16usize;
    let hadamard = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0f32 } else { -1.0 };
    let s = |k: usize| 0.5f32.powi((k * 20 / (n - 1)) as i32);
    let w: Vec<f32> =
        (0..n * n).map(|at| (0..n).map(|k| hadamard(at / n, k) * s(k) * hadamard(k, at % n)).sum()).collect();
    let worst = |solver| {
        let spectrum = decompose(solver, &w, n, n);
        // H has columns of norm 4.
        let relative = |k: usize| (f64::from(spectrum.s[k]) / f64::from(16.0 * s(k)) - 1.0).abs();
        (0..n).map(relative).fold(0.0, f64::max)
    };
    // 2^-53 s_1 / s_16 = 2^-33, then the rounding of f32.
    assert!(worst(Solver::ThinSvd) <= 2.0 * U, "{}", worst(Solver::ThinSvd));
    // Up to n 2^-53 (s_1 / s_16)^2 = 2^-9. (Jacobi rotations do better on graded matrices.)
    for solver in [Solver::Canonical, Solver::Fast] {
        let error = worst(solver);
        eprintln!("{solver:?}: {error:e}");
        assert!(2.0 * U < error && error < 2e-3, "{solver:?}: {error}");
    }
}

proptest! {
    /// Any number of the caller's threads, any order of blocks: the same bits.
    #[test]
    fn a_queue_gives_what_one_thread_gives(
        (kind, d_out, width, seed) in block(), size in 1usize..40, threads in 1usize..6,
    ) {
        let w = build(kind, d_out, width, seed);
        let fetch = fetch(&w, width);
        let queue = BlockQueue::new(d_out, width, size, &fetch).unwrap();
        let calls = Mutex::new(Vec::new());
        let progress = |done, of| calls.lock().unwrap().push((done, of));
        let cancel = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| queue.work(&mut Decomposer::default(), &progress, &cancel));
            }
        });
        let blocks = width.div_ceil(size);
        let mut calls = calls.into_inner().unwrap();
        calls.sort_unstable();
        prop_assert_eq!(calls, (1..=blocks).map(|done| (done, blocks)).collect::<Vec<_>>());
        let alone = Decomposer::default().decompose_linear(&w, d_out, width, size).unwrap();
        prop_assert_eq!(queue.finish().unwrap(), alone);
    }

    /// `W x'` is what scaled block singular values give, for every block size: one channel, one block, a short last
    /// one, blocks wider than the matrix is high. Coordinates of directions without a singular value do nothing.
    #[test]
    fn transforms_of_every_block_size(
        (kind, d_out, d_in, seed) in block().prop_filter("range", |b| !matches!(b.0, Kind::Tiny | Kind::Huge)),
        size in 1usize..44,
    ) {
        let w = build(kind, d_out, d_in, seed);
        let spectrum = Decomposer::default().decompose_linear(&w, d_out, d_in, size).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || (rng.next_u32() % 201) as f32 / 100.0 - 1.0;
        let (c, x): (Vec<f32>, Vec<f32>) = (0..d_in).map(|_| (0.9 * draw(), draw())).unzip();
        let mut transform = Transform::with_capacity(d_in, size);
        transform.materialize(Isa::detect(), spectrum.v(), &c, size);
        let mut transformed = vec![0.0; d_in];
        transform.apply(Isa::detect(), &x, &mut transformed);
        let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
        let largest = w.iter().fold(0.0f32, |m, w| m.max(w.abs()));
        for row in w.chunks_exact(d_in) {
            let mut expected = 0.0;
            for (columns, v, s) in spectrum.blocks() {
                for (k, v) in v.chunks_exact(columns.len()).enumerate() {
                    // A null direction, whose singular value is noise of the squared problem.
                    let null = s[k] <= 1e-6 * s[0];
                    let factor = if null { 1.0 } else { 1.0 + f64::from(c[columns.start + k]) };
                    expected += factor * dot(&row[columns.clone()], v) * dot(v, &x[columns.clone()]);
                }
            }
            // Rounding of V, T and x' in f32, over d_in terms of at most `largest` times 2, in blocks of up to 44.
            let bound = d_in as f64 * f64::from(largest) * 2.0 * 44.0 * 4.0 * U + 1e-30;
            prop_assert!((dot(row, &transformed) - expected).abs() <= bound);
        }
    }
}

/// A fetch from a row-major matrix.
fn fetch(w: &[f32], d_in: usize) -> impl Fn(std::ops::Range<usize>, &mut [f32]) + Sync {
    move |columns, out| {
        let rows = w.chunks_exact(d_in).flat_map(|row| &row[columns.clone()]);
        out.iter_mut().zip(rows).for_each(|(out, w)| *out = *w);
    }
}

#[test]
fn a_queue_can_be_cancelled_and_reports_the_first_error() {
    let mut w = build(Kind::Int4Grid, 3, 12, 1);
    let cancel = AtomicBool::new(false);
    {
        let fetch = fetch(&w, 12);
        let queue = BlockQueue::new(3, 12, 4, &fetch).unwrap();
        let stop = |done, _| cancel.store(done == 2, Ordering::Relaxed);
        queue.work(&mut Decomposer::default(), &stop, &cancel);
        // Asked again, it stays cancelled.
        queue.work(&mut Decomposer::default(), &stop, &cancel);
        assert_eq!(queue.finish(), Err(SpectrumError::Cancelled { done: 2, blocks: 3 }));
    }
    (w[7], w[12 + 9]) = (f32::NAN, f32::INFINITY);
    let fetch = fetch(&w, 12);
    let queue = BlockQueue::new(3, 12, 4, &fetch).unwrap();
    queue.work(&mut Decomposer::default(), &|_, _| (), &AtomicBool::new(false));
    assert!(matches!(queue.finish(), Err(SpectrumError::NonFinite { row: 0, column: 7, .. })));
    assert!(matches!(BlockQueue::new(3, 12, 0, &fetch), Err(SpectrumError::BadSize { .. })));
}
