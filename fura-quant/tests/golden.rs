//! Bits computed elsewhere: `scripts/golden/quantized_product.py`, exact rational arithmetic with every rounding spelled
//! out, prints the table.

use fura_quant::{Activations, Code, Format, PackedMatrix, SourceMatrix, pack};
use fura_simd::Isa;
use half::f16;

/// Format, then the products of 128, 384 and 640 channels with codes of 8 bits.
const GOLDEN: [(&str, [u32; 3]); 7] = [
    ("q4", [0x4198f662, 0x41d7e0e0, 0x4205ff96]),
    ("q4-64", [0x3eee79be, 0xc16d0cb4, 0x41841e2c]),
    ("q4-128", [0xc093e5a0, 0xbfff9367, 0x42468059]),
    ("q4min", [0x41848735, 0x420cf47d, 0xc1801cf5]),
    ("q4min-64", [0x40641840, 0x4114c80a, 0x41546fdf]),
    ("q4min-128", [0xc0dbd22b, 0x424569c6, 0x42ae2fc9]),
    ("q8", [0xc2770354, 0x43ab26cd, 0xc39e73d1]),
];

/// The same with codes of 16 bits.
const GOLDEN_WIDE: [(&str, [u32; 3]); 7] = [
    ("q4", [0x419922fe, 0x41d96806, 0x4206843f]),
    ("q4-64", [0x3ee2d0bc, 0xc168a900, 0x4184b661]),
    ("q4-128", [0xc093ca27, 0xc00c014d, 0x4246d107]),
    ("q4min", [0x4184cb63, 0x420d80ec, 0xc17ace30]),
    ("q4min-64", [0x4064614b, 0x4118efdb, 0x414e04ee]),
    ("q4min-128", [0xc0dcf037, 0x4245d1fb, 0x42aea5f2]),
    ("q8", [0xc2779d93, 0x43abab00, 0xc39ee319]),
];

/// The inputs of the script.
struct Stream(u32);

impl Stream {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
        self.0 >> 16
    }

    fn share(&mut self, of: f32) -> f32 {
        (self.next() as f32 - 16384.0) / of
    }
}

#[test]
fn every_tier_gives_the_bits_of_exact_arithmetic_rounded_as_documented() {
    every_tier_gives::<i8>(GOLDEN);
    every_tier_gives::<i16>(GOLDEN_WIDE);
}

fn every_tier_gives<C: Code>(golden: [(&str, [u32; 3]); 7]) {
    for (name, golden) in golden {
        let format = Format::from_name(name).unwrap();
        for (d_in, golden) in [128usize, 384, 640].into_iter().zip(golden) {
            let mut stream = Stream(1 + d_in as u32);
            let x: Vec<f32> = (0..d_in).map(|_| stream.share(4096.0)).collect();
            let mut bytes = Vec::new();
            for _ in 0..d_in / format.group() {
                let (d, m) = (f16::from_f32(stream.share(65536.0)), f16::from_f32(stream.share(65536.0)));
                bytes.extend(d.to_le_bytes());
                if format.has_minimum() {
                    bytes.extend(m.to_le_bytes());
                }
                let codes: Vec<u8> = (0..format.group()).map(|_| stream.next() as u8).collect();
                for part in codes.chunks(32) {
                    match format {
                        Format::Q8 => bytes.extend(part),
                        _ => bytes.extend((0..16).map(|i| (part[i] & 15) | (part[16 + i] << 4))),
                    }
                }
            }
            let packed = pack(&SourceMatrix::new(format, 1, d_in, &bytes).unwrap()).unwrap();
            let w = PackedMatrix::new(format, 1, d_in, &packed).unwrap();
            // Alone and as every row of a batch.
            for rows in [1, 30] {
                for isa in Isa::available() {
                    let mut a = Activations::<C>::with_capacity(rows, d_in);
                    a.quantize(isa, &x.repeat(rows), d_in);
                    let mut y = vec![0.0f32; rows];
                    w.multiply(isa, a.view(), 0..1, &mut y, 1);
                    for y in y {
                        assert_eq!(
                            y.to_bits(),
                            golden,
                            "{name} {d_in} {isa:?}: {y} for {}",
                            f32::from_bits(golden)
                        );
                    }
                }
            }
        }
    }
}
