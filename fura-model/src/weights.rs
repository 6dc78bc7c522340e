//! A matrix of a model file, and what the pack makes of it.
//!
//! The pack knows three group formats. GGUF types that are one of them keep their bytes. Types whose values are
//! integers times one scale for each 32 channels become 8-bit groups without loss; Q4_K becomes 4-bit groups with
//! the products of its scales rounded to f16; everything else becomes the nearest 8-bit groups. A matrix is
//! converted 32 channels at a time, through a block of Q4_1 or Q8_0, and never exists twice.

use crate::gguf::{DECODE_GROUP, IQ4_NL_VALUES, MXFP4_DOUBLED, TensorKind};
use crate::gguf::{f16, five_bits, k_nibble, mxfp4_half_scale, nibble, scale_min};
use crate::grouped::Grouped;
use fura_quant::{Fit, FitError, Format, GROUP, Group, QuantError, SourceMatrix, TILE, quantize_group};
use half::f16 as Half;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

const _: () = assert!(GROUP == DECODE_GROUP, "one group of a type that is not ours becomes one of ours");

/// How far the converted values of a matrix are from those of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Largest magnitude of a difference.
    pub max: f64,
    /// Root mean square of the differences.
    pub rms: f64,
    /// Frobenius norm of the difference, as a share of that of the file's values; 0 for a matrix of zeros.
    pub relative: f64,
}

/// What linears of floats become in the pack: 4.5 bits a weight. A minimum would cost half a bit more and save less than
/// half a bit of 4-bit groups does (`fewer_bits_for_the_error_than_with_a_minimum` below).
const QUANTIZED: Format = Format::Q4(Group::G32);

/// A matrix in 4-bit groups of GGUF: of floats, or of groups of another kind.
#[derive(Debug)]
pub(crate) struct Quantized {
    kind: TensorKind,
    d_out: usize,
    d_in: usize,
    blocks: Vec<u8>,
    deviation: Deviation,
}

impl Quantized {
    /// `blocks` are those of Q4_0 or Q4_1, row after row.
    pub(crate) fn new(
        kind: TensorKind,
        d_out: usize,
        d_in: usize,
        blocks: Vec<u8>,
        deviation: Deviation,
    ) -> Self {
        Self { kind, d_out, d_in, blocks, deviation }
    }

    pub(crate) fn format(&self) -> Format {
        packed_as(self.kind)
    }

    pub(crate) fn deviation(&self) -> Deviation {
        self.deviation
    }

    /// The groups as a matrix of the file would have them.
    pub(crate) fn weights(&self) -> Weights<'_> {
        let Self { kind, d_out, d_in, blocks, .. } = self;
        let format = self.format();
        Weights { kind: *kind, format, d_out: *d_out, d_in: *d_in, bytes: blocks, grouped: None }
    }
}

/// The pack's format for a type.
fn packed_as(kind: TensorKind) -> Format {
    match kind {
        TensorKind::Q4_0 => Format::Q4(Group::G32),
        TensorKind::Q4_1 | TensorKind::Q4_K => Format::Q4Min(Group::G32),
        _ => Format::Q8,
    }
}

/// Consecutive rows of a tensor as stored in the file, and the format they are packed in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights<'a> {
    kind: TensorKind,
    format: Format,
    d_out: usize,
    d_in: usize,
    bytes: &'a [u8],
    /// In place of `bytes`; such a matrix is used as what [`Weights::converted`] makes of it.
    grouped: Option<Grouped<'a>>,
}

impl<'a> Weights<'a> {
    /// `bytes` are `d_out` rows of `d_in` elements of type `kind`.
    ///
    /// # Errors
    /// As [`SourceMatrix::new`]: the shape does not divide into groups or the length is wrong.
    pub(crate) fn new(
        kind: TensorKind,
        d_out: usize,
        d_in: usize,
        bytes: &'a [u8],
    ) -> Result<Self, QuantError> {
        let format = packed_as(kind);
        if d_out == 0 || d_in == 0 || !d_in.is_multiple_of(GROUP) {
            return Err(QuantError::Shape { d_out, d_in, group: GROUP });
        }
        let expected = kind.storage_bytes(&[d_in, d_out]);
        if expected != Some(bytes.len()) {
            let (expected, found) = (expected.unwrap_or(usize::MAX), bytes.len());
            return Err(QuantError::Length { format: kind.name(), d_out, d_in, expected, found });
        }
        Ok(Self { kind, format, d_out, d_in, bytes, grouped: None })
    }

