//! Quantizing f32 weights, straight into packed tiles.
//!
//! Only `+ - * /`, rounding to integers and conversions to f16 are used, each of which IEEE 754 fixes, so the packed
//! bytes are the same on every CPU. Tiles do not depend on each other: the caller runs them in any order, on any
//! threads, and never needs more of a tensor than the rows of the tiles at hand.

use crate::format::{Format, TILE};
use crate::matrix::PackedMatrix;
use crate::source::{QuantError, place};
use half::f16;

/// How scales (and minima) are chosen. Codes are the nearest ones either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// From the range of the group: for `d (q - 8)` the value of largest magnitude becomes `q = 0`, so `d` may be
    /// negative; for `d q + m` the least value is `m` and the greatest `q = 15`; for 8 bits the largest magnitude
    /// becomes 127.
    Range,
    /// The least squared error found by search: from several ranges, narrower and wider, codes and scales are fitted
    /// to each other in turn (least squares for the scale, nearest codes). Never worse than [`Fit::Range`], group by
    /// group.
    LeastSquares,
}

/// What quantization did to some values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FitError {
    /// How many values.
    pub count: u64,
    /// Largest absolute error.
    pub max: f64,
    /// Sum of squared errors.
    pub squares: f64,
    /// Sum of squared values.
    pub norm: f64,
}

impl FitError {
    /// Root of the mean squared error; 0 for no values.
    pub fn rms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }

    /// The Frobenius norm of the error by that of the values; 0 for zeros.
    pub fn relative(&self) -> f64 {
        if self.norm == 0.0 { 0.0 } else { (self.squares / self.norm).sqrt() }
    }

    /// Errors of these values and of those. Sums depend on the order, so merge tiles in theirs.
    #[must_use]
    pub fn and(self, other: FitError) -> FitError {
        FitError {
            count: self.count + other.count,
            max: self.max.max(other.max),
            squares: self.squares + other.squares,
            norm: self.norm + other.norm,
        }
    }
}

/// Quantizes up to 16 rows of `d_in` values into the packed tile `out`; rows that are not there become zero weights.
///
/// A group of zeros becomes zeros. A scale too small for f16 becomes the least that there is, `2^-24`, so that values
/// below half of it become zeros. With minima, a constant group becomes its constant in f16.
///
/// ```
/// use fura_quant::{Fit, Format, Group, PackedMatrix, quantize_tile};
/// let rows: Vec<f32> = (0..2 * 64).map(|i| (i as f32 * 0.7).sin()).collect();
/// let format = Format::Q4(Group::G64);
/// let mut tile = vec![0; format.packed_tile(64)];
/// let error = quantize_tile(format, Fit::LeastSquares, &rows, 64, &mut tile)?;
/// assert!(error.relative() < 0.1);
/// let mut decoded = [0.0; 64];
/// PackedMatrix::new(format, 2, 64, &tile)?.decode_row(1, &mut decoded);
/// assert!((decoded[5] - rows[64 + 5]).abs() as f64 <= error.max);
/// # Ok::<(), fura_quant::QuantError>(())
/// ```
///
/// # Errors
/// [`QuantError::Shape`] if rows do not divide into groups; [`QuantError::Value`] for a value that is NaN, infinite or
/// too large, with its row among those given.
///
/// # Panics
/// If there are no rows or more than 16, or `out` is not [`Format::packed_tile`] bytes.
pub fn quantize_tile(
    format: Format,
    fit: Fit,
    rows: &[f32],
    d_in: usize,
    out: &mut [u8],
) -> Result<FitError, QuantError> {
    let n = format.group();
    if d_in == 0 || !d_in.is_multiple_of(n) {
        return Err(QuantError::Shape { group: n, d_out: rows.len() / d_in.max(1), d_in });
    }
    assert!(!rows.is_empty() && rows.len().is_multiple_of(d_in) && rows.len() <= TILE * d_in);
    assert_eq!(out.len(), format.packed_tile(d_in), "quantize_tile: the tile has another size");
    let limit = largest(format);
    if let Some(at) = rows.iter().position(|x| x.is_nan() || x.abs() > limit) {
        return Err(QuantError::Value { row: at / d_in, channel: at % d_in, value: rows[at], limit });
    }
    out.fill(0);
    let mut report = FitError::default();
    for (r, row) in rows.chunks_exact(d_in).enumerate() {
        for (x, block) in row.chunks_exact(n).zip(out.chunks_exact_mut(format.packed_group())) {
            let coding = Coding::fitted(format, fit, x);
            let [d, m] = [coding.d.to_le_bytes(), coding.m.to_le_bytes()];
            let floats = [d[0], d[1], m[0], m[1]];
            let floats = &floats[..if format.has_minimum() { 4 } else { 2 }];
            place(format, block, r, |channel| coding.codes[channel], floats);
            report = report.and(coding.error(format, x));
        }
    }
    Ok(report)
}

