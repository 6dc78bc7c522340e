//! Weight matrices with spectra that trouble decompositions, and the randomness to make them.

use fura_core::rotation::{Matrix, Svd};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Independent standard normal numbers.
pub fn normals(seed: u64) -> impl FnMut() -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    move || StandardNormal.sample(&mut rng)
}

pub fn gaussian(rows: usize, columns: usize, normal: &mut dyn FnMut() -> f64) -> Matrix {
    Matrix::from_fn(rows, columns, |_, _| normal())
}

/// `columns` orthonormal columns in uniform random position.
pub fn orthonormal(rows: usize, columns: usize, normal: &mut dyn FnMut() -> f64) -> Matrix {
    let svd = Svd::thin(&gaussian(rows, columns, normal)).unwrap();
    svd.u() * &svd.v().transpose()
}

/// Random singular vectors with given singular values.
pub fn with_spectrum(rows: usize, columns: usize, s: &[f64], normal: &mut dyn FnMut() -> f64) -> Matrix {
    let q = rows.min(columns);
    let (u, v) = (orthonormal(rows, q, normal), orthonormal(columns, q, normal));
    &Matrix::from_fn(rows, q, |i, k| u[(i, k)] * s[k]) * &v.transpose()
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Gaussian,
    Power,
    Graded,
    Crowded,
    Repeated,
    Dominant,
    RankDeficient,
    ZeroColumns,
    Zero,
}

pub const KINDS: [Kind; 9] = [
    Kind::Gaussian,
    Kind::Power,
    Kind::Graded,
    Kind::Crowded,
    Kind::Repeated,
    Kind::Dominant,
    Kind::RankDeficient,
    Kind::ZeroColumns,
    Kind::Zero,
];

pub fn build(kind: Kind, rows: usize, columns: usize, seed: u64) -> Matrix {
    let normal = &mut normals(seed);
    let q = rows.min(columns);
    let spectrum = |value: fn(usize) -> f64| (0..q).map(value).collect::<Vec<_>>();
    let s = match kind {
        Kind::Gaussian | Kind::ZeroColumns => {
            let mut w = gaussian(rows, columns, normal);
            if let Kind::ZeroColumns = kind {
                (0..rows).for_each(|i| (0..columns).step_by(3).for_each(|j| w[(i, j)] = 0.0));
            }
            return w;
        }
        Kind::Power => spectrum(|k| 1.0 / (k + 1) as f64),
        Kind::Graded => spectrum(|k| 0.1f64.powi(k as i32)),
        Kind::Crowded => spectrum(|k| 1.0 - 1e-9 * k as f64),
        Kind::Repeated => spectrum(|k| [2.0, 1.0][k % 2]),
        Kind::Dominant => spectrum(|k| if k == 0 { 1e6 } else { 1.0 + k as f64 }),
        Kind::RankDeficient => spectrum(|k| if k % 2 == 0 { 1.0 + k as f64 } else { 0.0 }),
        Kind::Zero => spectrum(|_| 0.0),
    };
    with_spectrum(rows, columns, &s, normal)
}

/// A matrix of some kind (square, tall or wide) with a block size, and coordinates above -0.9.
pub fn weights() -> impl Strategy<Value = (Kind, Matrix, usize, Vec<f64>)> {
    let shape = (1usize..24, 1usize..24, 0usize..3);
    (prop::sample::select(&KINDS[..]), shape, 1usize..25, any::<u64>()).prop_map(
        |(kind, (rows, columns, square), block, seed)| {
            let rows = if square == 0 { columns } else { rows };
            let c = coordinates(columns, seed);
            (kind, build(kind, rows, columns, seed), block, c)
        },
    )
}

/// Normal coordinates, drawn again until they are above -0.9: clipped ones would often be equal, and equal
/// coordinates do not rotate.
pub fn coordinates(channels: usize, seed: u64) -> Vec<f64> {
    let mut normal = normals(seed ^ 0x5eed);
    std::iter::repeat_with(|| 0.4 * normal()).filter(|c| *c > -0.9).take(channels).collect()
}

/// Generic weights with two or more blocks. Tall or square ones have full column rank.
pub fn generic(wide: bool) -> impl Strategy<Value = (Matrix, usize, u64)> {
    (2usize..14, 0usize..8, 1usize..13, any::<u64>()).prop_map(move |(n, more, block, seed)| {
        let (rows, columns) = if wide { (n, n + 1 + more) } else { (n + more, n) };
        (gaussian(rows, columns, &mut normals(seed)), 1 + block % (columns - 1), seed)
    })
}
