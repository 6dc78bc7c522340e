//! Every space: zero is the base, members leave no trace, and what coordinates mean.

use std::ops::Range;

use fura_core::estimator::{EsConfig, Member, Shaping, Sign};
use fura_core::layout::{Layout, Linear};
use fura_core::space::{Blocks, BlocksError, Entry, Factors, Full, Lora, Population, Search, Space};
use fura_core::spectrum::Decomposer;
use proptest::prelude::*;

fn linears() -> Vec<Linear> {
    vec![Linear::new("tall", 12, 7), Linear::new("wide", 5, 20), Linear::new("square", 8, 8)]
}

/// Weights of each linear, some of them zeros of either sign.
fn weights() -> Vec<Vec<f32>> {
    let weight = |i: usize| match i % 11 {
        3 => 0.0,
        7 => -0.0,
        _ => ((i * 7919 % 61) as f32 - 30.0) * 0.02,
    };
    linears().iter().map(|l| (0..l.d_out * l.d_in).map(|i| weight(i + l.d_in)).collect()).collect()
}

fn spectral(block: usize) -> Blocks {
    let layout = Layout::new(block, linears()).unwrap();
    let bases = (linears().into_iter().zip(weights())).map(|(l, w)| {
        Decomposer::default().decompose_linear(&w, l.d_out, l.d_in, block).unwrap().v().to_vec()
    });
    let bases = bases.collect();
    Blocks::new(layout, bases).unwrap()
}

fn config() -> EsConfig {
    EsConfig { seed: 3, pairs: 3, sigma: 0.1, ..EsConfig::default() }
}

/// A search in every space, by name.
fn searches() -> Vec<(&'static str, Box<dyn Population + Sync>)> {
    fn search<S: Space + Sync + 'static>(space: S) -> Box<dyn Population + Sync> {
        Box::new(Search::new(config(), space).unwrap())
    }
    vec![
        ("FuRA-S", search(spectral(4))),
        ("SVF", search(spectral(usize::MAX))),
        ("channels", search(Blocks::channels(linears()).unwrap())),
        ("random", search(Blocks::random(Layout::new(4, linears()).unwrap(), 1))),
        ("LoRA", search(Lora::new(linears(), 2, 4.0, Factors::Both, 1))),
        ("LoRA B", search(Lora::new(linears(), 2, 4.0, Factors::B, 1))),
        ("full", search(Full::new(linears()))),
    ]
}

fn perturbed(search: &dyn Population, member: Option<Member>, l: usize, rows: Range<usize>) -> Vec<f32> {
    let d_in = linears()[l].d_in;
    let mut w = weights()[l][rows.start * d_in..rows.end * d_in].to_vec();
    search.perturb(member, l, rows, &mut w, &mut Vec::new());
    w
}

const PLUS: Member = Member { pair: 1, sign: Sign::Plus };

#[test]
fn zero_is_the_base_exactly() {
    for (name, search) in searches() {
        for (l, (linear, w)) in linears().iter().zip(weights()).enumerate() {
            assert_eq!(perturbed(&*search, None, l, 0..linear.d_out), w, "{name}");
            if search.entry() == Entry::Input {
                let x: Vec<f32> = w[..linear.d_in].to_vec();
                let mut y = vec![9.0; linear.d_in];
                search.transform(None, l, &x, &mut y, &mut Vec::new());
                assert_eq!(x, y, "{name}");
            }
        }
    }
}

/// A member's weights are computed from the base and nothing else: whatever was perturbed between, in whatever
/// scratch, rows at once or one by one, the bits are the same.
#[test]
fn members_leave_no_trace() {
    let mut scratch = vec![7.0; 1000];
    for (name, search) in searches() {
        for (l, (linear, w)) in linears().iter().zip(weights()).enumerate() {
            let first = perturbed(&*search, Some(PLUS), l, 0..linear.d_out);
            assert_ne!(first, w, "{name}");
            let base = perturbed(&*search, None, l, 0..linear.d_out);
            assert_eq!(base, w, "{name}");
            let mut again = w.clone();
            for (row, w) in again.chunks_exact_mut(linear.d_in).enumerate() {
                search.perturb(Some(PLUS), l, row..row + 1, w, &mut scratch);
            }
            let bits = |w: &[f32]| w.iter().map(|w| w.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&first), bits(&again), "{name}");
        }
    }
}