/// Quantizes one group of a row into its source block ([`Format::source_group`]), the unit of a
/// [`SourceMatrix`](crate::SourceMatrix): scale, minimum, codes.
///
/// ```
/// use fura_quant::{Fit, Format, SourceMatrix, quantize_group};
/// let x: [f32; 32] = std::array::from_fn(|i| i as f32 - 16.0);
/// let mut block = [0; 34];
/// let error = quantize_group(Format::Q8, Fit::Range, &x, &mut block)?;
/// let mut decoded = [0.0; 32];
/// SourceMatrix::new(Format::Q8, 1, 32, &block)?.decode(0, 0, &mut decoded);
/// assert!((decoded[3] - x[3]).abs() as f64 <= error.max);
/// # Ok::<(), fura_quant::QuantError>(())
/// ```
///
/// # Errors
/// [`QuantError::Value`], with row 0.
///
/// # Panics
/// If `x` is not one group or `out` not one source block.
pub fn quantize_group(format: Format, fit: Fit, x: &[f32], out: &mut [u8]) -> Result<FitError, QuantError> {
    assert!(x.len() == format.group() && out.len() == format.source_group());
    let limit = largest(format);
    if let Some(channel) = x.iter().position(|x| x.is_nan() || x.abs() > limit) {
        return Err(QuantError::Value { row: 0, channel, value: x[channel], limit });
    }
    let coding = Coding::fitted(format, fit, x);
    let floats = if format.has_minimum() { 4 } else { 2 };
    out[..2].copy_from_slice(&coding.d.to_le_bytes());
    if format.has_minimum() {
        out[2..4].copy_from_slice(&coding.m.to_le_bytes());
    }
    let codes = &coding.codes[..x.len()];
    if format == Format::Q8 {
        out[floats..].copy_from_slice(codes);
    } else {
        for (bytes, codes) in out[floats..].chunks_exact_mut(16).zip(codes.chunks_exact(32)) {
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = codes[i] | codes[16 + i] << 4;
            }
        }
    }
    Ok(coding.error(format, x))
}

/// Quantizes a whole matrix, row-major. Large ones go tile by tile with [`quantize_tile`] instead.
///
/// # Errors
/// As [`quantize_tile`].
pub fn quantize(
    format: Format,
    fit: Fit,
    values: &[f32],
    d_out: usize,
    d_in: usize,
) -> Result<(Vec<u8>, FitError), QuantError> {
    if d_out == 0 || d_in == 0 || d_out.checked_mul(d_in) != Some(values.len()) {
        return Err(QuantError::Shape { group: format.group(), d_out, d_in });
    }
    let mut bytes = vec![0; d_out.div_ceil(TILE) * format.packed_tile(d_in)];
    let mut report = FitError::default();
    if d_in.is_multiple_of(format.group()) {
        let tiles = bytes.chunks_exact_mut(format.packed_tile(d_in));
        for (t, (rows, tile)) in values.chunks(TILE * d_in).zip(tiles).enumerate() {
            let error = quantize_tile(format, fit, rows, d_in, tile).map_err(|error| error.in_tile(t))?;
            report = report.and(error);
        }
    }
    PackedMatrix::new(format, d_out, d_in, &bytes)?;
    Ok((bytes, report))
}

/// The largest magnitude whose scale and minimum are finite in f16.
fn largest(format: Format) -> f32 {
    match format {
        Format::Q4(_) => 8.0 * f16::MAX.to_f32(),
        Format::Q4Min(_) => f16::MAX.to_f32(),
        Format::Q8 => 127.0 * f16::MAX.to_f32(),
    }
}

/// A coded group.
struct Coding {
    d: f16,
    m: f16,
    codes: [u8; 128],
}

impl Coding {
    /// The nearest codes to `x` for a scale and a minimum.
    fn nearest(format: Format, x: &[f32], d: f32, m: f32) -> Self {
        let (mut coded, m) = (f16::from_f32(d), f16::from_f32(m));
        if coded.to_f32() == 0.0 && d != 0.0 {
            // Too small for f16: small codes times the least scale are better than zeros.
            coded = if d > 0.0 { f16::MIN_POSITIVE_SUBNORMAL } else { -f16::MIN_POSITIVE_SUBNORMAL };
        }
        let d = coded;
        let (scale, minimum) = (d.to_f32(), m.to_f32());
        let mut codes = [0; 128];
        for (code, x) in codes.iter_mut().zip(x) {
            // A scale of 0 stands for nothing but the minimum, or zero.
            let steps = if scale == 0.0 { 0.0 } else { ((x - minimum) / scale).round_ties_even() };
            *code = match format {
                Format::Q4(_) => (steps + 8.0).clamp(0.0, 15.0) as u8,
                Format::Q4Min(_) => steps.clamp(0.0, 15.0) as u8,
                Format::Q8 => steps.clamp(-127.0, 127.0) as i8 as u8,
            };
        }
        Self { d, m, codes }
    }