    /// `d_out` rows of groups of another kind.
    pub(crate) fn grouped(grouped: Grouped<'a>, d_out: usize) -> Self {
        let (kind, d_in) = (TensorKind::Q4_1, grouped.shape[1]);
        Self { kind, format: packed_as(kind), d_out, d_in, bytes: &[], grouped: Some(grouped) }
    }

    /// The type in the file.
    pub(crate) fn kind(&self) -> TensorKind {
        self.kind
    }

    /// The format in the pack.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn d_out(&self) -> usize {
        self.d_out
    }

    pub(crate) fn d_in(&self) -> usize {
        self.d_in
    }

    /// Whether the file's blocks are packed as they are.
    fn is_ours(&self) -> bool {
        matches!(self.kind, TensorKind::Q4_0 | TensorKind::Q4_1 | TensorKind::Q8_0)
    }

    fn row(&self, row: usize) -> &'a [u8] {
        let n = self.bytes.len() / self.d_out;
        &self.bytes[row * n..(row + 1) * n]
    }

    /// Blocks of rows `rows` in the pack's format, written to `blocks` unless the file has them.
    fn blocks<'b>(&self, rows: std::ops::Range<usize>, blocks: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.is_ours() {
            let n = self.bytes.len() / self.d_out;
            return &self.bytes[rows.start * n..rows.end * n];
        }
        let size = self.format.source_group();
        blocks.clear();
        blocks.resize(rows.len() * (self.d_in / GROUP) * size, 0);
        let mut out = blocks.chunks_exact_mut(size);
        for row in rows {
            for (group, out) in (0..self.d_in / GROUP).zip(&mut out) {
                convert(self.kind, self.row(row), group, out);
            }
        }
        blocks
    }

    /// Decodes channels `first .. first + out.len()` of a row, both ends on group boundaries, to the values that
    /// the pack will hold.
    pub(crate) fn decode(&self, row: usize, first: usize, out: &mut [f32]) {
        let mut block = [0; 34];
        let size = self.format.source_group();
        for (k, out) in out.chunks_exact_mut(GROUP).enumerate() {
            let group = first / GROUP + k;
            let block = if self.is_ours() {
                &self.row(row)[group * size..(group + 1) * size]
            } else {
                convert(self.kind, self.row(row), group, &mut block[..size]);
                &block[..size]
            };
            // A block of its format's size is a matrix of one group.
            let block = SourceMatrix::new(self.format, 1, GROUP, block).expect("one block");
            block.decode(0, 0, out);
        }
    }

    /// Packs the tile of rows `16 tile .. 16 tile + 16` into `out`. `blocks` is scratch.
    ///
    /// # Errors
    /// [`QuantError::Scale`] if a value or scale is not finite or too large for an f16 scale.
    pub(crate) fn pack_tile(
        &self,
        tile: usize,
        blocks: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), QuantError> {
        let rows = tile * TILE..((tile + 1) * TILE).min(self.d_out);
        let n = rows.len();
        let strip = SourceMatrix::new(self.format, n, self.d_in, self.blocks(rows, blocks))?;
        strip.pack_tile(0, out).map_err(|e| match e {
            QuantError::Scale { row, group } => QuantError::Scale { row: tile * TILE + row, group },
            other => other,
        })
    }

    /// What the matrix is before it is packed, if that is not what the file has: groups of GGUF's kind in place of those of
    /// another, and of floats if `floats` says so.
    pub(crate) fn converted(&self, floats: bool) -> Option<Quantized> {
        match self.grouped {
            Some(grouped) => Some(grouped.quantized(self.d_out)),
            None if floats => self.quantized(),
            None => None,
        }
    }

    /// 4-bit groups in place of floats: the least squared error found by search. `None` for other types.
    fn quantized(&self) -> Option<Quantized> {
        if !matches!(self.kind, TensorKind::F32 | TensorKind::F16 | TensorKind::BF16) {
            return None;
        }
        let size = QUANTIZED.source_group();
        let mut blocks = vec![0; self.d_out * (self.d_in / GROUP) * size];
        let rows = blocks.par_chunks_exact_mut(self.d_in / GROUP * size).enumerate();
        let errors: Vec<FitError> = rows
            .map(|(row, blocks)| {
                let mut values = [0.0; GROUP];
                let mut report = FitError::default();
                for (group, block) in blocks.chunks_exact_mut(size).enumerate() {
                    self.kind.decode_group(self.row(row), group, &mut values);
                    match quantize_group(QUANTIZED, Fit::LeastSquares, &values, block) {
                        Ok(error) => report = report.and(error),
                        // A scale that packing refuses.
                        Err(_) => put_f16(block, 0, f32::NAN),
                    }
                }
                report
            })
            .collect();
        // In order: the same sums whatever the threads.
        let r = errors.into_iter().fold(FitError::default(), FitError::and);
        let deviation = Deviation { max: r.max, rms: r.rms(), relative: r.relative() };
        Some(Quantized::new(TensorKind::Q4_0, self.d_out, self.d_in, blocks, deviation))
    }

    /// How far the pack's values are from the file's; `None` for types that are packed as they are.
    pub(crate) fn deviation(&self) -> Option<Deviation> {
        if self.is_ours() {
            return None;
        }
        let rows: Vec<[f64; 3]> =
            (0..self.d_out).into_par_iter().map(|row| self.row_deviation(row)).collect();
        // In order: the same sums whatever the threads.
        let [max, error, norm] =
            rows.iter().fold([0.0f64; 3], |a, r| [a[0].max(r[0]), a[1] + r[1], a[2] + r[2]]);
        let relative = if norm > 0.0 { (error / norm).sqrt() } else { 0.0 };
        Some(Deviation { max, rms: (error / (self.d_out * self.d_in) as f64).sqrt(), relative })
    }

    /// Largest difference, sum of squared differences and of squared values of a row.
    fn row_deviation(&self, row: usize) -> [f64; 3] {
        let (mut max, mut error, mut norm) = (0.0f64, 0.0f64, 0.0f64);
        let (mut exact, mut packed) = ([0.0; GROUP], [0.0; GROUP]);
        for group in 0..self.d_in / GROUP {
            self.kind.decode_group(self.row(row), group, &mut exact);
            self.decode(row, group * GROUP, &mut packed);
            for (e, p) in exact.iter().zip(&packed) {
                let difference = f64::from(*e) - f64::from(*p);
                max = max.max(difference.abs());
                error += difference * difference;
                norm += f64::from(*e) * f64::from(*e);
            }
        }
        [max, error, norm]
    }
}

