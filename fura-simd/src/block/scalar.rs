//! The specification: plain loops in the canonical order.

use super::{for_each_block, matrix_len};

#[inline(always)]
pub(super) fn materialize(v: &[f32], c: &[f32], block: usize, t: &mut [f32]) {
    assert!(block > 0, "materialize: block must be positive");
    let n = matrix_len(c.len(), block);
    assert!(v.len() == n && t.len() == n, "materialize: lengths differ");
    for_each_block(c.len(), block, |channel, element, b| {
        let c = &c[channel..channel + b];
        let v = &v[element..element + b * b];
        let t = &mut t[element..element + b * b];
        for (j, row) in t.chunks_exact_mut(b).enumerate() {
            row.fill(0.0);
            for (vk, ck) in v.chunks_exact(b).zip(c) {
                let w = ck * vk[j];
                for (o, vi) in row.iter_mut().zip(vk) {
                    *o = w.mul_add(*vi, *o);
                }
            }
        }
    });
}

#[inline(always)]
pub(super) fn apply(t: &[f32], block: usize, d_in: usize, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(d_in).zip(y.chunks_exact_mut(d_in)) {
        for_each_block(d_in, block, |channel, element, b| {
            let t = &t[element..element + b * b];
            let x = &x[channel..channel + b];
            let y = &mut y[channel..channel + b];
            y.copy_from_slice(x);
            for (tj, xj) in t.chunks_exact(b).zip(x) {
                for (o, ti) in y.iter_mut().zip(tj) {
                    *o = ti.mul_add(*xj, *o);
                }
            }
        });
    }
}
