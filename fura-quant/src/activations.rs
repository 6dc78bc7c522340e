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
/// assert_eq!(a.view().code(0, 3), -127);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Activations {
    d_in: usize,
    codes: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i32>,
    weighted: Vec<f32>,
}

/// Borrowed quantized rows (a whole [`Activations`] or some of its rows).
#[derive(Clone, Copy, Debug)]
pub struct ActivationRows<'a> {
    /// Input channels of a row.
    pub(crate) d_in: usize,
    /// `rows x d_in` codes.
    pub(crate) codes: &'a [i8],
    /// `rows x d_in / 32` scales.
    pub(crate) scales: &'a [f32],
    /// Sum of the codes of each group: undoes the offset of unsigned weight codes.
    pub(crate) sums: &'a [i32],
    /// `scale * sum` of each group: what a weight group's minimum is multiplied by.
    pub(crate) weighted: &'a [f32],
}

impl Activations {
    /// Room for `rows` rows of up to `d_in` channels without further allocation.
    pub fn with_capacity(rows: usize, d_in: usize) -> Self {
        let groups = rows * d_in.div_ceil(GROUP);
        Self {
            d_in,
            codes: Vec::with_capacity(groups * GROUP),
            scales: Vec::with_capacity(groups),
            sums: Vec::with_capacity(groups),
            weighted: Vec::with_capacity(groups),
        }
    }

    /// Quantizes the rows in `x`, replacing what was there.
    ///
    /// # Panics
    /// If `d_in` is not a positive multiple of 32 or `x` is not whole rows.
    pub fn quantize(&mut self, isa: Isa, x: &[f32], d_in: usize) {
        assert!(d_in > 0 && d_in.is_multiple_of(GROUP) && x.len().is_multiple_of(d_in));
        self.d_in = d_in;
        let groups = x.len() / GROUP;
        self.codes.resize(x.len(), 0);
        self.scales.resize(groups, 0.0);
        self.sums.resize(groups, 0);
        self.weighted.resize(groups, 0.0);
        quantize_groups(isa, x, &mut self.codes, &mut self.scales, &mut self.sums, &mut self.weighted);
    }

    /// All rows.
    pub fn view(&self) -> ActivationRows<'_> {
        ActivationRows {
            d_in: self.d_in,
            codes: &self.codes,
            scales: &self.scales,
            sums: &self.sums,
            weighted: &self.weighted,
        }
    }
}

impl<'a> ActivationRows<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.codes.len() / self.d_in
    }

    /// Rows `first .. first + count`.
    ///
    /// # Panics
    /// If they are not all there.
    pub fn slice(&self, first: usize, count: usize) -> ActivationRows<'a> {
        let (d, g) = (self.d_in, self.d_in / GROUP);
        ActivationRows {
            d_in: d,
            codes: &self.codes[first * d..][..count * d],
            scales: &self.scales[first * g..][..count * g],
            sums: &self.sums[first * g..][..count * g],
            weighted: &self.weighted[first * g..][..count * g],
        }
    }

    /// One code.
    pub fn code(&self, row: usize, channel: usize) -> i8 {
        self.codes[row * self.d_in + channel]
    }

    /// The scale of a group of a row.
    pub fn scale(&self, row: usize, group: usize) -> f32 {
        self.scales[row * (self.d_in / GROUP) + group]
    }
}

#[inline(always)]
fn quantize_body(x: &[f32], codes: &mut [i8], scales: &mut [f32], sums: &mut [i32], weighted: &mut [f32]) {
    // 1.5 * 2^23: after adding it the low byte of the bits is the rounded integer (ties to even).
    const ROUND: f32 = 12_582_912.0;
    let (x, _) = x.as_chunks::<GROUP>();
    let (codes, _) = codes.as_chunks_mut::<GROUP>();
    for ((((x, codes), scale), sum), weighted) in x.iter().zip(codes).zip(scales).zip(sums).zip(weighted) {
        // Magnitudes compared as integers: NaN and infinity are the largest, whatever their sign.
        let mut top = [0u32; GROUP];
        for l in 0..GROUP {
            top[l] = x[l].to_bits() & 0x7fff_ffff;
        }
        let top = top.iter().fold(0, |a, b| if *b > a { *b } else { a });
        let amax = f32::from_bits(top);
        let finite = top < f32::INFINITY.to_bits();
        // Below this 127 / amax overflows; such a group (all subnormal) counts as zeros.
        let used = finite && amax >= f32::MIN_POSITIVE;
        let inverse = if used { 127.0 / amax } else { 0.0 };
        let mut q = [0i32; GROUP];
        for l in 0..GROUP {
            // A product with NaN or infinity must not reach the integers.
            let v = if finite { x[l] * inverse } else { 0.0 };
            q[l] = (v + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        }
        let mut total = 0;
        for l in 0..GROUP {
            codes[l] = q[l] as i8;
            total += q[l];
        }
        *scale = if !finite { f32::NAN } else if used { amax / 127.0 } else { 0.0 };
        *sum = total;
        *weighted = *scale * total as f32;
    }
}

dispatch! {
    /// The kernel behind [`Activations::quantize`], on caller-owned buffers: `codes` as long as `x`, the
    /// others one value for each 32 channels.
    pub fn quantize_groups(
        x: &[f32],
        codes: &mut [i8],
        scales: &mut [f32],
        sums: &mut [i32],
        weighted: &mut [f32],
    ) = quantize_body
}
