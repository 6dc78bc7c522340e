//! Every tier gives the scalar kernel's bits. What those are: `golden.rs`; how far from exact: `accuracy.rs`.

use fura_quant::{Activations, Code, Format, GROUP, Group, PackedMatrix, SourceMatrix, pack};
use fura_simd::Isa;
use half::f16;
use proptest::prelude::*;

/// Deterministic bytes; shapes and seeds are what properties range over.
struct Bytes(u64);
impl Bytes {
    fn next(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u8
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Random,
    AllLowest,
    AllHighest,
}

fn source(format: Format, d_out: usize, d_in: usize, seed: u64, kind: Kind) -> Vec<u8> {
    let mut rng = Bytes(seed | 1);
    let mut out = Vec::new();
    for _ in 0..d_out * d_in / format.group() {
        let scale = match rng.next() % 9 {
            8 => f32::from(f16::MAX),
            0 => 0.0,
            1 => -0.0,
            2 => f32::from(f16::MIN_POSITIVE_SUBNORMAL),
            3 => -1.5,
            _ => 0.001 + f32::from(rng.next()) / 100.0,
        };
        out.extend(f16::from_f32(scale).to_le_bytes());
        if format.has_minimum() {
            out.extend(f16::from_f32(f32::from(rng.next() as i8) / 50.0).to_le_bytes());
        }
        for _ in 0..(if format == Format::Q8 { 32 } else { format.group() / 2 }) {
            out.push(match (kind, format) {
                (Kind::Random, _) => rng.next(),
                (Kind::AllLowest, Format::Q8) => 0x80,
                (Kind::AllLowest, _) => 0,
                (Kind::AllHighest, Format::Q8) => 0x7f,
                (Kind::AllHighest, _) => 0xff,
            });
        }
    }
    out
}

fn rows_of(n: usize, d_in: usize, seed: u64) -> Vec<f32> {
    let mut rng = Bytes(seed | 1);
    (0..n * d_in)
        .map(|i| match (i / GROUP) % 8 {
            // Codes of 16 bits as they are: the ends, those of a byte and those that begin another one.
            7 if i % GROUP == 0 => 32512.0,
            7 => {
                let ends = [32512.0, 32385.0, 32384.0, 255.0, 128.0, 127.0, 1.0, 0.0];
                ends[usize::from(rng.next() % 8)] * if rng.next() < 128 { 1.0 } else { -1.0 }
            }
            0 => 0.0,
            1 => 127.0,
            2 => -127.0,
            3 => f32::from(rng.next() as i8) * 1e-30,
            _ => f32::from(rng.next() as i8) * 0.37 + f32::from(rng.next()) * 1e-3,
        })
        .collect()
}

/// Bits, so that zeros differ by sign.
fn product<C: Code>(isa: Isa, w: &PackedMatrix<'_>, x: &[f32]) -> Vec<u32> {
    let n = x.len() / w.d_in();
    let mut a = Activations::<C>::with_capacity(n, w.d_in());
    a.quantize(isa, x, w.d_in());
    let mut y = vec![f32::NAN; n * w.d_out()];
    w.multiply(isa, a.view(), 0..w.tiles(), &mut y, w.d_out());
    y.iter().map(|y| y.to_bits()).collect()
}

fn assert_every_tier_equals_the_scalar_kernel<C: Code>(w: &PackedMatrix<'_>, x: &[f32], case: &str) {
    let reference = product::<C>(Isa::scalar(), w, x);
    for isa in Isa::available() {
        assert!(product::<C>(isa, w, x) == reference, "{} {isa:?} {case}", std::any::type_name::<C>());
    }
}

fn assert_a_row_and_a_tile_do_not_depend_on_the_call<C: Code>(w: &PackedMatrix<'_>, x: &[f32], cut: usize) {
    let (d_in, d_out) = (w.d_in(), w.d_out());
    let n = x.len() / d_in;
    for isa in Isa::available() {
        let all = product::<C>(isa, w, x);
        let row = cut % n;
        assert_eq!(product::<C>(isa, w, &x[row * d_in..][..d_in]), all[row * d_out..][..d_out]);
        let tile = cut % w.tiles();
        let width = 16.min(d_out - tile * 16);
        let mut a = Activations::<C>::with_capacity(n, d_in);
        a.quantize(isa, x, d_in);
        let mut part = vec![0.0; n * width];
        w.multiply(isa, a.view(), tile..tile + 1, &mut part, width);
        for r in 0..n {
            let part = part[r * width..][..width].iter().map(|y| y.to_bits());
            assert!(part.eq(all[r * d_out + tile * 16..][..width].iter().copied()));
        }
    }
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(&Format::ALL[..])
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::Random), 1 => Just(Kind::AllLowest), 1 => Just(Kind::AllHighest)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_tier_equals_the_scalar_kernel(
        format in format(), kind in kind(), d_out in 1usize..70, groups in 1usize..6,
        n in prop_oneof![4 => 1usize..30, 1 => 30usize..301], seed: u64,
    ) {
        let d_in = groups * format.group();
        let bytes = source(format, d_out, d_in, seed, kind);
        let packed = pack(&SourceMatrix::new(format, d_out, d_in, &bytes).unwrap()).unwrap();
        let w = PackedMatrix::new(format, d_out, d_in, &packed).unwrap();
        let x = rows_of(n, d_in, seed ^ 7);
        assert_every_tier_equals_the_scalar_kernel::<i8>(&w, &x, "");
        assert_every_tier_equals_the_scalar_kernel::<i16>(&w, &x, "");
    }

