//! Properties of quantized weights, checked on what the packed tiles decode to.

use fura_quant::{
    Fit, FitError, Format, Group, PackedMatrix, QuantError, SourceMatrix, pack, quantize, quantize_group,
    quantize_tile,
};
use half::f16;
use proptest::prelude::*;

fn decode(format: Format, packed: &[u8], d_out: usize, d_in: usize) -> Vec<f32> {
    let w = PackedMatrix::new(format, d_out, d_in, packed).unwrap();
    let mut out = vec![0.0; d_out * d_in];
    for (row, out) in out.chunks_exact_mut(d_in).enumerate() {
        w.decode_row(row, out);
    }
    out
}

/// Scale and minimum of a group of a packed matrix of one tile, as stored.
fn scale_and_minimum(format: Format, tile: &[u8], row: usize, group: usize) -> (f32, f32) {
    let block = &tile[group * format.packed_group()..][..format.packed_group()];
    let half = |k: usize| {
        let floats = format.packed_group() - if format.has_minimum() { 64 } else { 32 };
        let at = floats + 32 * k + 2 * row;
        f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
    };
    (half(0), if format.has_minimum() { half(1) } else { 0.0 })
}

/// Every value that a group can decode to.
fn levels(format: Format, d: f32, m: f32) -> Vec<f32> {
    match format {
        Format::Q4(_) => (-8..8).map(|q| d * q as f32).collect(),
        Format::Q4Min(_) => (0..16).map(|q| d * q as f32 + m).collect(),
        Format::Q8 => (-127..128).map(|q| d * q as f32).collect(),
    }
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(&Format::ALL[..])
}

fn fit() -> impl Strategy<Value = Fit> {
    prop_oneof![Just(Fit::Range), Just(Fit::LeastSquares)]
}

