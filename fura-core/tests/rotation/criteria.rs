//! When frames stay and when they must move.

use crate::matrices::{coordinates, generic, normals, orthonormal};
use fura_core::rotation::diagnostics::{left_residual, right_residual};
use fura_core::rotation::{BlockFrame, Matrix, OverlapGraph, Svd};
use proptest::prelude::*;

/// Blocks whose directions fall into `groups` groups with mutually orthogonal images: direction `i` of a block
/// belongs to group `i % groups`. Square, of full rank.
fn grouped(blocks: usize, block: usize, groups: usize, seed: u64) -> Matrix {
    let normal = &mut normals(seed);
    let n = blocks * block;
    let of_group = |g: usize| (0..block).filter(|i| i % groups == g).count();
    let q = orthonormal(n, n, normal);
    let mut w = Matrix::from_fn(n, n, |_, _| 0.0);
    for b in 0..blocks {
        let v = orthonormal(block, block, normal);
        let mut first = 0;
        for g in 0..groups {
            let size = blocks * of_group(g);
            let images = &q.column_range(first..first + size) * &orthonormal(size, of_group(g), normal);
            first += size;
            for (k, i) in (g..block).step_by(groups).enumerate() {
                let s = 1.0 + 0.3 * i as f64 + 0.1 * b as f64;
                (0..n).for_each(|r| {
                    (0..block).for_each(|c| w[(r, b * block + c)] += images[(r, k)] * s * v[(c, i)])
                });
            }
        }
    }
    w
}

/// Rank of the linear map from coordinates to the off-diagonal part of `A`: the dimensions that rotate.
fn rotating_dimensions(overlaps: &Matrix) -> usize {
    let n = overlaps.rows();
    let pairs: Vec<(usize, usize)> = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect();
    let map = Matrix::from_fn(pairs.len(), overlaps.columns(), |p, k| {
        overlaps[(pairs[p].0, k)] * overlaps[(pairs[p].1, k)]
    });
    let s = Svd::thin(&map).unwrap();
    s.s().iter().filter(|x| **x > 1e-9 * s.s()[0]).count()
}

fn residuals(w: &Matrix, frame: &BlockFrame, c: &[f64]) -> (f64, f64) {
    let (svd, changed) = (Svd::full(w).unwrap(), w + &frame.change(w, c));
    (left_residual(&svd, &changed), right_residual(&svd, &changed))
}