    #[test]
    fn a_row_and_a_tile_do_not_depend_on_the_call(
        format in format(), d_out in 1usize..70, n in 1usize..70, cut in 0usize..100, seed: u64,
    ) {
        let d_in = 3 * format.group();
        let bytes = source(format, d_out, d_in, seed, Kind::Random);
        let packed = pack(&SourceMatrix::new(format, d_out, d_in, &bytes).unwrap()).unwrap();
        let w = PackedMatrix::new(format, d_out, d_in, &packed).unwrap();
        let x = rows_of(n, d_in, seed ^ 3);
        assert_a_row_and_a_tile_do_not_depend_on_the_call::<i8>(&w, &x, cut);
        assert_a_row_and_a_tile_do_not_depend_on_the_call::<i16>(&w, &x, cut);
    }

    #[test]
    fn packing_loses_nothing(format in format(), d_out in 1usize..40, groups in 1usize..5, seed: u64) {
        let d_in = groups * format.group();
        let bytes = source(format, d_out, d_in, seed, Kind::Random);
        let src = SourceMatrix::new(format, d_out, d_in, &bytes).unwrap();
        let packed = pack(&src).unwrap();
        let w = PackedMatrix::new(format, d_out, d_in, &packed).unwrap();
        let (mut a, mut b) = (vec![0.0; d_in], vec![0.0; d_in]);
        for row in 0..d_out {
            src.decode(row, 0, &mut a);
            w.decode_row(row, &mut b);
            prop_assert_eq!(&a, &b);
        }
    }

    #[test]
    fn every_tier_quantizes_alike(
        bits in prop::collection::vec(any::<u32>(), 64), exponent in 0u32..255, rows in 1usize..15, seed: u64,
    ) {
        // Any bit pattern in the first group: infinities, NaN, subnormals; plain values in the rest.
        let mut x = rows_of(rows, 64, seed);
        for (x, bits) in x.iter_mut().zip(&bits[..32]) {
            *x = f32::from_bits(*bits);
        }
        // And one group of patterns of a single exponent, where only finite ones meet.
        for (x, bits) in x[32..].iter_mut().zip(&bits[32..]) {
            *x = f32::from_bits(bits & 0x807f_ffff | exponent << 23);
        }
        assert_every_tier_quantizes_alike::<i8>(&x);
        assert_every_tier_quantizes_alike::<i16>(&x);
    }
}

fn assert_every_tier_quantizes_alike<C: Code>(x: &[f32]) {
    let groups = |isa| {
        let mut a = Activations::<C>::with_capacity(x.len() / 64, 64);
        a.quantize(isa, x, 64);
        let group = |i: usize| a.view().group(i / 2, i % 2);
        let bits = |i| (group(i).codes, group(i).scale.to_bits(), group(i).sum, group(i).weighted.to_bits());
        (0..x.len() / GROUP).map(bits).collect::<Vec<_>>()
    };
    for isa in Isa::available() {
        assert_eq!(groups(isa), groups(Isa::scalar()), "{isa:?}");
    }
}

/// However they lie in memory. A group's largest is 32512, so the scale is 1.
#[test]
fn every_code_of_16_bits_is_kept() {
    let x: Vec<f32> = (-32512i16..=32512)
        .collect::<Vec<_>>()
        .chunks(GROUP - 1)
        .flat_map(|codes| {
            let mut group = [32512.0; GROUP];
            for (x, code) in group.iter_mut().zip(codes) {
                *x = f32::from(*code);
            }
            group
        })
        .collect();
    let rows = x.len() / GROUP;
    let mut a = Activations::<i16>::with_capacity(rows, GROUP);
    a.quantize(Isa::detect(), &x, GROUP);
    for (row, x) in x.chunks(GROUP).enumerate() {
        let group = a.view().group(row, 0);
        assert_eq!(group.codes.map(f32::from), x);
        assert_eq!((group.scale, group.sum as f32), (1.0, x.iter().sum::<f32>()));
    }
}

