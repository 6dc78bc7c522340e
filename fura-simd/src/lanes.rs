//! The canonical reduction: 16 lanes, then a fixed tree.

use crate::half::widen;

/// Number of lanes of every reduction. Sixteen fills one AVX-512 register, two AVX2, four NEON.
pub(crate) const LANES: usize = 16;

/// Folds the lanes: 8 onto 8, then 4, 2, 1.
#[inline(always)]
pub(crate) fn fold_add(v: [f32; LANES]) -> f32 {
    let mut a = [0.0f32; 8];
    for i in 0..8 {
        a[i] = v[i] + v[i + 8];
    }
    let mut b = [0.0f32; 4];
    for i in 0..4 {
        b[i] = a[i] + a[i + 4];
    }
    (b[0] + b[2]) + (b[1] + b[3])
}

/// A number as it is stored.
pub(crate) trait Stored: Copy {
    fn value(self) -> f32;
}

impl Stored for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

/// The bits of an f16.
impl Stored for u16 {
    #[inline(always)]
    fn value(self) -> f32 {
        widen(self)
    }
}

/// `a . b` with fused multiply-adds, element `i` into lane `i mod 16`.
#[inline(always)]
pub(crate) fn dot<T: Stored>(a: &[f32], b: &[T]) -> f32 {
    let (ac, at) = a.as_chunks::<LANES>();
    let (bc, bt) = b.as_chunks::<LANES>();
    let mut acc = [0.0f32; LANES];
    for (x, y) in ac.iter().zip(bc) {
        for l in 0..LANES {
            acc[l] = x[l].mul_add(y[l].value(), acc[l]);
        }
    }
    for (l, (x, y)) in at.iter().zip(bt).enumerate() {
        acc[l] = x.mul_add(y.value(), acc[l]);
    }
    fold_add(acc)
}

/// The larger of the two; `a` if either is NaN. One instruction on every tier.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}