proptest! {
    /// Coordinates constant on every component keep both frames, whatever their size; one that differs from the
    /// rest of its component moves both; and the dimensions that rotate are `n` less the components.
    #[test]
    fn components_of_the_overlap_graph_decide(
        blocks in 2usize..4, block in 1usize..5, groups in 1usize..4, values in prop::collection::vec(-0.8f64..2.0, 4),
        odd: prop::sample::Index, seed: u64,
    ) {
        let groups = groups.min(block);
        let w = grouped(blocks, block, groups, seed);
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let graph = OverlapGraph::new(&w, &frame, 1e-8);
        prop_assert_eq!(graph.components(), groups);
        let mut c: Vec<f64> = (0..w.columns()).map(|k| values[graph.component(k).unwrap()]).collect();
        prop_assert!(graph.keeps_frames(&c));
        let (left, right) = residuals(&w, &frame, &c);
        // Vectors of two components are known to rounding over the distance of their singular values.
        let s = Svd::thin(&w).unwrap().s().to_vec();
        let closest = s.windows(2).map(|pair| (pair[0] - pair[1]) / s[0]).fold(1.0, f64::min);
        let rounding = 1e-14 / closest;
        prop_assert!(left < rounding && right < rounding, "{left} {right} {rounding}");
        // Every component has directions in two blocks or more.
        c[odd.index(w.columns())] += 0.5;
        prop_assert!(!graph.keeps_frames(&c));
        let (left, right) = residuals(&w, &frame, &c);
        prop_assert!(left > 1e-6 && right > 1e-6, "{left} {right}");
        let overlaps = frame.overlaps(&Svd::full(&w).unwrap());
        prop_assert_eq!(rotating_dimensions(&overlaps), w.columns() - groups);
    }

    /// The graph is connected and all dimensions but uniform scaling rotate, in both frames, whichever coordinates
    /// are not all equal: random ones, one alone, a whole block.
    #[test]
    fn generic_weights_rotate((w, block, seed) in generic(false), one: prop::sample::Index) {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        let graph = OverlapGraph::new(&w, &frame, 1e-10);
        prop_assert_eq!(graph.components(), 1);
        let n = w.columns();
        prop_assert_eq!(rotating_dimensions(&frame.overlaps(&Svd::full(&w).unwrap())), n - 1);
        let one = one.index(n);
        for c in [
            coordinates(n, seed),
            (0..n).map(|k| f64::from(u8::from(k == one))).collect(),
            (0..n).map(|k| f64::from(u8::from(k < block))).collect(),
        ] {
            prop_assert!(!graph.keeps_frames(&c));
            let (left, right) = residuals(&w, &frame, &c);
            // A graph may join a direction by a cosine as small as these.
            prop_assert!(left > 1e-9 && right > 1e-9, "{left} {right}");
        }
        let (left, right) = residuals(&w, &frame, &vec![0.7; n]);
        prop_assert!(left < 1e-13 && right < 1e-13, "{left} {right}");
    }

    /// Wide weights: the right frame moves. (The left one has few dimensions and may stay, see below.)
    #[test]
    fn generic_wide_weights_rotate((w, block, seed) in generic(true)) {
        let frame = BlockFrame::spectral(&w, block).unwrap();
        prop_assert_eq!(OverlapGraph::new(&w, &frame, 1e-10).components(), 1);
        prop_assert!(residuals(&w, &frame, &coordinates(w.columns(), seed)).1 > 1e-9);
    }
}

/// For a wide matrix the left frame may stay where the graph is connected: two diagonal blocks side by side.
#[test]
fn the_wide_counter_example() {
    let (d_1, d_2) = ([3.0, 2.0, 1.0], [0.5, 1.5, 2.5]);
    let w = Matrix::from_fn(3, 6, |i, j| match j % 3 == i {
        true => {
            if j < 3 {
                d_1[i]
            } else {
                d_2[i]
            }
        }
        false => 0.0,
    });
    let frame = BlockFrame::spectral(&w, 3).unwrap();
    // Direction i of either block has the image of row i: three components of two, each joining the blocks.
    let graph = OverlapGraph::new(&w, &frame, 1e-9);
    assert_eq!(graph.components(), 3);
    let c = [0.4, 0.4, 0.4, -0.1, -0.1, -0.1];
    assert!(!graph.keeps_frames(&c));
    let (left, right) = residuals(&w, &frame, &c);
    assert!(left < 1e-15, "{left}");
    assert!(right > 0.05, "{right}");
}

/// Coordinates without effect do not count: a zero column, and the null space of a block wider than high.
#[test]
fn coordinates_without_effect_are_no_nodes() {
    let w = Matrix::from_rows(2, 5, &[1.0, 0.5, 0.2, 0.0, 1.0, -1.0, 2.0, 0.3, 0.0, 1.0]);
    let frame = BlockFrame::spectral(&w, 3).unwrap();
    let graph = OverlapGraph::new(&w, &frame, 1e-9);
    assert_eq!(graph.components(), 1);
    assert_eq!((graph.component(2), graph.component(4)), (None, None));
    assert!(graph.keeps_frames(&[0.1, 0.1, 7.0, 0.1, -3.0]));
    let (left, right) = residuals(&w, &frame, &[0.1, 0.1, 7.0, 0.1, -3.0]);
    assert!(left < 1e-15 && right < 1e-15);
}
