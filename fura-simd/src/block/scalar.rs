//! The specification: plain loops in the canonical order.
//!
//! No closures: a closure is compiled without the features of the kernel it is inlined into.

use super::matrix_len;

#[inline(always)]
pub(super) fn materialize(v: &[f32], c: &[f32], block: usize, t: &mut [f32]) {
    assert!(block > 0, "materialize: block must be positive");
    let n = matrix_len(c.len(), block);
    assert!(v.len() == n && t.len() == n, "materialize: lengths differ");
    let mut element = 0;
    for c in c.chunks(block) {
        let b = c.len();
        let v = &v[element..element + b * b];
        let t = &mut t[element..element + b * b];
        element += b * b;
        if b == 32 {
            materialize32(v, c, t);
            continue;
        }
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
}

/// The same order with a fixed width, so that a row of `T` stays in registers.
#[inline(always)]
fn materialize32(v: &[f32], c: &[f32], t: &mut [f32]) {
    let (v, _) = v.as_chunks::<32>();
    let (t, _) = t.as_chunks_mut::<32>();
    for (j, row) in t.iter_mut().enumerate() {
        let mut acc = [0.0f32; 32];
        for (vk, ck) in v.iter().zip(c) {
            let w = ck * vk[j];
            for l in 0..32 {
                acc[l] = w.mul_add(vk[l], acc[l]);
            }
        }
        *row = acc;
    }
}

#[inline(always)]
pub(super) fn apply(t: &[f32], block: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
        let mut element = 0;
        for (x, y) in x.chunks(block).zip(y.chunks_mut(block)) {
            let b = x.len();
            y.copy_from_slice(x);
            for (tj, xj) in t[element..element + b * b].chunks_exact(b).zip(x) {
                for (o, ti) in y.iter_mut().zip(tj) {
                    *o = ti.mul_add(*xj, *o);
                }
            }
            element += b * b;
        }
    }
}