/// Bell-shaped values with some of extreme size, shifted, at any magnitude an f16 scale can hold without loss of its
/// own precision.
fn values() -> impl Strategy<Value = Vec<f32>> {
    let one = prop_oneof![
        12 => (-1.0f32..1.0, -1.0f32..1.0, -1.0f32..1.0).prop_map(|(a, b, c)| a + b + c),
        1 => -20.0f32..20.0,
        1 => Just(0.0f32),
    ];
    (prop::collection::vec(one, 3 * 256), -3i32..3, -2.0f32..2.0).prop_map(|(mut x, power, shift)| {
        x.iter_mut().for_each(|x| *x = (*x + shift) * 10f32.powi(power));
        x
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_other_code_of_the_group_would_be_nearer(format in format(), fit in fit(), x in values()) {
        let (packed, _) = quantize(format, fit, &x, 3, 256).unwrap();
        let decoded = decode(format, &packed, 3, 256);
        for (i, (x, w)) in x.iter().zip(&decoded).enumerate() {
            let (row, group) = (i / 256, i % 256 / format.group());
            let (d, m) = scale_and_minimum(format, &packed, row, group);
            let error = |w: f32| (f64::from(*x) - f64::from(w)).abs();
            let least = levels(format, d, m).into_iter().map(error).fold(f64::INFINITY, f64::min);
            // The code is that of (x - m) / d in f32: a tie, up to its roundings, may go either way.
            let rounding = f64::from(x.abs() + m.abs()) * 3e-7;
            prop_assert!(error(*w) <= least + rounding, "{} {} {}", x, w, least);
        }
    }

    #[test]
    fn the_range_bounds_the_error(format in format(), x in values()) {
        let (packed, _) = quantize(format, Fit::Range, &x, 3, 256).unwrap();
        let decoded = decode(format, &packed, 3, 256);
        for (i, (x, w)) in x.iter().zip(&decoded).enumerate() {
            let (row, group) = (i / 256, i % 256 / format.group());
            let (d, m) = scale_and_minimum(format, &packed, row, group);
            // Half a step; a whole one at the end that symmetric 4-bit codes lack. Scales and minima are rounded to f16
            // by at most 2^-11, which moves the ends by that share of the range.
            let half_precision = 2f32.powi(-11) * 1.001;
            let bound = match format {
                Format::Q4(_) => d.abs() * (1.0 + 8.0 * half_precision),
                Format::Q4Min(_) => d * (0.5 + 15.0 * half_precision) + m.abs() * half_precision,
                Format::Q8 => d * (0.5 + 127.0 * half_precision),
            };
            prop_assert!((x - w).abs() <= bound * 1.0001, "{} {} {}", x, w, bound);
        }
    }

    #[test]
    fn searching_is_never_worse_and_the_report_is_what_decoding_shows(format in format(), x in values()) {
        let mut errors = Vec::new();
        for fit in [Fit::Range, Fit::LeastSquares] {
            let (packed, report) = quantize(format, fit, &x, 3, 256).unwrap();
            let decoded = decode(format, &packed, 3, 256);
            let groups: Vec<f64> = x
                .chunks(format.group())
                .zip(decoded.chunks(format.group()))
                .map(|(x, w)| x.iter().zip(w).map(|(x, w)| (f64::from(*x) - f64::from(*w)).powi(2)).sum())
                .collect();
            let max = x.iter().zip(&decoded).map(|(x, w)| (f64::from(*x) - f64::from(*w)).abs()).fold(0.0, f64::max);
            let norm: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
            let squares: f64 = groups.iter().sum();
            prop_assert_eq!(report.count, 3 * 256);
            prop_assert_eq!(report.max, max);
            prop_assert!((report.squares - squares).abs() <= 1e-12 * squares);
            prop_assert!((report.norm - norm).abs() <= 1e-12 * norm);
            prop_assert!((report.rms() - (squares / 768.0).sqrt()).abs() <= 1e-9 * report.rms());
            prop_assert!((report.relative() - (squares / norm).sqrt()).abs() <= 1e-9 * report.relative());
            errors.push(groups);
        }
        for (range, search) in errors[0].iter().zip(&errors[1]) {
            prop_assert!(search <= range);
        }
    }

    #[test]
    fn what_a_format_can_hold_it_keeps(
        format in format(), fit in fit(), bytes in prop::collection::vec(any::<u8>(), 256), power in -6i32..6,
    ) {
        // Weights that a group of scale 2^power (and minimum -5 of those) codes exactly, both ends of the range among them.
        let d = 2f32.powi(power);
        let n = format.group();
        let x: Vec<f32> = bytes
            .iter()
            .enumerate()
            .map(|(i, b)| match format {
                Format::Q4(_) => d * if i % n == 0 { -8.0 } else { f32::from(b % 16) - 8.0 },
                Format::Q4Min(_) => d * (if i % n < 2 { (15 * (i % n)) as f32 } else { f32::from(b % 16) } - 5.0),
                Format::Q8 => d * if i % n == 0 { 127.0 } else { f32::from((*b as i8).max(-127)) },
            })
            .collect();
        let (packed, report) = quantize(format, fit, &x, 1, 256).unwrap();
        prop_assert_eq!(decode(format, &packed, 1, 256), x);
        prop_assert_eq!((report.max, report.squares), (0.0, 0.0));
    }

    #[test]
    fn a_power_of_two_passes_through(format in format(), fit in fit(), x in values(), power in -4i32..4) {
        let scaled: Vec<f32> = x.iter().map(|x| x * 2f32.powi(power)).collect();
        let (a, _) = quantize(format, fit, &x, 3, 256).unwrap();
        let (b, _) = quantize(format, fit, &scaled, 3, 256).unwrap();
        let (a, b) = (decode(format, &a, 3, 256), decode(format, &b, 3, 256));
        // Unless a scale or minimum is subnormal in f16, where it has fewer bits.
        let normal = |packed: &[f32]| packed.iter().all(|w| *w == 0.0 || w.abs() > 1e-2);
        if normal(&a) && normal(&b) {
            prop_assert!(a.iter().zip(&b).all(|(a, b)| a * 2f32.powi(power) == *b));
        }
    }

    /// Blocks that are packed afterwards are the tiles that are made at once.
    #[test]
    fn a_group_is_the_group_of_a_tile(format in format(), fit in fit(), x in values()) {
        let mut blocks = Vec::new();
        let mut report = FitError::default();
        for group in x.chunks_exact(format.group()) {
            let mut block = vec![0xff; format.source_group()];
            report = report.and(quantize_group(format, fit, group, &mut block).unwrap());
            blocks.extend(block);
        }
        let (whole, expected) = quantize(format, fit, &x, 3, 256).unwrap();
        prop_assert_eq!(pack(&SourceMatrix::new(format, 3, 256, &blocks).unwrap()).unwrap(), whole);
        prop_assert_eq!(report.max, expected.max);
        prop_assert!((report.squares - expected.squares).abs() <= 1e-12 * expected.squares);
    }

    #[test]
    fn tiles_do_not_depend_on_each_other(format in format(), fit in fit(), x in values(), rows in 1usize..7) {
        // 768 values as rows of 128 channels.
        let x = &x[..rows * 128];
        let (whole, report) = quantize(format, fit, x, rows, 128).unwrap();
        let mut tile = vec![0xff; format.packed_tile(128)];
        prop_assert_eq!(quantize_tile(format, fit, x, 128, &mut tile).unwrap(), report);
        prop_assert_eq!(&tile, &whole);
        for row in 0..rows {
            let row_of_tile = &x[row * 128..][..128];
            quantize_tile(format, fit, row_of_tile, 128, &mut tile).unwrap();
            prop_assert_eq!(decode(format, &tile, 1, 128), &decode(format, &whole, rows, 128)[row * 128..][..128]);
        }
    }
}

#[test]
fn zeros_tiny_and_constant_groups() {
    for format in Format::ALL {
        for fit in [Fit::Range, Fit::LeastSquares] {
            let report = |x: &[f32]| {
                let (packed, error) = quantize(format, fit, x, 1, 128).unwrap();
                (decode(format, &packed, 1, 128), error)
            };
            let (w, error) = report(&[0.0; 128]);
            assert!(w.iter().all(|w| w.to_bits() & 0x7fff_ffff == 0), "{format:?}");
            assert_eq!((error.max, error.rms(), error.relative()), (0.0, 0.0, 0.0));
            // Subnormal in f32, and normal but too small for any f16 scale.
            for tiny in [f32::from_bits(1), -f32::from_bits(0x7f_ffff), 1e-12] {
                let (w, error) = report(&[tiny; 128]);
                assert!(w.iter().all(|w| *w == 0.0), "{format:?} {tiny}");
                assert_eq!(error.max, f64::from(tiny.abs()));
                assert_eq!(error.relative(), 1.0);
            }
            // A scale that is subnormal in f16 has few bits, yet the error stays within a step of it.
            let (w, _) = report(&[3e-7; 128]);
            assert!(w.iter().all(|w| (w - 3e-7).abs() <= 2f32.powi(-24)), "{format:?} {w:?}");
            for constant in [1.0f32, -0.37, 1234.5] {
                let (w, _) = report(&[constant; 128]);
                assert!(
                    w.iter().all(|w| (w / constant - 1.0).abs() <= 2f32.powi(-11)),
                    "{format:?} {constant} {w:?}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_coded_is_named() {
    for format in Format::ALL {
        let largest = match format {
            Format::Q4(_) => 8.0 * 65504.0,
            Format::Q4Min(_) => 65504.0,
            Format::Q8 => 127.0 * 65504.0f32,
        };
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, largest * 1.001] {
            let mut x = vec![0.5f32; 20 * 128];
            x[17 * 128 + 5] = bad;
            match quantize(format, Fit::Range, &x, 20, 128) {
                Err(QuantError::Value { row: 17, channel: 5, value, .. }) => {
                    assert_eq!(value.to_bits(), bad.to_bits());
                }
                other => panic!("{format:?} {bad}: {other:?}"),
            }
        }
        // The largest itself can be coded, with either fit and either sign.
        for fit in [Fit::Range, Fit::LeastSquares] {
            let mut x = vec![0.5f32; 128];
            x[3] = -largest;
            x[4] = largest;
            let (packed, _) = quantize(format, fit, &x, 1, 128).unwrap();
            assert!(decode(format, &packed, 1, 128).iter().all(|w| w.is_finite()));
        }
        let error = quantize(format, Fit::Range, &[0.0; 100], 1, 100).unwrap_err();
        assert!(matches!(error, QuantError::Shape { d_out: 1, d_in: 100, .. }));
        assert!(matches!(quantize(format, Fit::Range, &[], 0, 128), Err(QuantError::Shape { .. })));
        assert!(matches!(quantize(format, Fit::Range, &[0.0; 5], 1, 128), Err(QuantError::Shape { .. })));
    }
}

/// Blocks of GGUF made elsewhere by the same rule (`d` the value of largest magnitude by -8, or the range by 15).
#[test]
fn groups_of_32_are_those_of_gguf() {
    // Scales that f16 holds exactly, so that rounding them does not matter to the codes.
    let x: Vec<f32> = (0..32).map(|i| (i as f32 - 16.0) / 16.0).collect();
    let mut block = f16::from_f32(0.125).to_le_bytes().to_vec();
    // Codes are round(8 x) + 8 with ties to even; byte i has channel i low and channel 16 + i high.
    let code = |i: usize| ((x[i] * 8.0).round_ties_even() + 8.0).min(15.0) as u8;
    block.extend((0..16).map(|i| code(i) | code(16 + i) << 4));
    let format = Format::Q4(Group::G32);
    let packed = pack(&SourceMatrix::new(format, 1, 32, &block).unwrap()).unwrap();
    assert_eq!(quantize(format, Fit::Range, &x, 1, 32).unwrap().0, packed);
}

#[test]
fn reports_of_nothing_are_zero() {
    let none = FitError::default();
    assert_eq!((none.rms(), none.relative()), (0.0, 0.0));
    assert_eq!(none.and(none), none);
}
