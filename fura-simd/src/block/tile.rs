//! The kernels for blocks of 32 channels and more, written once for every vector width.
//!
//! Both are products of matrices: `T x` for many rows `x`, and `(V diag(c)) V^T`, whose rows are those of `T`. A tile is
//! some rows by a panel of 32 columns; its accumulators stay in registers while the right matrix streams by once.
//! Blocks of 32 and 64 have kernels of fixed size, in which nothing is left to check but the rows' ends.

/// Columns of a panel.
pub(super) const PANEL: usize = 32;

/// Rows that use a block of `T` while it is in the first-level cache. Not more: rows of some models lie a multiple of
/// 4 KiB apart, where they compete for the same lines.
pub(super) const CHUNK: usize = 24;

/// `acc[r] += sum over j of left(r, j) * (panel of right[j])`, in order. A macro, since an instruction set's functions
/// cannot be forced inline and the accumulators must not leave their registers.
macro_rules! accumulate {
    ($acc:ident, |$r:ident, $j:ident| $left:expr, $right:ident, $panel:ident, lanes: $lanes:literal, $load:ident, $splat:ident, $fma:ident) => {
        for ($j, row) in $right.iter().enumerate() {
            let (parts, _) = row.as_chunks::<$lanes>();
            for $r in 0..R {
                let x = $splat($left);
                for n in 0..PANEL / $lanes {
                    $acc[$r][n] = $fma($load(&parts[$panel * (PANEL / $lanes) + n]), x, $acc[$r][n]);
                }
            }
        }
    };
}
pub(super) use accumulate;

/// Defines `apply` and `materialize` for an instruction set. Tiles have `$rows` rows, so many that their
/// `PANEL / $lanes` accumulators each fill the registers without spilling, then `$fewer`, then one. `$fma(m, x, acc)` is a
/// fused `acc + m x`.
macro_rules! tiled {
    ($features:literal, lanes: $lanes:literal, rows: $rows:literal, fewer: $fewer:literal, $load:ident, $store:ident, $splat:ident, $fma:ident) => {
        use super::tile::{CHUNK, PANEL, accumulate};

        #[target_feature(enable = $features)]
        pub(super) fn apply(t: &[f32], block: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
            for (x, y) in x.chunks(CHUNK * d_in).zip(y.chunks_mut(CHUNK * d_in)) {
                let (mut first, mut element) = (0, 0);
                while first < d_in {
                    let b = block.min(d_in - first);
                    let t = &t[element..element + b * b];
                    match b {
                        32 => apply_block::<32>(t, first, d_in, x, y),
                        64 => apply_block::<64>(t, first, d_in, x, y),
                        _ => apply_any(t, b, first, d_in, x, y),
                    }
                    element += b * b;
                    first += b;
                }
            }
        }

        /// The block of channels from `first` on, for all rows of `x`.
        #[target_feature(enable = $features)]
        fn apply_block<const B: usize>(t: &[f32], first: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
            let (t, _) = t.as_chunks::<B>();
            let rows = x.len() / d_in;
            let mut row = 0;
            while row < rows {
                let at = row * d_in + first;
                let (x, y) = (&x[at..], &mut y[at..]);
                row += match rows - row {
                    left if left >= $rows => apply_tile::<$rows, B>(t, d_in, x, y),
                    left if left >= $fewer => apply_tile::<$fewer, B>(t, d_in, x, y),
                    _ => apply_tile::<1, B>(t, d_in, x, y),
                };
            }
        }

        /// `R` rows, the first at the start of `x` and `y`; returns `R`.
        #[inline]
        #[target_feature(enable = $features)]
        fn apply_tile<const R: usize, const B: usize>(
            t: &[[f32; B]],
            d_in: usize,
            x: &[f32],
            y: &mut [f32],
        ) -> usize {
            let mut left = [&[0.0f32; B]; R];
            for (r, row) in left.iter_mut().enumerate() {
                // The range is `B` long by construction, so the conversion cannot fail.
                *row = x[r * d_in..r * d_in + B].first_chunk().unwrap();
            }
            for panel in 0..B / PANEL {
                let mut acc = [[$splat(0.0); PANEL / $lanes]; R];
                for r in 0..R {
                    let (parts, _) = left[r].as_chunks::<$lanes>();
                    for n in 0..PANEL / $lanes {
                        acc[r][n] = $load(&parts[panel * (PANEL / $lanes) + n]);
                    }
                }
                accumulate!(acc, |r, j| left[r][j], t, panel, lanes: $lanes, $load, $splat, $fma);
                for r in 0..R {
                    let at = r * d_in + panel * PANEL;
                    let (parts, _) = y[at..at + PANEL].as_chunks_mut::<$lanes>();
                    for n in 0..PANEL / $lanes {
                        $store(&mut parts[n], acc[r][n]);
                    }
                }
            }
            R
        }

        /// A block of any size, in the scalar order, vectorized over `i` by the compiler.
        #[target_feature(enable = $features)]
        fn apply_any(t: &[f32], b: usize, first: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
            for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
                super::scalar::apply_block(t, &x[first..first + b], &mut y[first..first + b]);
            }
        }

        #[target_feature(enable = $features)]
        pub(super) fn materialize(v: &[f32], c: &[f32], block: usize, t: &mut [f32]) {
            let mut element = 0;
            for c in c.chunks(block) {
                let range = element..element + c.len() * c.len();
                element = range.end;
                let (v, t) = (&v[range.clone()], &mut t[range]);
                match c.len() {
                    32 => materialize_block::<32>(v, c, t),
                    64 => materialize_block::<64>(v, c, t),
                    _ => super::scalar::materialize_block(v, c, t),
                }
            }
        }

        #[target_feature(enable = $features)]
        fn materialize_block<const B: usize>(v: &[f32], c: &[f32], t: &mut [f32]) {
            let ((v, _), (t, _)) = (v.as_chunks::<B>(), t.as_chunks_mut::<B>());
            let mut row = 0;
            while row < B {
                row += match B - row {
                    left if left >= $rows => materialize_tile::<$rows, B>(v, c, row, t),
                    left if left >= $fewer => materialize_tile::<$fewer, B>(v, c, row, t),
                    _ => materialize_tile::<1, B>(v, c, row, t),
                };
            }
        }

        /// `R` rows of `T` from `first` on; returns `R`.
        #[inline]
        #[target_feature(enable = $features)]
        fn materialize_tile<const R: usize, const B: usize>(
            v: &[[f32; B]],
            c: &[f32],
            first: usize,
            t: &mut [[f32; B]],
        ) -> usize {
            let mut left = [[0.0f32; B]; R];
            for (k, (vk, ck)) in v.iter().zip(c).enumerate() {
                // In range: the caller's rows from `first` on are `R` or more.
                let vk: &[f32; R] = vk[first..first + R].first_chunk().unwrap();
                for r in 0..R {
                    left[r][k] = ck * vk[r];
                }
            }
            for panel in 0..B / PANEL {
                let mut acc = [[$splat(0.0); PANEL / $lanes]; R];
                accumulate!(acc, |r, k| left[r][k], v, panel, lanes: $lanes, $load, $splat, $fma);
                for r in 0..R {
                    let (parts, _) = t[first + r].as_chunks_mut::<$lanes>();
                    for n in 0..PANEL / $lanes {
                        $store(&mut parts[panel * (PANEL / $lanes) + n], acc[r][n]);
                    }
                }
            }
            R
        }
    };
}
pub(super) use tiled;
