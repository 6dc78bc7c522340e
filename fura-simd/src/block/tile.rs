//! The kernels for blocks of 32 and 64 channels, written once for every vector width.
//!
//! Both are products of matrices: `T x` for many rows `x`, and `(V diag(c)) V^T`, whose rows are those of `T`. A tile is
//! some rows by a panel of some vectors of columns; its accumulators stay in registers while the right matrix streams by
//! once. In kernels of fixed size nothing is left to check but the rows' ends.

/// Rows times channels whose blocks are transformed one after another, half a MiB: a block of `T` is used for many rows
/// while it is in the first-level cache, and the rows are in the second-level cache when their next block's turn comes.
const AT_ONCE: usize = 1 << 17;

/// As many rows as that in whole tiles of every height, 24 if that is more.
pub(super) fn rows_at_once(d_in: usize) -> usize {
    (AT_ONCE / d_in / 24 * 24).max(24)
}

/// From so many rows on, the loads saved pay for a copy of `T` that starts with a cache line.
const WORTH_A_COPY: usize = 48;

/// Whether to copy the blocks of `T` for some rows. A vector of 64 bytes that does not start with a cache line is two
/// loads, and an allocator's alignment is 16.
pub(super) fn worth_a_copy(t: &[f32], rows: usize) -> bool {
    rows >= WORTH_A_COPY && !t.as_ptr().addr().is_multiple_of(64)
}

/// Room for a block.
#[repr(align(64))]
pub(super) struct Aligned(pub(super) [f32; 64 * 64]);

/// The first `B` floats of `R` rows that start `stride` apart.
#[inline(always)]
pub(super) fn rows<const R: usize, const B: usize>(from: &[f32], stride: usize) -> [&[f32; B]; R] {
    let mut rows = [&[0.0f32; B]; R];
    for (r, row) in rows.iter_mut().enumerate() {
        // The range is `B` long by construction, so the conversion cannot fail.
        *row = from[r * stride..r * stride + B].first_chunk().unwrap();
    }
    rows
}

/// `acc[r] += sum over j of left(r, j) * (panel of right[j])`, in order. A macro, since an instruction set's functions
/// cannot be forced inline and the accumulators must not leave their registers.
macro_rules! accumulate {
    ($acc:ident, |$r:ident, $j:ident| $left:expr, $right:ident, $panel:ident, lanes: $lanes:literal, $load:ident, $splat:ident, $fma:ident) => {
        for ($j, row) in $right.iter().enumerate() {
            let (parts, _) = row.as_chunks::<$lanes>();
            for $r in 0..R {
                let x = $splat($left);
                for n in 0..N {
                    $acc[$r][n] = $fma($load(&parts[$panel * N + n]), x, $acc[$r][n]);
                }
            }
        }
    };
}
pub(super) use accumulate;

