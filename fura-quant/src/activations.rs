//! Activations quantized to int8, one f32 scale for each group of 32 channels of a row.

use crate::format::GROUP;
use fura_simd::{Isa, dispatch};

/// Quantized rows, in buffers that are reused from call to call.
///
/// For each group: `scale = amax / 127`, `code = round(x * (127 / amax))` ties to even, in -127..=127. A group
/// of zeros has scale 0. A group with an infinity or NaN has codes 0 and scale NaN, so that the rows it feeds
/// come out NaN on every tier instead of plausible.
///
/// ```
/// use fura_quant::Activations;
/// let mut a = Activations::with_capacity(1, 32);
/// let mut x = [0.0f32; 32];
/// x[3] = -2.0;
/// a.quantize(fura_simd::Isa::detect(), &x, 32);
/// assert_eq!(a.view().row(0)[0].codes[3], -127);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Activations {
    d_in: usize,
    groups: Vec<ActivationGroup>,
}

/// 32 quantized channels of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActivationGroup {
    /// The codes, -127..=127.
    pub codes: [i8; GROUP],
    /// What a code of 1 stands for.
    pub scale: f32,
    /// Sum of the codes: undoes the offset of unsigned weight codes.
    pub sum: i32,
    /// `scale * sum`: what a weight group's minimum is multiplied by.
    pub weighted: f32,
}

/// Borrowed quantized rows (a whole [`Activations`] or some of its rows).
#[derive(Clone, Copy, Debug)]
pub struct ActivationRows<'a> {
    groups_per_row: usize,
    groups: &'a [ActivationGroup],
}

impl Activations {
    /// Room for `rows` rows of up to `d_in` channels without further allocation.
    pub fn with_capacity(rows: usize, d_in: usize) -> Self {
        Self { d_in, groups: Vec::with_capacity(rows * d_in.div_ceil(GROUP)) }
    }

    /// Quantizes the rows in `x`, replacing what was there.
    ///
    /// # Panics
    /// If `d_in` is not a positive multiple of 32 or `x` is not whole rows.
    pub fn quantize(&mut self, isa: Isa, x: &[f32], d_in: usize) {
        assert!(d_in > 0 && d_in.is_multiple_of(GROUP) && x.len().is_multiple_of(d_in));
        self.d_in = d_in;
        self.groups.resize(x.len() / GROUP, ActivationGroup::default());
        quantize_groups(isa, x, &mut self.groups);
    }

    /// All rows.
    pub fn view(&self) -> ActivationRows<'_> {
        ActivationRows { groups_per_row: self.d_in / GROUP, groups: &self.groups }
    }
}

impl<'a> ActivationRows<'a> {
    /// Rows of `d_in` channels over groups quantized with [`quantize_groups`].
    ///
    /// # Panics
    /// If `groups` is not whole rows.
    pub fn new(d_in: usize, groups: &'a [ActivationGroup]) -> Self {
        let groups_per_row = d_in / GROUP;
        assert!(groups_per_row > 0 && groups.len().is_multiple_of(groups_per_row));
        Self { groups_per_row, groups }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.groups.len() / self.groups_per_row
    }

    /// Input channels of a row.
    pub fn d_in(&self) -> usize {
        self.groups_per_row * GROUP
    }

    /// Rows `first .. first + count`.
    ///
    /// # Panics
    /// If they are not all there.
    pub fn slice(&self, first: usize, count: usize) -> ActivationRows<'a> {
        let n = self.groups_per_row;
        ActivationRows { groups_per_row: n, groups: &self.groups[first * n..][..count * n] }
    }

    /// The groups of one row.
    pub fn row(&self, row: usize) -> &'a [ActivationGroup] {
        &self.groups[row * self.groups_per_row..][..self.groups_per_row]
    }
}

/// Reduces 32 lanes to 1 by halves; written out so that it vectorizes.
#[inline(always)]
fn fold<T: Copy + Default>(lanes: [T; GROUP], f: impl Fn(T, T) -> T) -> T {
    let mut a = [T::default(); 16];
    for l in 0..16 {
        a[l] = f(lanes[l], lanes[l + 16]);
    }
    let mut b = [T::default(); 8];
    for l in 0..8 {
        b[l] = f(a[l], a[l + 8]);
    }
    let mut c = [T::default(); 4];
    for l in 0..4 {
        c[l] = f(b[l], b[l + 4]);
    }
    f(f(c[0], c[2]), f(c[1], c[3]))
}

#[inline(always)]
fn quantize_body(x: &[f32], groups: &mut [ActivationGroup]) {
    // 1.5 * 2^23: after adding it the low byte of the bits is the rounded integer (ties to even).
    const ROUND: f32 = 12_582_912.0;
    let (x, _) = x.as_chunks::<GROUP>();
    for (x, group) in x.iter().zip(groups) {
        // Magnitudes compared as integers: NaN and infinity are the largest, whatever their sign.
        let mut top = [0u32; GROUP];
        for l in 0..GROUP {
            top[l] = x[l].to_bits() & 0x7fff_ffff;
        }
        let top = fold(top, |a, b| if b > a { b } else { a });
        if top >= f32::INFINITY.to_bits() {
            // Neither infinity nor NaN may reach the integers.
            *group = ActivationGroup { scale: f32::NAN, weighted: f32::NAN, ..ActivationGroup::default() };
            continue;
        }
        let amax = f32::from_bits(top);
        // Below this 127 / amax overflows; such a group (all subnormal) counts as zeros.
        let (inverse, scale) = if amax >= f32::MIN_POSITIVE { (127.0 / amax, amax / 127.0) } else { (0.0, 0.0) };
        let mut q = [0i32; GROUP];
        for l in 0..GROUP {
            q[l] = (x[l] * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        }
        for l in 0..GROUP {
            group.codes[l] = q[l] as i8;
        }
        let sum = fold(q, |a, b| a + b);
        group.scale = scale;
        group.sum = sum;
        group.weighted = scale * sum as f32;
    }
}

dispatch! {
    /// The kernel behind [`Activations::quantize`], on a caller-owned buffer of one group for each 32 values.
    pub fn quantize_groups(x: &[f32], groups: &mut [ActivationGroup]) = quantize_body
}
