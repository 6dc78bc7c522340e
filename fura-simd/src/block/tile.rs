//! The kernel for blocks of 32, written once for every vector width.

/// Defines `apply32` for an instruction set. `$rows` rows share one pass over `T`: their `32 / $lanes` accumulators
/// each fill the registers without spilling. `$fma(t, x, acc)` is a fused `acc + t x`.
macro_rules! apply32 {
    ($features:literal, lanes: $lanes:literal, rows: $rows:literal, $load:ident, $store:ident, $splat:ident, $fma:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn apply32(t: &[f32], d_in: usize, x: &[f32], y: &mut [f32]) {
            let mut x_blocks = x.chunks_exact(d_in * $rows);
            let mut y_blocks = y.chunks_exact_mut(d_in * $rows);
            for (x, y) in x_blocks.by_ref().zip(y_blocks.by_ref()) {
                rows::<$rows>(t, d_in, x, y);
            }
            let (x, y) = (x_blocks.remainder(), y_blocks.into_remainder());
            for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
                rows::<1>(t, d_in, x, y);
            }
        }

        /// All blocks of `R` rows; the channels after the last whole block in the scalar order.
        #[inline]
        #[target_feature(enable = $features)]
        fn rows<const R: usize>(t: &[f32], d_in: usize, x: &[f32], y: &mut [f32]) {
            for k in 0..d_in / 32 {
                tile::<R>(t, k, d_in, x, y);
            }
            let rest = d_in % 32;
            if rest > 0 {
                let t = &t[t.len() - rest * rest..];
                for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
                    super::scalar::apply(t, rest, rest, &x[d_in - rest..], &mut y[d_in - rest..]);
                }
            }
        }

        /// Block `k` of `R` rows: the whole tile stays in registers while `T` streams by once.
        #[inline]
        #[target_feature(enable = $features)]
        fn tile<const R: usize>(t: &[f32], k: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
            const VECTORS: usize = 32 / $lanes;
            let (t, _) = t[k * 1024..(k + 1) * 1024].as_chunks::<$lanes>();
            let mut inputs = [&[0.0f32; 32]; R];
            for (r, row) in inputs.iter_mut().enumerate() {
                let at = r * d_in + k * 32;
                // The range is 32 long by construction, so the conversion cannot fail.
                *row = x[at..at + 32].first_chunk().unwrap();
            }
            let mut acc = [[$splat(0.0); VECTORS]; R];
            for r in 0..R {
                let (parts, _) = inputs[r].as_chunks::<$lanes>();
                for n in 0..VECTORS {
                    acc[r][n] = $load(&parts[n]);
                }
            }
            for j in 0..32 {
                let mut tj = [$splat(0.0); VECTORS];
                for n in 0..VECTORS {
                    tj[n] = $load(&t[j * VECTORS + n]);
                }
                for r in 0..R {
                    let xj = $splat(inputs[r][j]);
                    for n in 0..VECTORS {
                        acc[r][n] = $fma(tj[n], xj, acc[r][n]);
                    }
                }
            }
            for r in 0..R {
                let at = r * d_in + k * 32;
                let (parts, _) = y[at..at + 32].as_chunks_mut::<$lanes>();
                for n in 0..VECTORS {
                    $store(&mut parts[n], acc[r][n]);
                }
            }
        }
    };
}
pub(super) use apply32;
