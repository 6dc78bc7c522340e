//! The FuRA-S input transform over column blocks.
//!
//! For a block of `b` input channels with right singular vectors `v_k` and coordinates `c_k`, the matrix
//! `T = V diag(c) V^T` is materialized once for a member, then every row becomes `y = x + T x`
//! (equal to multiplying the weight's singular values by `1 + c`; see fura-core). Canonical order:
//!
//! * `T[j][i]`: accumulate `fma(c_k * v_k[j], v_k[i], .)` from 0 over `k` ascending;
//! * `y[i]`: start at `x[i]`, accumulate `fma(T[j][i], x[j], .)` over `j` ascending.
//!
//! Zero coordinates make `T` zero and `y == x`. The materialized form is canonical whatever the number of
//! rows, since another form would round differently and a result must not depend on its batch.
//!
//! Kernels are fastest where `t` and the rows start with a cache line ([`AlignedBuffer`](crate::AlignedBuffer), and rows of
//! a multiple of 16 floats).
//!
//! Layouts: `v[k * b + i]` is component `i` of vector `k`; `t[j * b + i]` is `T[j][i]`; blocks of one
//! linear follow each other, the last one shorter when `b` does not divide `d_in`.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod factored;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tile;

pub use factored::apply_factored;

use crate::{Isa, Tier};

/// Number of floats that bases or transforms of a linear with `d_in` inputs and block size `block` take:
/// `b^2` for each whole block and `r^2` for the last one of `r` channels.
///
/// ```
/// assert_eq!(fura_simd::block::matrix_len(64, 32), 2 * 32 * 32);
/// assert_eq!(fura_simd::block::matrix_len(70, 32), 2 * 32 * 32 + 6 * 6);
/// ```
pub fn matrix_len(d_in: usize, block: usize) -> usize {
    let rest = d_in % block;
    d_in / block * block * block + rest * rest
}

/// Materializes `T = V diag(c) V^T` for every block of one linear: `v` and `t` have
/// [`matrix_len`]`(c.len(), block)` elements.
///
/// # Panics
/// If the lengths disagree or `block` is 0.
#[allow(unsafe_code)]
pub fn materialize(isa: Isa, v: &[f32], c: &[f32], block: usize, t: &mut [f32]) {
    assert!(block > 0, "materialize: block must be positive");
    let n = matrix_len(c.len(), block);
    assert!(v.len() == n && t.len() == n, "materialize: lengths differ");
    match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::materialize(v, c, block, t) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::materialize(v, c, block, t) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon | Tier::NeonDot | Tier::NeonI8mm => unsafe { neon::materialize(v, c, block, t) },
        _ => scalar::materialize(v, c, block, t),
    }
}

/// Applies the transform to rows of `d_in` floats: `y = x + T x`, block by block. Rows lie one after
/// another in `x` and `y`.
///
/// ```
/// use fura_simd::{Isa, block};
/// // One block of two channels, V = I, c = (1, -0.5): channel 0 doubles, channel 1 halves.
/// let (v, c) = ([1.0, 0.0, 0.0, 1.0], [1.0, -0.5]);
/// let (mut t, mut y) = ([0.0; 4], [0.0; 2]);
/// block::materialize(Isa::detect(), &v, &c, 2, &mut t);
/// block::apply(Isa::detect(), &t, 2, 2, &[3.0, 8.0], &mut y);
/// assert_eq!(y, [6.0, 4.0]);
/// ```
///
/// # Panics
/// If the lengths disagree, or `block` or `d_in` is 0.
pub fn apply(isa: Isa, t: &[f32], block: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
    assert!(x.len() == y.len(), "apply: row lengths");
    apply_rows(isa, t, block, d_in, Some(x), y, &mut []);
}

/// [`apply`] to rows that nothing else needs: `x` becomes `x + T x`, with the same bits. It moves half of the memory.
/// `scratch` keeps a block of a row: it has `block` floats or more, or `d_in` if that is less.
///
/// ```
/// use fura_simd::{Isa, block};
/// let (t, mut x) = ([1.0, 0.0, 0.0, -0.5], [3.0, 8.0]);
/// block::apply_in_place(Isa::detect(), &t, 2, 2, &mut x, &mut [0.0; 2]);
/// assert_eq!(x, [6.0, 4.0]);
/// ```
///
/// # Panics
/// If the lengths disagree, or `block` or `d_in` is 0.
pub fn apply_in_place(isa: Isa, t: &[f32], block: usize, d_in: usize, x: &mut [f32], scratch: &mut [f32]) {
    assert!(scratch.len() >= block.min(d_in), "apply: scratch length");
    apply_rows(isa, t, block, d_in, None, x, scratch);
}