/// Every space learns to move an output, through weights alone.
#[test]
fn the_estimator_learns_in_every_space() {
    for (name, mut search) in searches() {
        let reward = |search: &dyn Population, member| {
            let outputs = |l: usize| {
                let d_in = linears()[l].d_in;
                let w = perturbed(search, member, l, 0..2);
                w.chunks_exact(d_in)
                    .map(|row| row.iter().map(|w| f64::from(*w)).sum::<f64>())
                    .collect::<Vec<_>>()
            };
            (0..3).flat_map(outputs).map(|y| -(y - 0.5) * (y - 0.5)).sum::<f64>()
        };
        let before = reward(&*search, None);
        for _ in 0..60 {
            let rewards: Vec<f64> =
                search.ask().members().map(|member| reward(&*search, Some(member))).collect();
            search.tell(&rewards).unwrap();
        }
        let after = reward(&*search, None);
        assert!(after > before, "{name}: {before} -> {after}");
    }
}

/// Transforming the input and perturbing the weights are the same.
#[test]
fn entering_at_the_input_or_at_the_weights_is_the_same() {
    for (name, search) in searches() {
        if search.entry() == Entry::Weight {
            continue;
        }
        for (l, (linear, w)) in linears().iter().zip(weights()).enumerate() {
            let x: Vec<f32> = (0..linear.d_in).map(|i| (i as f32 * 0.7).sin()).collect();
            let mut y = vec![0.0; linear.d_in];
            search.transform(Some(PLUS), l, &x, &mut y, &mut Vec::new());
            let changed = perturbed(&*search, Some(PLUS), l, 0..linear.d_out);
            for (row, changed) in w.chunks_exact(linear.d_in).zip(changed.chunks_exact(linear.d_in)) {
                let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
                // Products of at most 0.6 * 2, sums of at most 20 of them, four roundings each.
                let (one, other) = (dot(row, &y), dot(changed, &x));
                assert!(
                    (one - other).abs() < 4.0 * 20.0 * 1.2 * f64::from(f32::EPSILON),
                    "{name}: {one} {other}"
                );
            }
        }
    }
}

fn slice(c: &[f32]) -> impl Fn(Range<usize>, &mut [f32]) {
    |range, out| out.copy_from_slice(&c[range])
}

fn apply(space: &impl Space, l: usize, c: &[f32]) -> Vec<f32> {
    let mut w = weights()[l].clone();
    space.perturb(l, &slice(c), 0..linears()[l].d_out, &mut w, &mut Vec::new());
    w
}

#[test]
fn channel_scaling_scales_channels() {
    let space = Blocks::channels(linears()).unwrap();
    let c: Vec<f32> = (0..20).map(|i| 0.03 * i as f32 - 0.25).collect();
    for (row, w) in apply(&space, 1, &c).chunks_exact(20).zip(weights()[1].chunks_exact(20)) {
        for ((new, old), c) in row.iter().zip(w).zip(&c) {
            assert!((new - old * (1.0 + c)).abs() <= 2.0 * f32::EPSILON * old.abs());
        }
    }
}

/// SVF scales the singular values of the whole matrix: the Gram matrix keeps its eigenvectors.
#[test]
fn one_block_scales_the_singular_values_of_the_matrix() {
    let space = spectral(usize::MAX);
    let c: Vec<f32> = (0..8).map(|i| 0.05 * i as f32 - 0.2).collect();
    let changed = apply(&space, 2, &c);
    let base = Decomposer::default().decompose_linear(&weights()[2], 8, 8, 8).unwrap();
    for (vector, (s, c)) in base.v().chunks_exact(8).zip(base.s().iter().zip(&c)) {
        // |W' v| = s (1 + c), and W' v is W v scaled.
        let along = |w: &[f32]| -> Vec<f64> {
            let dot = |row: &[f32]| row.iter().zip(vector).map(|(a, b)| f64::from(a * b)).sum();
            w.chunks_exact(8).map(dot).collect()
        };
        for (new, old) in along(&changed).into_iter().zip(along(&weights()[2])) {
            assert!((new - old * f64::from(1.0 + c)).abs() < 1e-5 * f64::from(s.max(0.1)));
        }
    }
}

#[test]
fn low_rank_changes_have_the_rank() {
    let (rank, l) = (2, 0);
    for factors in [Factors::Both, Factors::B] {
        let space = Lora::new(linears(), rank, 4.0, factors, 1);
        let c: Vec<f32> = (0..space.coordinates(l)).map(|i| (i as f32 * 1.3).sin()).collect();
        let change: Vec<f32> = apply(&space, l, &c).iter().zip(&weights()[l]).map(|(a, b)| a - b).collect();
        let s = Decomposer::default().decompose_linear(&change, 12, 7, 7).unwrap().s().to_vec();
        assert!(s[rank - 1] > 0.1 && s[rank] < 1e-4 * s[0], "{factors:?}: {s:?}");
    }
    assert_eq!(Lora::new(linears(), 2, 4.0, Factors::Both, 1).coordinates(0), 2 * (12 + 7));
    assert_eq!(Lora::new(linears(), 2, 4.0, Factors::B, 1).coordinates(0), 2 * 12);
}

