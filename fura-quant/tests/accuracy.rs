//! The error of a product against exact arithmetic, held against the bound of `docs/src/exactness.md`.

use fura_quant::{Activations, Code, Format, GROUP, PackedMatrix, SourceMatrix, pack};
use fura_simd::Isa;
use half::f16;
use proptest::prelude::*;

/// Half the distance of neighbouring f32 numbers around 1.
const U: f64 = 1.0 / (1u32 << 24) as f64;

/// A row of blocks with their numbers: what the packed kernels are not asked for.
struct Row {
    bytes: Vec<u8>,
    /// For each group its scale and minimum.
    floats: Vec<(f64, f64)>,
    /// For each channel what the scale is multiplied by.
    steps: Vec<i32>,
}

fn row(format: Format, codes: &[u8], floats: &[(f32, f32)]) -> Row {
    let n = format.group();
    let mut row = Row { bytes: Vec::new(), floats: Vec::new(), steps: Vec::new() };
    for (codes, (d, m)) in codes.chunks(n).zip(floats) {
        let (d, m) = (f16::from_f32(*d), f16::from_f32(if format.has_minimum() { *m } else { 0.0 }));
        row.floats.push((f64::from(d), f64::from(m)));
        row.bytes.extend(d.to_le_bytes());
        if format.has_minimum() {
            row.bytes.extend(m.to_le_bytes());
        }
        match format {
            Format::Q8 => row.bytes.extend(codes),
            _ => {
                for part in codes.chunks(GROUP) {
                    row.bytes.extend((0..16).map(|i| (part[i] & 15) | (part[16 + i] << 4)));
                }
            }
        }
        row.steps.extend(codes.iter().map(|code| match format {
            Format::Q4(_) => i32::from(code % 16) - 8,
            Format::Q4Min(_) => i32::from(code % 16),
            Format::Q8 => i32::from(*code as i8),
        }));
    }
    row
}

/// Values, scales and minima over many magnitudes, zeros among them.
fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => (-1.0f32..1.0, -3i32..3).prop_map(|(x, power)| x * 10f32.powi(power)),
        1 => Just(0.0),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_error_is_within_the_documented_bound(
        format in prop::sample::select(&Format::ALL[..]),
        groups in 1usize..6,
        codes in prop::collection::vec(any::<u8>(), 5 * 128),
        floats in prop::collection::vec((number(), number()), 5),
        x in prop::collection::vec(number(), 5 * 128),
    ) {
        let d_in = groups * format.group();
        let x = &x[..d_in];
        let row = row(format, &codes[..d_in], &floats[..groups]);
        let packed = pack(&SourceMatrix::new(format, 1, d_in, &row.bytes).unwrap()).unwrap();
        let w = PackedMatrix::new(format, 1, d_in, &packed).unwrap();
        error_is_within_the_bound::<i8>(format, &w, &row, x, 127.0)?;
        error_is_within_the_bound::<i16>(format, &w, &row, x, 32512.0)?;
    }
}

/// `most` is the largest code.
fn error_is_within_the_bound<C: Code>(
    format: Format,
    w: &PackedMatrix<'_>,
    row: &Row,
    x: &[f32],
    most: f64,
) -> Result<(), TestCaseError> {
    let d_in = x.len();
    let mut a = Activations::<C>::with_capacity(1, d_in);
    a.quantize(Isa::detect(), x, d_in);
    let mut y = [0.0f32];
    w.multiply(Isa::detect(), a.view(), 0..1, &mut y, 1);

    // In f64 every weight is exact, and the sums are, up to 1e-13 of what is summed.
    let (mut exact, mut size, mut rounding, mut accumulated) = (0.0, 0.0, 0.0, 0.0);
    for (g, x) in x.chunks(GROUP).enumerate() {
        let (d, m) = row.floats[g * GROUP / format.group()];
        let steps = &row.steps[g * GROUP..][..GROUP];
        let largest = x.iter().fold(0.0f64, |a, x| a.max(f64::from(x.abs())));
        let half_step = largest * (0.5 / most + 4.0 * U);
        for (x, q) in x.iter().zip(steps) {
            let weight = d * f64::from(*q) + m;
            exact += weight * f64::from(*x);
            size += (weight * f64::from(*x)).abs();
            rounding += weight.abs() * half_step;
        }
        let group = a.view().group(0, g);
        let dot: i32 = steps.iter().zip(&group.codes).map(|(q, code)| q * (*code).into()).sum();
        let scale = f64::from(group.scale);
        accumulated += (d * scale * f64::from(dot)).abs() + (m * scale * f64::from(group.sum)).abs();
    }
    let parts = format.group() / GROUP;
    let groups = d_in / format.group();
    // Products of 8-bit weights and 16-bit codes may not fit f32.
    let dots = usize::from(most > 127.0);
    let roundings = (groups * if format.has_minimum() { 2 } else { 1 } + parts + dots) as f64;
    let gamma = roundings * U / (1.0 - roundings * U);
    let bound = rounding + gamma * accumulated + 1e-13 * size;
    let error = (f64::from(y[0]) - exact).abs();
    prop_assert!(error <= bound, "{:?}: {} for {}, bound {}", format, error, exact, bound);
    Ok(())
}