/// Converts one group to a block of Q4_1 (from Q4_K) or Q8_0 (from anything else).
fn convert(kind: TensorKind, row: &[u8], group: usize, out: &mut [u8]) {
    let first = group * GROUP;
    let block = &row[first / kind.block_len() * kind.block_bytes()..];
    match kind {
        TensorKind::Q4_K => {
            let part = first % kind.block_len() / GROUP;
            let (scale, min) = scale_min(&block[4..16], part);
            put_f16(out, 0, f16(block, 0) * scale);
            put_f16(out, 2, -(f16(block, 2) * min));
            for i in 0..GROUP / 2 {
                let code = |i| k_nibble(&block[16..], part, i);
                out[4 + i] = code(i) | code(i + GROUP / 2) << 4;
            }
        }
        TensorKind::Q5_0 => {
            out[..2].copy_from_slice(&block[..2]);
            codes(out, |i| five_bits(block, 2, i).cast_signed() - 16);
        }
        TensorKind::IQ4_NL => {
            out[..2].copy_from_slice(&block[..2]);
            codes(out, |i| IQ4_NL_VALUES[usize::from(nibble(&block[2..], i))]);
        }
        // Powers of two that f16 has.
        TensorKind::MXFP4
            if Half::from_f32(mxfp4_half_scale(block[0])).to_f32() == mxfp4_half_scale(block[0]) =>
        {
            put_f16(out, 0, mxfp4_half_scale(block[0]));
            codes(out, |i| MXFP4_DOUBLED[usize::from(nibble(&block[1..], i))]);
        }
        _ => {
            let mut values = [0.0; GROUP];
            kind.decode_group(row, group, &mut values);
            nearest_q8(&values, out);
        }
    }
}

fn put_f16(out: &mut [u8], at: usize, value: f32) {
    out[at..at + 2].copy_from_slice(&Half::from_f32(value).to_le_bytes());
}

fn codes(out: &mut [u8], code: impl Fn(usize) -> i8) {
    for (i, o) in out[2..].iter_mut().enumerate() {
        *o = code(i).cast_unsigned();
    }
}