/// The linear part of a LoRA perturbation is what `B` does to `A_0`: with `A` fixed, twins mirror each other about
/// the base; with both factors they do not.
#[test]
fn only_the_variant_with_fixed_a_is_linear() {
    for (factors, mirrored) in [(Factors::B, true), (Factors::Both, false)] {
        let search = Search::new(config(), Lora::new(linears(), 2, 4.0, factors, 1)).unwrap();
        let minus = Member { sign: Sign::Minus, ..PLUS };
        let (plus, minus) =
            (perturbed(&search, Some(PLUS), 1, 0..5), perturbed(&search, Some(minus), 1, 0..5));
        let middle = plus.iter().zip(&minus).map(|(a, b)| (a + b) / 2.0);
        let off = middle.zip(&weights()[1]).map(|(m, w)| (m - w).abs()).fold(0.0, f32::max);
        assert_eq!(off < 1e-6, mirrored, "{factors:?}: {off}");
    }
}

#[test]
fn random_bases_are_orthonormal_differ_and_come_again() {
    let layout = || Layout::new(6, linears()).unwrap();
    let base = |seed| {
        let space = Blocks::random(layout(), seed);
        // Coordinate i of a block, 1, moves the input e_j by v_i[j] v_i: columns of projectors.
        let column = |i: usize, j: usize| {
            let mut c = [0.0; 20];
            c[i] = 1.0;
            let mut x = [0.0; 20];
            x[j] = 1.0;
            let mut y = [0.0; 20];
            space.transform(1, &slice(&c), &x, &mut y, &mut Vec::new());
            y[j] -= 1.0;
            y.to_vec()
        };
        let projector = |i: usize| (0..20).map(|j| column(i, j)).collect::<Vec<_>>();
        (0..20).map(projector).collect::<Vec<_>>()
    };
    let bases = base(1);
    for block in [0..6, 6..12, 12..18, 18..20] {
        // The projectors of a block sum to the identity on it.
        for j in block.clone() {
            for k in 0..20 {
                let sum: f32 = block.clone().map(|i| bases[i][j][k]).sum();
                let expected = if j == k { 1.0 } else { 0.0 };
                assert!((sum - expected).abs() < 1e-6, "{j} {k}: {sum}");
            }
        }
    }
    assert_eq!(bases, base(1));
    assert_ne!(bases, base(2));
    // No two blocks share a basis.
    assert_ne!(bases[0][0][..6], bases[6][6][6..12]);
}

#[test]
fn bases_that_do_not_fit_are_refused() {
    let layout = || Layout::new(4, linears()).unwrap();
    let none = Blocks::<Vec<f32>>::new(layout(), Vec::new()).unwrap_err();
    assert_eq!(none, BlocksError::Count { found: 0, expected: 3 });
    let short = Blocks::new(layout(), vec![vec![0.0; 25], vec![0.0; 80], vec![0.0; 31]]).unwrap_err();
    assert_eq!(short, BlocksError::Length { linear: "square".into(), found: 31, expected: 32 });
}

/// Full-parameter search is the estimator on the weights themselves: the documented update, weight by weight.
#[test]
fn full_parameter_search_adds_the_coordinates() {
    let config = EsConfig { shaping: Shaping::None, ..config() };
    let mut search = Search::new(config, Full::new(linears())).unwrap();
    search.tell(&[0.3, 0.1, 0.0, 0.2, 0.5, 0.4]).unwrap();
    let offset = 12 * 7;
    let c = &search.estimator().coordinates()[offset..offset + 5 * 20];
    assert!(c.iter().all(|&c| c != 0.0));
    for ((w, base), c) in perturbed(&search, None, 1, 0..5).iter().zip(&weights()[1]).zip(c) {
        assert_eq!(*w, base + c);
    }
}

proptest! {
    /// A stretch of rows is those rows of the whole, in every space.
    #[test]
    fn rows_are_rows_of_the_whole(l in 0usize..3, a in 0usize..13, b in 0usize..13) {
        let d_out = linears()[l].d_out;
        let rows = a.min(b).min(d_out)..a.max(b).min(d_out);
        for (name, search) in searches() {
            let d_in = linears()[l].d_in;
            let whole = perturbed(&*search, Some(PLUS), l, 0..d_out);
            let part = perturbed(&*search, Some(PLUS), l, rows.clone());
            prop_assert_eq!(&part[..], &whole[rows.start * d_in..rows.end * d_in], "{}", name);
        }
    }
}