/// Shapes that leave every kind of rest: rows of a pass, of a row block, of a panel; tiles of a pass; outputs of a tile;
/// pieces of a tile.
#[test]
fn every_tier_equals_the_scalar_kernel_at_every_number_of_rows() {
    for format in Format::ALL {
        let groups = |n: usize| (n * GROUP).next_multiple_of(format.group());
        let shapes =
            [(16, groups(1), 1..31), (5 * 16 - 3, groups(43), 11..13), (3 * 16 + 1, groups(21), 289..290)];
        for (d_out, d_in, rows) in shapes {
            let bytes = source(format, d_out, d_in, 77, Kind::Random);
            let packed = pack(&SourceMatrix::new(format, d_out, d_in, &bytes).unwrap()).unwrap();
            let w = PackedMatrix::new(format, d_out, d_in, &packed).unwrap();
            for rows in rows.chain([300].into_iter().filter(|_| d_in == groups(1))) {
                let (x, case) = (rows_of(rows, d_in, 5), format!("{format:?} {d_out} {d_in} {rows}"));
                assert_every_tier_equals_the_scalar_kernel::<i8>(&w, &x, &case);
                assert_every_tier_equals_the_scalar_kernel::<i16>(&w, &x, &case);
            }
        }
    }
}

/// Weights larger than 4 MiB are read another way when rows are few.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_tier_equals_the_scalar_kernel_on_large_weights() {
    for format in Format::ALL {
        let (d_in, tiles) = (1152, (5 << 20) / format.packed_tile(1152));
        let d_out = 16 * tiles - 5;
        let bytes = source(format, d_out, d_in, 3, Kind::Random);
        let packed = pack(&SourceMatrix::new(format, d_out, d_in, &bytes).unwrap()).unwrap();
        let w = PackedMatrix::new(format, d_out, d_in, &packed).unwrap();
        for rows in [1, 3] {
            let (x, case) = (rows_of(rows, d_in, 9), format!("{format:?} {rows}"));
            assert_every_tier_equals_the_scalar_kernel::<i8>(&w, &x, &case);
            assert_every_tier_equals_the_scalar_kernel::<i16>(&w, &x, &case);
        }
    }
}

/// `127 / amax` overflows below about `2^-121`: groups are zeros from `2^-119` down, and ordinary from there up; `32512 /
/// amax` and `2^-111` likewise.
#[test]
fn the_smallest_groups_are_zeros() {
    the_smallest_groups_are_zeros_below::<i8>(-119, 127);
    the_smallest_groups_are_zeros_below::<i16>(-111, 32512);
}

fn the_smallest_groups_are_zeros_below<C: Code>(power: i32, most: i32) {
    let least = f32::from_bits(((127 + power) as u32) << 23);
    for isa in Isa::available() {
        let group = |largest: f32| {
            let mut x = [0.0f32; 32];
            (x[3], x[20]) = (-largest, largest / 2.0);
            let mut a = Activations::<C>::with_capacity(1, 32);
            a.quantize(isa, &x, 32);
            let group = a.view().group(0, 0);
            (group.codes.map(|code| code.into()), group.scale, group.sum, group.weighted)
        };
        for tiny in [f32::from_bits(1), f32::MIN_POSITIVE, 3e-37, f32::from_bits(least.to_bits() - 1)] {
            assert_eq!(group(tiny), ([0; 32], 0.0, 0, 0.0), "{isa:?} {tiny}");
        }
        let (codes, scale, sum, _) = group(least);
        assert_eq!((codes[3], codes[20], sum), (-most, (most + 1) / 2, (most + 1) / 2 - most), "{isa:?}");
        assert_eq!(scale, least / most as f32);
        assert!(scale >= f32::MIN_POSITIVE);
    }
}

#[test]
fn a_non_finite_activation_makes_its_row_nan_and_no_other() {
    let bytes = source(Format::Q4(Group::G32), 20, 64, 3, Kind::Random);
    let packed = pack(&SourceMatrix::new(Format::Q4(Group::G32), 20, 64, &bytes).unwrap()).unwrap();
    let w = PackedMatrix::new(Format::Q4(Group::G32), 20, 64, &packed).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = rows_of(3, 64, 5);
        x[64 + 40] = bad;
        for isa in Isa::available() {
            for y in [product::<i8>(isa, &w, &x), product::<i16>(isa, &w, &x)] {
                let y: Vec<f32> = y.into_iter().map(f32::from_bits).collect();
                assert!(y[20..40].iter().all(|v| v.is_nan()));
                assert!(y[..20].iter().chain(&y[40..]).all(|v| v.is_finite()));
            }
        }
    }
}

#[test]
fn damaged_input_is_an_error() {
    use fura_quant::QuantError;
    let mut bytes = source(Format::Q4Min(Group::G32), 2, 64, 3, Kind::Random);
    bytes[20..22].copy_from_slice(&f16::INFINITY.to_le_bytes());
    let src = SourceMatrix::new(Format::Q4Min(Group::G32), 2, 64, &bytes).unwrap();
    assert_eq!(pack(&src).unwrap_err(), QuantError::Scale { row: 0, group: 1 });
    assert!(matches!(
        SourceMatrix::new(Format::Q4(Group::G32), 2, 64, &bytes),
        Err(QuantError::Length { .. })
    ));
    assert!(matches!(
        SourceMatrix::new(Format::Q4(Group::G32), 2, 50, &bytes),
        Err(QuantError::Shape { .. })
    ));
    assert!(matches!(SourceMatrix::new(Format::Q8, usize::MAX, 64, &[]), Err(QuantError::Length { .. })));
}
