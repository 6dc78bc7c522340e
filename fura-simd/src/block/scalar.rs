//! The specification: plain loops in the canonical order.
//!
//! The functions for one block are inlined into other tiers' kernels too. They have no closures: a closure is compiled
//! without the features of the kernel it is inlined into.

pub(super) fn materialize(v: &[f32], c: &[f32], block: usize, t: &mut [f32]) {
    let mut element = 0;
    for c in c.chunks(block) {
        let range = element..element + c.len() * c.len();
        element = range.end;
        materialize_block(&v[range.clone()], c, &mut t[range]);
    }
}

#[inline(always)]
pub(super) fn materialize_block(v: &[f32], c: &[f32], t: &mut [f32]) {
    let b = c.len();
    for (j, row) in t.chunks_exact_mut(b).enumerate() {
        row.fill(0.0);
        for (vk, ck) in v.chunks_exact(b).zip(c) {
            let w = ck * vk[j];
            for (o, vi) in row.iter_mut().zip(vk) {
                *o = w.mul_add(*vi, *o);
            }
        }
    }
}

/// `y = x + T x`, or `y += T y` without an `x`; then `scratch` has room for a block's channels.
pub(super) fn apply(
    t: &[f32],
    block: usize,
    d_in: usize,
    x: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let (mut first, mut element) = (0, 0);
    while first < d_in {
        let b = block.min(d_in - first);
        apply_column(&t[element..element + b * b], b, first, d_in, x, y, scratch);
        element += b * b;
        first += b;
    }
}

/// The block of `b` channels from `first` on, for all rows.
#[inline(always)]
pub(super) fn apply_column(
    t: &[f32],
    b: usize,
    first: usize,
    d_in: usize,
    x: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    for at in (first..y.len()).step_by(d_in) {
        let y = &mut y[at..at + b];
        match x {
            Some(x) => apply_block(t, &x[at..at + b], y),
            None => {
                scratch[..b].copy_from_slice(y);
                apply_block(t, &scratch[..b], y);
            }
        }
    }
}

#[inline(always)]
fn apply_block(t: &[f32], x: &[f32], y: &mut [f32]) {
    y.copy_from_slice(x);
    for (tj, xj) in t.chunks_exact(x.len()).zip(x) {
        for (o, ti) in y.iter_mut().zip(tj) {
            *o = ti.mul_add(*xj, *o);
        }
    }
}
