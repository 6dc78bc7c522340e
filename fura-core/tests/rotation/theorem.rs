//! The identity, the first-order theorem, the one-block case.

use crate::matrices::{Kind, build, coordinates, generic, normals, weights, with_spectrum};
use fura_core::rotation::diagnostics::{left_residual, principal_angles, right_residual};
use fura_core::rotation::{BlockFrame, FirstOrder, Matrix, RotationError, Svd, generator, ostrowski};
use proptest::prelude::*;

proptest! {
    /// `W (I + M)` is `U_k diag(s_k (1 + c_k)) V_k^T` block by block, and acts as `W` on the transformed input.
    #[test]
    fn stretching_the_input_scales_block_singular_values((_, w, block, c) in weights(), seed: u64) {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let changed = &w + &frame.change(&w, &c);
        let scale = 1e-12 * w.norm();
        for first in (0..w.columns()).step_by(block) {
            let columns = first..(first + block).min(w.columns());
            let part = w.column_range(columns.clone());
            // The frame of a block wider than `w` is high comes from the full decomposition.
            let svd = if part.rows() < part.columns() { Svd::full(&part) } else { Svd::thin(&part) }.unwrap();
            let scaled = Matrix::from_fn(w.rows(), svd.s().len(), |i, k| {
                svd.u()[(i, k)] * svd.s()[k] * (1.0 + c[first + k])
            });
            let expected = &scaled * &svd.v().column_range(0..svd.s().len()).transpose();
            prop_assert!((&changed.column_range(columns) - &expected).norm() <= scale);
        }
        let x = coordinates(w.columns(), seed);
        let transformed = frame.transform(&x, &c);
        let column = |x: &[f64]| Matrix::from_fn(x.len(), 1, |i, _| x[i]);
        let difference = (&(&changed * &column(&x)) - &(&w * &column(&transformed))).norm();
        prop_assert!(difference <= scale * column(&x).norm());
    }

    /// All singular values, finite changes, every kind of spectrum.
    #[test]
    fn singular_values_stay_within_ostrowskis_bounds((_, w, block, c) in weights()) {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let (before, after) = (Svd::thin(&w).unwrap(), Svd::thin(&(&w + &frame.change(&w, &c))).unwrap());
        let rounding = 1e-13 * before.s()[0];
        for (s, (low, high)) in after.s().iter().zip(ostrowski(before.s(), &c)) {
            prop_assert!(low - rounding <= *s && *s <= high + rounding, "{low} {s} {high}");
        }
    }

    /// Decided by the residual: sorted singular vectors would show rotations where singular values cross.
    #[test]
    fn one_block_never_rotates((_, w, _, c) in weights()) {
        let frame = BlockFrame::spectral(&w, w.columns()).unwrap();
        let changed = &w + &frame.change(&w, &c);
        let svd = if w.rows() < w.columns() { Svd::full(&w) } else { Svd::thin(&w) }.unwrap();
        if w.norm() > 0.0 {
            prop_assert!(left_residual(&svd, &changed) < 1e-13);
            prop_assert!(right_residual(&svd, &changed) < 1e-13);
        }
    }

    #[test]
    fn generators_equal_finite_differences(
        (rows, columns, deficient) in (2usize..8, 2usize..8, 0usize..2),
        block in 1usize..6, gaps in prop::collection::vec(0.2f64..1.0, 8), seed: u64,
    ) {
        let normal = &mut normals(seed);
        let q = rows.min(columns);
        // Ascending from the gaps, so that simple singular values are well apart; descending order for the build.
        let mut s: Vec<f64> = gaps[..q].iter().scan(0.3, |s, gap| { *s += gap; Some(*s) }).collect();
        s.reverse();
        if deficient == 1 {
            s[q - 1] = 0.0;
        }
        let w = with_spectrum(rows, columns, &s, normal);
        let svd = Svd::full(&w).unwrap();
        prop_assert_eq!(svd.rank(), q - deficient);
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let c = coordinates(columns, seed);
        let stretch = frame.change(&w, &c);
        let a = generator(&frame.overlaps(&svd), &c);
        check(&w, &svd, &stretch, &FirstOrder::of_input_stretch(&svd, &a).unwrap())?;
        // A change of another kind moves left null vectors too, and has no symmetry.
        for change in [stretch, Matrix::from_fn(rows, columns, |_, _| normal())] {
            let p = &(&svd.u().transpose() * &change) * svd.v();
            check(&w, &svd, &change, &FirstOrder::of_change(&svd, &p).unwrap())?;
        }
    }

    /// `W (I + M)` has the column space of `W` exactly, so left null vectors stay.
    #[test]
    fn the_column_space_stays((w, block, seed) in generic(false)) {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let changed = &w + &frame.change(&w, &coordinates(w.columns(), seed));
        let (before, after) = (Svd::thin(&w).unwrap(), Svd::thin(&changed).unwrap());
        for angle in principal_angles(before.u(), after.u(), w.columns()).unwrap() {
            // Directions of small singular values are known to rounding over their size.
            prop_assert!(angle < 1e-13 * before.s()[0] / before.s()[w.columns() - 1].min(after.s()[w.columns() - 1]));
        }
    }
}