#[allow(unsafe_code)]
fn apply_rows(
    isa: Isa,
    t: &[f32],
    block: usize,
    d_in: usize,
    x: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(block > 0 && d_in > 0, "apply: block and d_in must be positive");
    assert_eq!(t.len(), matrix_len(d_in, block), "apply: transform length");
    assert!(y.len().is_multiple_of(d_in), "apply: row lengths");
    match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::apply(t, block, d_in, x, y, scratch) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::apply(t, block, d_in, x, y, scratch) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon | Tier::NeonDot | Tier::NeonI8mm => unsafe { neon::apply(t, block, d_in, x, y, scratch) },
        _ => scalar::apply(t, block, d_in, x, y, scratch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn noise(n: usize, seed: u64) -> Vec<f32> {
        let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                ((s >> 40) as f32 / (1u64 << 23) as f32) - 1.0
            })
            .collect()
    }

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
            (201, 100),
            (150, 150),
        ];
        for (d_in, block) in shapes {
            let v = noise(matrix_len(d_in, block), 1);
            let c = noise(d_in, 2);
            let mut t0 = vec![0.0; v.len()];
            materialize(Isa::scalar(), &v, &c, block, &mut t0);
            for rows in [0usize, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33, 48, 49, 101] {
                let x = noise(rows * d_in, 3 + rows as u64);
                let mut y0 = vec![0.0; x.len()];
                apply(Isa::scalar(), &t0, block, d_in, &x, &mut y0);
                for isa in Isa::available() {
                    let mut t = vec![0.0; v.len()];
                    materialize(isa, &v, &c, block, &mut t);
                    assert_eq!(t, t0, "{isa:?}");
                    let mut y = vec![0.0; x.len()];
                    apply(isa, &t, block, d_in, &x, &mut y);
                    assert_eq!(y, y0, "{isa:?} d_in={d_in} b={block} rows={rows}");
                    y.copy_from_slice(&x);
                    apply_in_place(isa, &t, block, d_in, &mut y, &mut vec![0.0; block.min(d_in)]);
                    assert_eq!(y, y0, "in place {isa:?} d_in={d_in} b={block} rows={rows}");
                }
            }
        }
    }

    /// More channels than are transformed at once.
    #[test]
    fn rows_of_any_length() {
        let d_in = (1 << 17) + 32;
        let (t, x) = (noise(matrix_len(d_in, 32), 4), noise(d_in, 5));
        let mut first = vec![0.0; d_in];
        apply(Isa::scalar(), &t, 32, d_in, &x, &mut first);
        for isa in Isa::available() {
            let mut y = vec![0.0; d_in];
            apply(isa, &t, 32, d_in, &x, &mut y);
            assert!(y == first, "{isa:?}");
        }
    }

    #[test]
    fn zero_coordinates_are_the_identity() {
        let v = noise(matrix_len(64, 32), 5);
        let x = noise(64 * 3, 6);
        for isa in Isa::available() {
            let (mut t, mut y) = (vec![1.0; v.len()], vec![0.0; x.len()]);
            materialize(isa, &v, &[0.0; 64], 32, &mut t);
            apply(isa, &t, 32, 64, &x, &mut y);
            assert_eq!(x, y);
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        let v = noise(matrix_len(64, 32), 8);
        let c = noise(64, 9);
        let x = noise(64 * 19, 10);
        for isa in Isa::available() {
            let (mut t, mut all) = (vec![0.0; v.len()], vec![0.0; x.len()]);
            materialize(isa, &v, &c, 32, &mut t);
            apply(isa, &t, 32, 64, &x, &mut all);
            for (row, expected) in x.chunks(64).zip(all.chunks(64)) {
                let mut alone = [0.0; 64];
                apply(isa, &t, 32, 64, row, &mut alone);
                assert_eq!(alone, expected);
            }
        }
    }
}