    fn fitted(format: Format, fit: Fit, x: &[f32]) -> Self {
        match fit {
            Fit::Range => Self::from_range(format, x),
            Fit::LeastSquares => Self::least_squares(format, x),
        }
    }

    fn from_range(format: Format, x: &[f32]) -> Self {
        let (d, m) = range(format, x);
        Self::nearest(format, x, d, m)
    }

    fn least_squares(format: Format, x: &[f32]) -> Self {
        /// Shares of the range to start from. Narrower ones clip the extremes and are finer elsewhere.
        const STARTS: [f32; 9] = [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1];
        /// Times that codes and scale are fitted to each other.
        const TURNS: usize = 3;
        let mut best = Self::from_range(format, x);
        let mut least = best.error(format, x).squares;
        let (d, m) = range(format, x);
        let middle = m + 7.5 * d;
        // Symmetric codes reach -8 but only 7: which end gets the eighth step is part of the search.
        let signs: &[f32] = if matches!(format, Format::Q4(_)) { &[1.0, -1.0] } else { &[1.0] };
        for share in STARTS {
            for sign in signs {
                let d = sign * share * d;
                let m = if format.has_minimum() { middle - 7.5 * d } else { 0.0 };
                let mut coding = Self::nearest(format, x, d, m);
                for _ in 0..TURNS {
                    let (d, m) = coding.regression(format, x);
                    let (d, m) = (f16::from_f32(d), f16::from_f32(m));
                    if !d.is_finite() || !m.is_finite() {
                        break;
                    }
                    coding = Self::nearest(format, x, d.to_f32(), m.to_f32());
                    let squares = coding.error(format, x).squares;
                    if squares < least {
                        least = squares;
                        best = Self { codes: coding.codes, d: coding.d, m: coding.m };
                    }
                }
            }
        }
        best
    }

    /// The scale and minimum of least squared error for the codes.
    fn regression(&self, format: Format, x: &[f32]) -> (f32, f32) {
        let (mut q1, mut q2, mut x1, mut xq) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
        for (x, code) in x.iter().zip(&self.codes) {
            let (x, q) = (f64::from(*x), f64::from(steps(format, *code)));
            q1 += q;
            q2 += q * q;
            x1 += x;
            xq += x * q;
        }
        let n = x.len() as f64;
        if !format.has_minimum() {
            return (if q2 == 0.0 { 0.0 } else { (xq / q2) as f32 }, 0.0);
        }
        let spread = n * q2 - q1 * q1;
        let d = if spread == 0.0 { 0.0 } else { (n * xq - q1 * x1) / spread };
        let m = f16::from_f32(((x1 - d * q1) / n) as f32);
        // The minimum is rounded first; the scale makes up for it.
        let d = if q2 == 0.0 { 0.0 } else { (xq - f64::from(m) * q1) / q2 };
        (d as f32, m.to_f32())
    }

    fn error(&self, format: Format, x: &[f32]) -> FitError {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        let mut report = FitError { count: x.len() as u64, ..FitError::default() };
        for (x, code) in x.iter().zip(&self.codes) {
            // In f32, as weights are decoded.
            let scaled = d * f32::from(steps(format, *code));
            let w = if format.has_minimum() { scaled + m } else { scaled };
            let error = (f64::from(*x) - f64::from(w)).abs();
            report.max = report.max.max(error);
            report.squares += error * error;
            report.norm += f64::from(*x) * f64::from(*x);
        }
        report
    }
}

/// What a code is multiplied by the scale as.
fn steps(format: Format, code: u8) -> i8 {
    match format {
        Format::Q4(_) => code as i8 - 8,
        Format::Q4Min(_) | Format::Q8 => code as i8,
    }
}

/// Scale and minimum of [`Fit::Range`], before they are rounded to f16.
fn range(format: Format, x: &[f32]) -> (f32, f32) {
    let (mut low, mut high) = (x[0], x[0]);
    for x in x {
        low = low.min(*x);
        high = high.max(*x);
    }
    match format {
        Format::Q4Min(_) => ((high - low) / 15.0, low),
        Format::Q4(_) => (if -low >= high { low / -8.0 } else { high / -8.0 }, 0.0),
        Format::Q8 => (high.max(-low) / 127.0, 0.0),
    }
}