/// The nearest 8-bit group. Values that none can hold give a scale that is not finite, which packing refuses.
fn nearest_q8(values: &[f32; GROUP], out: &mut [u8]) {
    if quantize_group(Format::Q8, Fit::Range, values, out).is_err() {
        put_f16(out, 0, f32::NAN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fura_quant::PackedMatrix;
    use proptest::prelude::*;

    /// Random blocks with finite scales of moderate size.
    fn blocks(kind: TensorKind, rows: usize, d_in: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        let mut out = Vec::new();
        for _ in 0..rows * d_in / kind.block_len() {
            let mut block: Vec<u8> = (0..kind.block_bytes()).map(|_| next()).collect();
            let mut scale = |at: usize| {
                let v = 0.001 + 0.1 * f32::from(next()) / 255.0;
                block[at..at + 2].copy_from_slice(&Half::from_f32(v).to_le_bytes());
            };
            match kind {
                TensorKind::F32 => block = (f32::from(next()) / 100.0 - 1.0).to_le_bytes().to_vec(),
                TensorKind::F16 => scale(0),
                TensorKind::BF16 => block[1] = 0x3c,
                TensorKind::Q4_1 | TensorKind::Q5_1 | TensorKind::Q4_K | TensorKind::Q5_K => {
                    scale(0);
                    scale(2);
                }
                TensorKind::Q2_K => {
                    scale(80);
                    scale(82);
                }
                TensorKind::Q3_K => scale(108),
                TensorKind::Q6_K => scale(208),
                TensorKind::MXFP4 => block[0] = 110 + block[0] % 30,
                _ => scale(0),
            }
            out.extend(block);
        }
        out
    }

    fn kinds() -> impl Iterator<Item = TensorKind> {
        (0..64).filter_map(TensorKind::from_code)
    }

    /// Original and packed values of a matrix.
    fn both(w: &Weights<'_>) -> (Vec<f32>, Vec<f32>) {
        let mut packed = Vec::new();
        let mut tile = vec![0; w.format().packed_tile(w.d_in())];
        for t in 0..w.d_out().div_ceil(TILE) {
            w.pack_tile(t, &mut Vec::new(), &mut tile).unwrap();
            packed.extend_from_slice(&tile);
        }
        let matrix = PackedMatrix::new(w.format(), w.d_out(), w.d_in(), &packed).unwrap();
        let (mut exact, mut ours) = (Vec::new(), Vec::new());
        let (mut group, mut row) = ([0.0; GROUP], vec![0.0; w.d_in()]);
        for r in 0..w.d_out() {
            for g in 0..w.d_in() / GROUP {
                w.kind().decode_group(w.row(r), g, &mut group);
                exact.extend(group);
            }
            matrix.decode_row(r, &mut row);
            let mut decoded = vec![0.0; w.d_in()];
            w.decode(r, 0, &mut decoded);
            assert_eq!(row, decoded, "what is packed is what bases are made of");
            ours.extend_from_slice(&row);
        }
        (exact, ours)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn packed_values_are_as_close_as_the_format_allows(seed in any::<u64>(), rows in 1_usize..20) {
            for kind in kinds() {
                let bytes = blocks(kind, rows, 512, seed);
                let w = Weights::new(kind, rows, 512, &bytes).unwrap();
                let (exact, ours) = both(&w);
                let mut worst = 0.0f64;
                for (exact, ours) in exact.chunks_exact(GROUP).zip(ours.chunks_exact(GROUP)) {
                    let amax = exact.iter().fold(0.0f32, |a, v| a.max(v.abs()));
                    let bound = match kind {
                        // Integers times one f16 scale (a power of two for MXFP4).
                        TensorKind::Q4_0 | TensorKind::Q4_1 | TensorKind::Q8_0 | TensorKind::Q5_0
                        | TensorKind::IQ4_NL | TensorKind::MXFP4 => 0.0,
                        // Scale (times up to 15) and minimum are rounded to f16; the sum of magnitudes is at most
                        // 2 * (amax + largest minimum), whose share of a code range of 63 * 0.101 is that.
                        TensorKind::Q4_K => (amax + 2.0 * 63.0 * 0.102) / 2048.0,
                        // Half a step; the step is amax / 127, rounded to f16, which moves the largest code's value.
                        _ => amax / 127.0 * (0.5 + 127.0 / 2048.0) * 1.001,
                    };
                    for (e, o) in exact.iter().zip(ours) {
                        prop_assert!((e - o).abs() <= bound, "{kind}: {e} became {o}");
                        worst = worst.max((f64::from(*e) - f64::from(*o)).abs());
                    }
                }
                match w.deviation() {
                    None => prop_assert!(w.is_ours() && exact == ours),
                    Some(d) => {
                        prop_assert_eq!(d.max, worst);
                        prop_assert!(d.rms <= d.max && (d.max == 0.0) == (d.relative == 0.0));
                    }
                }
            }
        }

        /// Whoever rounded a matrix to Q8_0 before loses nothing.
        #[test]
        fn floats_that_are_q8_already_are_kept(seed in any::<u64>()) {
            let q8 = blocks(TensorKind::Q8_0, 3, 64, seed);
            let source = Weights::new(TensorKind::Q8_0, 3, 64, &q8).unwrap();
            let mut values = vec![0.0; 64];
            let mut floats = Vec::new();
            let mut expected = Vec::new();
            for row in 0..3 {
                source.decode(row, 0, &mut values);
                for group in values.chunks_exact_mut(GROUP) {
                    // Make the largest magnitude code 127, as a quantizer does.
                    let d = f16(&q8, 0);
                    group.iter_mut().for_each(|v| *v = (*v / d).round().clamp(-126.0, 126.0) * d);
                    group[5] = 127.0 * d;
                }
                floats.extend(values.iter().flat_map(|v| v.to_le_bytes()));
                expected.extend_from_slice(&values);
            }
            let w = Weights::new(TensorKind::F32, 3, 64, &floats).unwrap();
            prop_assert_eq!(both(&w).1, expected);
            prop_assert_eq!(w.deviation(), Some(Deviation::default()));
        }
    }

    /// Half a bit a weight is worth a factor of the square root of 2 in the error; a minimum, which costs it, gains less.
    #[test]
    fn fewer_bits_for_the_error_than_with_a_minimum() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        // Sums of twelve: bell-shaped, as weights are.
        let x: Vec<f32> = (0..64 * 256).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0).collect();
        let error =
            |format| fura_quant::quantize(format, Fit::LeastSquares, &x, 64, 256).unwrap().1.relative();
        let (plain, with_minimum) = (error(QUANTIZED), error(Format::Q4Min(Group::G32)));
        assert!(
            with_minimum < plain && plain < with_minimum * std::f64::consts::SQRT_2,
            "{plain} {with_minimum}"
        );
        assert!(plain < 0.1, "{plain}");
    }

    /// What is 4-bit already is kept.
    #[test]
    fn floats_that_are_q4_already_are_kept() {
        let mut q4 = blocks(TensorKind::Q4_0, 5, 64, 3);
        // A code of 0, the far end of the range, in each group.
        q4.chunks_exact_mut(18).for_each(|block| block[7] &= 0xf0);
        let source = Weights::new(TensorKind::Q4_0, 5, 64, &q4).unwrap();
        let expected = both(&source).1;
        let floats: Vec<u8> = expected.iter().flat_map(|v| v.to_le_bytes()).collect();
        let quantized = Weights::new(TensorKind::F32, 5, 64, &floats).unwrap().quantized().unwrap();
        assert_eq!(both(&quantized.weights()).1, expected);
        assert_eq!(quantized.deviation(), Deviation::default());
        assert!(source.quantized().is_none());
    }

    #[test]
    fn values_that_no_scale_can_hold_are_refused() {
        for bad in [f32::NAN, f32::INFINITY, -f32::INFINITY, 1e10] {
            let mut values = [0.5f32; 64];
            values[40] = bad;
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let w = Weights::new(TensorKind::F32, 1, 64, &bytes).unwrap();
            let mut tile = vec![0; 2 * Format::Q8.packed_group()];
            let e = w.pack_tile(0, &mut Vec::new(), &mut tile).unwrap_err();
            assert_eq!(e, QuantError::Scale { row: 0, group: 1 }, "{bad}");
        }
    }

    #[test]
    fn zeros_and_values_below_every_scale_become_zeros() {
        for v in [0.0f32, -0.0, 1e-30, f32::MIN_POSITIVE / 2.0] {
            let bytes: Vec<u8> = [v; 32].iter().flat_map(|v| v.to_le_bytes()).collect();
            let w = Weights::new(TensorKind::F32, 1, 32, &bytes).unwrap();
            assert_eq!(both(&w).1, [0.0; 32]);
            let d = w.deviation().unwrap();
            assert_eq!((d.max, d.relative.is_finite()), (f64::from(v.abs()), true));
        }
    }

    #[test]
    fn rows_that_do_not_divide_into_groups_are_refused() {
        let e = Weights::new(TensorKind::F32, 2, 172, &[0; 2 * 172 * 4]).unwrap_err();
        assert_eq!(e, QuantError::Shape { d_out: 2, d_in: 172, group: GROUP });
        assert!(Weights::new(TensorKind::F32, 2, 32, &[0; 255]).is_err());
    }
}