/// Compares a theory with central differences, extrapolated over two steps. Relative to the generator's norm.
fn check(w: &Matrix, svd: &Svd, change: &Matrix, theory: &FirstOrder) -> Result<(), TestCaseError> {
    let rank = svd.rank();
    let at = |t: f64| Svd::full(&(w + &change.scaled(t))).unwrap();
    let difference = |h: f64| {
        let (plus, minus) = (at(h), at(-h));
        let generator = |before: &Matrix, plus: &Matrix, minus: &Matrix| {
            let (plus, minus) = (&before.transpose() * plus, &before.transpose() * minus);
            Matrix::from_fn(before.columns(), rank, |i, j| {
                // The sign of a singular vector is arbitrary; near `t = 0` it overlaps itself.
                let aligned = |m: &Matrix| m[(i, j)] * m[(j, j)].signum();
                (aligned(&plus) - aligned(&minus)) / (2.0 * h)
            })
        };
        let s: Vec<f64> = plus.s().iter().zip(minus.s()).map(|(p, m)| (p - m) / (2.0 * h)).collect();
        (generator(svd.u(), plus.u(), minus.u()), generator(svd.v(), plus.v(), minus.v()), s)
    };
    let h = 5e-5 / change.norm();
    let ((left, right, s), (left_2, right_2, s_2)) = (difference(h), difference(2.0 * h));
    let extrapolated = |a: &Matrix, b: &Matrix| &a.scaled(4.0 / 3.0) - &b.scaled(1.0 / 3.0);
    for (measured, generator) in
        [(extrapolated(&left, &left_2), &theory.left), (extrapolated(&right, &right_2), &theory.right)]
    {
        let generator = generator.column_range(0..rank);
        let size = generator.norm().max(1e-3 * change.norm());
        prop_assert!((&measured - &generator).norm() <= 1e-6 * size);
        if generator.norm() > 1e-3 * change.norm() {
            // The flipped sign must fail.
            prop_assert!((&measured + &generator).norm() > 1.9 * generator.norm());
        }
    }
    prop_assert_eq!(theory.singular_values.len(), rank);
    for (i, theory) in theory.singular_values.iter().enumerate() {
        let measured = (4.0 * s[i] - s_2[i]) / 3.0;
        prop_assert!((measured - theory).abs() <= 1e-6 * change.norm(), "{i}: {measured} {theory}");
    }
    Ok(())
}

/// The trap that makes the residual necessary: scaling two singular values past each other rotates nothing, and
/// sorted vectors show a right angle.
#[test]
fn sorted_vectors_mislead_where_singular_values_cross() {
    let w = with_spectrum(6, 6, &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0], &mut normals(1));
    let frame = BlockFrame::spectral(&w, 6).unwrap();
    let changed = &w + &frame.change(&w, &[-0.4, 0.4, 0.0, 0.0, 0.0, 0.0]);
    let (before, after) = (Svd::thin(&w).unwrap(), Svd::thin(&changed).unwrap());
    assert!(left_residual(&before, &changed) < 1e-14);
    let angle = principal_angles(before.u(), after.u(), 1).unwrap()[0];
    assert!(angle.to_degrees() > 89.0);
}

#[test]
fn equal_singular_values_are_refused() {
    let w = build(Kind::Repeated, 6, 5, 2);
    let svd = Svd::thin(&w).unwrap();
    let a = Matrix::from_fn(5, 5, |_, _| 1.0);
    assert!(matches!(
        FirstOrder::of_input_stretch(&svd, &a),
        Err(RotationError::Degenerate { i: 0, j: 1, .. })
    ));
}

#[test]
fn damaged_matrices_are_refused() {
    let bad = Matrix::from_rows(1, 2, &[1.0, f32::NAN]);
    assert!(matches!(Svd::thin(&bad), Err(RotationError::NonFinite { row: 0, column: 1, .. })));
    let empty = Matrix::from_rows(0, 2, &[]);
    assert!(matches!(BlockFrame::spectral(&empty, 1), Err(RotationError::Empty { .. })));
}
