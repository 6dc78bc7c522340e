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
    /// All of `numbers`, in `wide` unless they are f32 as they are.
    fn widened<'a>(numbers: &'a [Self], wide: &'a mut [f32]) -> &'a [f32];
}

impl Stored for f32 {
    #[inline(always)]
    fn widened<'a>(numbers: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        numbers
    }
}

/// The bits of an f16.
impl Stored for u16 {
    #[inline(always)]
    fn widened<'a>(numbers: &'a [Self], wide: &'a mut [f32]) -> &'a [f32] {
        let wide = &mut wide[..numbers.len()];
        for (to, from) in wide.iter_mut().zip(numbers) {
            *to = widen(*from);
        }
        wide
    }
}

/// The larger of the two; `a` if either is NaN. One instruction on every tier.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}
