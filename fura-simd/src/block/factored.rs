//! The transform without its matrix: `y = x + V diag(c) V^T x`, for members with a few rows each.
//!
//! A matrix `T` takes as long to materialize as to apply to `b` rows, and `b` floats a channel where it is kept. In factored
//! form a row takes the time of two or three with a matrix, and nothing is kept but the coordinates, so it is the better
//! one below some `b / 2` rows of a member: written answers, and specialists that are served side by side. It rounds
//! differently, so which form is used belongs to a specialist, never to a batch. Canonical order, for a block of `b` channels:
//!
//! * `u[k]`: eight lanes, lane `l` accumulating `fma(v_k[j], x[j], .)` from 0 over `j = l, l + 8, ...`; they are summed
//!   in pairs, `((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))`;
//! * `y[i]`: start at `x[i]`, accumulate `fma(c_k * u[k], v_k[i], .)` over `k` ascending.

use super::matrix_len;
use crate::{Isa, Tier};

/// Lanes of a sum over a block's channels.
const LANES: usize = 8;

/// Applies coordinates to rows of as many floats, `y = x + V diag(c) V^T x` block by block; `v` is as for
/// [`materialize`](super::materialize). The bits are those of this form, which [`apply`](super::apply) does not give.
///
/// ```
/// use fura_simd::{Isa, block};
/// // One block of two channels, V = I, c = (1, -0.5): channel 0 doubles, channel 1 halves.
/// let mut y = [0.0; 2];
/// block::apply_factored(Isa::detect(), &[1.0, 0.0, 0.0, 1.0], &[1.0, -0.5], 2, &[3.0, 8.0], &mut y);
/// assert_eq!(y, [6.0, 4.0]);
/// ```
///
/// # Panics
/// If the lengths disagree, `block` is 0, or there are no coordinates.
#[allow(unsafe_code)]
pub fn apply_factored(isa: Isa, v: &[f32], c: &[f32], block: usize, x: &[f32], y: &mut [f32]) {
    assert!(block > 0 && !c.is_empty(), "apply: block and d_in must be positive");
    assert_eq!(v.len(), matrix_len(c.len(), block), "apply: basis length");
    assert!(x.len() == y.len() && x.len().is_multiple_of(c.len()), "apply: row lengths");
    match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { super::avx512::apply_factored(v, c, block, x, y) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { super::avx2::apply_factored(v, c, block, x, y) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon | Tier::NeonDot | Tier::NeonI8mm => unsafe {
            super::neon::apply_factored(v, c, block, x, y)
        },
        _ => scalar(v, c, block, x, y),
    }
}

fn scalar(v: &[f32], c: &[f32], block: usize, x: &[f32], y: &mut [f32]) {
    let mut element = 0;
    for (i, own) in c.chunks(block).enumerate() {
        let end = element + own.len() * own.len();
        any_size(&v[element..end], own, i * block, c.len(), x, y);
        element = end;
    }
}

/// The specification, for blocks of any size.
#[inline(always)]
pub(super) fn any_size(v: &[f32], c: &[f32], first: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
    let b = c.len();
    for at in (first..x.len()).step_by(d_in) {
        let (x, y) = (&x[at..at + b], &mut y[at..at + b]);
        y.copy_from_slice(x);
        for (v, c) in v.chunks_exact(b).zip(c) {
            let w = c * dot(v, x);
            for (y, v) in y.iter_mut().zip(v) {
                *y = w.mul_add(*v, *y);
            }
        }
    }
}

#[inline(always)]
fn dot(v: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for (v, x) in v.chunks(LANES).zip(x.chunks(LANES)) {
        for ((lane, v), x) in lanes.iter_mut().zip(v).zip(x) {
            *lane = v.mul_add(*x, *lane);
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// `apply_factored` of a tier. `$dots(v, x)` are the products of eight vectors of a block with a row.
macro_rules! factored {
    ($features:literal, $dots:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn apply_factored(v: &[f32], c: &[f32], block: usize, x: &[f32], y: &mut [f32]) {
            let mut element = 0;
            for (i, own) in c.chunks(block).enumerate() {
                let (first, d_in, end) = (i * block, c.len(), element + own.len() * own.len());
                let v = &v[element..end];
                match own.len() {
                    32 => factored_block::<32>(v, own, first, d_in, x, y),
                    64 => factored_block::<64>(v, own, first, d_in, x, y),
                    _ => super::factored::any_size(v, own, first, d_in, x, y),
                }
                element = end;
            }
        }

        #[target_feature(enable = $features)]
        fn factored_block<const B: usize>(
            v: &[f32],
            c: &[f32],
            first: usize,
            d_in: usize,
            x: &[f32],
            y: &mut [f32],
        ) {
            let (v, _) = v.as_chunks::<B>();
            let all = x.len() / d_in;
            let mut row = 0;
            while row < all {
                let (x, y) = (&x[row * d_in + first..], &mut y[row * d_in + first..]);
                // Two rows are as many sums as keep the processor busy.
                row += match all - row {
                    1 => factored_rows::<B, 1>(v, c, d_in, x, y),
                    _ => factored_rows::<B, 2>(v, c, d_in, x, y),
                };
            }
        }

        /// `R` rows, the first at the start of `x` and `y`; returns `R`.
        #[inline]
        #[target_feature(enable = $features)]
        fn factored_rows<const B: usize, const R: usize>(
            v: &[[f32; B]],
            c: &[f32],
            d_in: usize,
            x: &[f32],
            y: &mut [f32],
        ) -> usize {
            let x = rows::<R, B>(x, d_in);
            let mut sums = [[0.0f32; B]; R];
            for r in 0..R {
                sums[r] = *x[r];
            }
            let (eights, _) = v.as_chunks::<8>();
            let (coordinates, _) = c.as_chunks::<8>();
            for (v, c) in eights.iter().zip(coordinates) {
                let mut w = [[0.0f32; 8]; R];
                for r in 0..R {
                    w[r] = $dots(v, x[r]);
                    for k in 0..8 {
                        w[r][k] *= c[k];
                    }
                }
                for k in 0..8 {
                    for r in 0..R {
                        for i in 0..B {
                            sums[r][i] = w[r][k].mul_add(v[k][i], sums[r][i]);
                        }
                    }
                }
            }
            for r in 0..R {
                y[r * d_in..r * d_in + B].copy_from_slice(&sums[r]);
            }
            R
        }
    };
}
pub(super) use factored;

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::super::{apply as with_matrix, materialize};
    use super::*;

    #[test]
    fn every_tier_gives_the_scalar_bits_for_every_tail() {
        let shapes = [
            (32, 32),
            (96, 32),
            (70, 32),
            (576, 32),
            (48, 24),
            (40, 1),
            (33, 33),
            (50, 64),
            (160, 64),
            (150, 150),
        ];
        for (d_in, block) in shapes {
            let (v, c) = (noise(matrix_len(d_in, block), 1), noise(d_in, 2));
            for rows in [0usize, 1, 2, 3, 4, 5, 17] {
                let x = noise(rows * d_in, 3 + rows as u64);
                let mut expected = vec![0.0; x.len()];
                apply_factored(Isa::scalar(), &v, &c, block, &x, &mut expected);
                for isa in Isa::available() {
                    let mut y = vec![f32::NAN; x.len()];
                    apply_factored(isa, &v, &c, block, &x, &mut y);
                    assert_eq!(y, expected, "{isa:?} d_in={d_in} b={block} rows={rows}");
                    // A row does not depend on its batch.
                    for (row, y) in x.chunks(d_in).zip(y.chunks(d_in)) {
                        let mut alone = vec![0.0; d_in];
                        apply_factored(isa, &v, &c, block, row, &mut alone);
                        assert_eq!(alone, y);
                    }
                }
            }
        }
    }

    /// Both forms beside the sum in f64: a form's error is that of `b` products and sums, twice in the factored one.
    #[test]
    fn it_is_the_transform_of_the_matrix_but_for_rounding() {
        for (d_in, block) in [(96, 32), (128, 64), (70, 32)] {
            let (v, c, x) = (noise(matrix_len(d_in, block), 4), noise(d_in, 5), noise(d_in, 6));
            let (mut t, mut a, mut b) = (vec![0.0; v.len()], vec![0.0; d_in], vec![0.0; d_in]);
            materialize(Isa::detect(), &v, &c, block, &mut t);
            with_matrix(Isa::detect(), &t, block, d_in, &x, &mut a);
            apply_factored(Isa::detect(), &v, &c, block, &x, &mut b);
            let mut element = 0;
            for (k, c) in c.chunks(block).enumerate() {
                let n = c.len();
                let (v, x) = (&v[element..element + n * n], &x[k * block..][..n]);
                element += n * n;
                for i in 0..n {
                    let (mut exact, mut size) = (f64::from(x[i]), f64::from(x[i].abs()));
                    for (v, c) in v.chunks(n).zip(c) {
                        let (mut u, mut u_size) = (0.0, 0.0);
                        for (v, x) in v.iter().zip(x) {
                            u += f64::from(*v) * f64::from(*x);
                            u_size += f64::from((v * x).abs());
                        }
                        exact += f64::from(*c) * u * f64::from(v[i]);
                        size += f64::from((c * v[i]).abs()) * u_size;
                    }
                    let bound = 2.0 * (n as f64 + 2.0) * f64::from(f32::EPSILON) / 2.0 * size;
                    for y in [a[k * block + i], b[k * block + i]] {
                        assert!((f64::from(y) - exact).abs() <= bound, "{y} {exact} {bound}");
                    }
                }
            }
        }
    }
}