/// Defines `apply` and `materialize` for an instruction set. For each size of a block, its tiles as rows x vectors, the
/// largest first and one of a single row last; accumulators, a panel of the right matrix and an element of the left one must
/// fit the registers. `$fma(m, x, acc)` is a fused `acc + m x`.
macro_rules! tiled {
    ($features:literal, lanes: $lanes:literal, tiles: { $($b:literal: $($rows:literal x $vectors:literal),+;)+ }, $load:ident, $store:ident, $splat:ident, $mul:ident, $fma:ident) => {
        use super::tile::{Aligned, accumulate, rows, rows_at_once, worth_a_copy};

        /// `y = x + T x`, or `y += T y` without an `x`; then `scratch` has room for a block's channels.
        #[target_feature(enable = $features)]
        pub(super) fn apply(
            t: &[f32],
            block: usize,
            d_in: usize,
            x: Option<&[f32]>,
            y: &mut [f32],
            scratch: &mut [f32],
        ) {
            if !worth_a_copy(t, rows_at_once(d_in).min(y.len() / d_in)) {
                return apply_with(t, block, d_in, x, y, scratch, None);
            }
            apply_with(t, block, d_in, x, y, scratch, Some(&mut Aligned([0.0; 64 * 64])));
        }

        #[target_feature(enable = $features)]
        fn apply_with(
            t: &[f32],
            block: usize,
            d_in: usize,
            x: Option<&[f32]>,
            y: &mut [f32],
            scratch: &mut [f32],
            mut copy: Option<&mut Aligned>,
        ) {
            let chunk = rows_at_once(d_in) * d_in;
            for (i, y) in y.chunks_mut(chunk).enumerate() {
                let x = x.map(|x| &x[i * chunk..][..y.len()]);
                let (mut first, mut element) = (0, 0);
                while first < d_in {
                    let b = block.min(d_in - first);
                    let mut t = &t[element..element + b * b];
                    if let Some(copy) = &mut copy && b <= 64 {
                        copy.0[..b * b].copy_from_slice(t);
                        t = &copy.0[..b * b];
                    }
                    match b {
                        $($b => match x {
                            Some(x) => apply_block::<false, $b>(t, first, d_in, x, y),
                            None => apply_block::<true, $b>(t, first, d_in, &[], y),
                        },)+
                        _ => super::scalar::apply_column(t, b, first, d_in, x, y, scratch),
                    }
                    element += b * b;
                    first += b;
                }
            }
        }

        /// The block of channels from `first` on, for all rows.
        #[target_feature(enable = $features)]
        fn apply_block<const PLACE: bool, const B: usize>(t: &[f32], first: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
            let (t, _) = t.as_chunks::<B>();
            let all = y.len() / d_in;
            let mut row = 0;
            while row < all {
                let at = row * d_in + first;
                let (x, y) = (if PLACE { x } else { &x[at..] }, &mut y[at..]);
                row += match (B, all - row) {
                    $($(($b, left) if left >= $rows => apply_tile::<PLACE, $rows, B, $vectors>(t, d_in, x, y),)+)+
                    _ => unreachable!("every size has tiles of one row"),
                };
            }
        }

        /// `R` rows, the first at the start of `x` and `y`, in panels of `N` vectors; returns `R`.
        #[inline]
        #[target_feature(enable = $features)]
        fn apply_tile<const PLACE: bool, const R: usize, const B: usize, const N: usize>(
            t: &[[f32; B]],
            d_in: usize,
            x: &[f32],
            y: &mut [f32],
        ) -> usize {
            let panels = B / (N * $lanes);
            let mut own = [[0.0f32; B]; R];
            if PLACE && panels > 1 {
                // The first panel's results would be the next one's rows.
                for (own, row) in own.iter_mut().zip(rows::<R, B>(y, d_in)) {
                    let ((to, _), (from, _)) = (own.as_chunks_mut::<$lanes>(), row.as_chunks::<$lanes>());
                    for n in 0..B / $lanes {
                        $store(&mut to[n], $load(&from[n]));
                    }
                }
            }
            for panel in 0..panels {
                let left = match (PLACE, panels) {
                    (false, _) => rows(x, d_in),
                    (true, 1) => rows(y, d_in),
                    (true, _) => own.each_ref(),
                };
                let mut acc = [[$splat(0.0); N]; R];
                for r in 0..R {
                    let (parts, _) = left[r].as_chunks::<$lanes>();
                    for n in 0..N {
                        acc[r][n] = $load(&parts[panel * N + n]);
                    }
                }
                accumulate!(acc, |r, j| left[r][j], t, panel, lanes: $lanes, $load, $splat, $fma);
                for r in 0..R {
                    let at = r * d_in + panel * N * $lanes;
                    let (parts, _) = y[at..at + N * $lanes].as_chunks_mut::<$lanes>();
                    for n in 0..N {
                        $store(&mut parts[n], acc[r][n]);
                    }
                }
            }
            R
        }

        #[target_feature(enable = $features)]
        pub(super) fn materialize(v: &[f32], c: &[f32], block: usize, t: &mut [f32]) {
            let (mut element, mut scaled) = (0, Aligned([0.0; 64 * 64]));
            for c in c.chunks(block) {
                let range = element..element + c.len() * c.len();
                element = range.end;
                let (v, t) = (&v[range.clone()], &mut t[range]);
                match c.len() {
                    $($b => materialize_block::<$b>(v, c, &mut scaled, t),)+
                    _ => super::scalar::materialize_block(v, c, t),
                }
            }
        }

        #[target_feature(enable = $features)]
        fn materialize_block<const B: usize>(v: &[f32], c: &[f32], scaled: &mut Aligned, t: &mut [f32]) {
            let ((v, _), (t, _)) = (v.as_chunks::<B>(), t.as_chunks_mut::<B>());
            let (scaled, _) = scaled.0[..B * B].as_chunks_mut::<B>();
            for ((scaled, vk), ck) in scaled.iter_mut().zip(v).zip(c) {
                let ((to, _), (from, _)) = (scaled.as_chunks_mut::<$lanes>(), vk.as_chunks::<$lanes>());
                for n in 0..B / $lanes {
                    $store(&mut to[n], $mul($splat(*ck), $load(&from[n])));
                }
            }
            let mut row = 0;
            while row < B {
                row += match (B, B - row) {
                    $($(($b, left) if left >= $rows => materialize_tile::<$rows, B, $vectors>(v, scaled, row, t),)+)+
                    _ => unreachable!("every size has tiles of one row"),
                };
            }
        }

        /// `R` rows of `T` from `first` on, in panels of `N` vectors; returns `R`.
        #[inline]
        #[target_feature(enable = $features)]
        fn materialize_tile<const R: usize, const B: usize, const N: usize>(
            v: &[[f32; B]],
            scaled: &[[f32; B]],
            first: usize,
            t: &mut [[f32; B]],
        ) -> usize {
            for panel in 0..B / (N * $lanes) {
                let mut acc = [[$splat(0.0); N]; R];
                accumulate!(acc, |r, k| scaled[k][first + r], v, panel, lanes: $lanes, $load, $splat, $fma);
                for r in 0..R {
                    let (parts, _) = t[first + r].as_chunks_mut::<$lanes>();
                    for n in 0..N {
                        $store(&mut parts[panel * N + n], acc[r][n]);
                    }
                }
            }
            R
        }
    };
}
pub(super) use tiled;
