//! First-order perturbation theory: how singular values and both frames start to move.

use super::{Matrix, RotationError, Svd};

/// Derivatives at `t = 0` of the decomposition of `W(t)`.
///
/// `left` and `right` are the skew-symmetric rotation generators `dU = U left`, `dV = V right`, of the size of the
/// frames given. Rotations inside a null space are arbitrary and are 0 here.
#[derive(Debug, Clone)]
pub struct FirstOrder {
    /// `d sigma_i` of the nonzero singular values, [`Svd::rank`] of them.
    pub singular_values: Vec<f64>,
    /// The left generator, `m x m` with [`Svd::full`] and `q x q` with [`Svd::thin`].
    pub left: Matrix,
    /// The right generator, `n x n` or `q x q`.
    pub right: Matrix,
}

/// Singular values this close, relative to the largest, have no singular vectors of their own.
const DEGENERATE: f64 = 1e-13;

impl FirstOrder {
    /// Along `W (I + t M)` with symmetric `M`, from `a = V^T M V` ([`generator`](super::generator)).
    ///
    #[doc = include_str!("../formulas/rotation.html")]
    ///
    /// In words: the diagonal of `A` changes singular values; everything else of it rotates both frames, the more
    /// the closer two singular values are. A right null vector (`W` wide) mixes with row space at a rate that
    /// knows no gap; a left one (`W` tall) never moves, since `W (I + M)` has the column space of `W`.
    ///
    /// # Errors
    /// [`RotationError::Degenerate`] if two nonzero singular values coincide.
    ///
    /// # Panics
    /// If `a` is not square of the size of `V`.
    pub fn of_input_stretch(svd: &Svd, a: &Matrix) -> Result<Self, RotationError> {
        let right = svd.v().columns();
        assert_eq!((a.rows(), a.columns()), (right, right), "size of V^T M V");
        let value = |i: usize| svd.s().get(i).copied().unwrap_or(0.0);
        assemble(
            svd,
            |i| value(i) * a[(i, i)],
            |i, j, gap| {
                (
                    2.0 * value(i) * value(j) * a[(i, j)] / gap,
                    (value(i).powi(2) + value(j).powi(2)) * a[(i, j)] / gap,
                )
            },
            |_, _| 0.0,
            |i, null| -a[(i, null)],
        )
    }

    /// Along `W + t D` for any `D`, from `p = U^T D V`:
    ///
    #[doc = include_str!("../formulas/general_rotation.html")]
    ///
    /// # Errors
    /// As [`of_input_stretch`](Self::of_input_stretch).
    ///
    /// # Panics
    /// If `p` has not as many rows as `U` has vectors and columns as `V` has.
    pub fn of_change(svd: &Svd, p: &Matrix) -> Result<Self, RotationError> {
        assert_eq!((p.rows(), p.columns()), (svd.u().columns(), svd.v().columns()), "size of U^T D V");
        let value = |i: usize| svd.s()[i];
        assemble(
            svd,
            |i| p[(i, i)],
            |i, j, gap| {
                let (along, across) = (p[(i, j)], p[(j, i)]);
                ((value(j) * along + value(i) * across) / gap, (value(i) * along + value(j) * across) / gap)
            },
            |null, j| p[(null, j)] / value(j),
            |i, null| -p[(i, null)] / value(i),
        )
    }
}

/// Fills both generators. `pair(i, j, sigma_j^2 - sigma_i^2)` gives the left and right entries of two vectors of the
/// row and column space, `left_null(null, j)` and `right_null(i, null)` those of one with a null vector.
fn assemble(
    svd: &Svd,
    value_change: impl Fn(usize) -> f64,
    pair: impl Fn(usize, usize, f64) -> (f64, f64),
    left_null: impl Fn(usize, usize) -> f64,
    right_null: impl Fn(usize, usize) -> f64,
) -> Result<FirstOrder, RotationError> {
    let (s, rank) = (svd.s(), svd.rank());
    let (rows, columns) = (svd.u().columns(), svd.v().columns());
    let mut left = Matrix::from_fn(rows, rows, |_, _| 0.0);
    let mut right = Matrix::from_fn(columns, columns, |_, _| 0.0);
    let skew = |m: &mut Matrix, i, j, x: f64| (m[(i, j)], m[(j, i)]) = (x, -x);
    for i in 0..rank {
        for j in i + 1..rank {
            if s[i] - s[j] <= DEGENERATE * s[0] {
                return Err(RotationError::Degenerate { i, j, value: s[i] });
            }
            let (u, v) = pair(i, j, (s[j] - s[i]) * (s[j] + s[i]));
            skew(&mut left, i, j, u);
            skew(&mut right, i, j, v);
        }
        (rank..rows).for_each(|null| skew(&mut left, null, i, left_null(null, i)));
        (rank..columns).for_each(|null| skew(&mut right, i, null, right_null(i, null)));
    }
    let singular_values = (0..rank).map(value_change).collect();
    Ok(FirstOrder { singular_values, left, right })
}
