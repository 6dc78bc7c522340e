//! Shapes and inputs shared by the benchmarks of fura.
#![forbid(unsafe_code)]

use fura_quant::{Activations, Format, SourceMatrix, pack};
use fura_simd::Isa;

/// Layer shapes `(d_out, d_in)` of SmolLM2-135M and Llama-3.1-8B.
pub const SHAPES: [(usize, usize); 4] = [(576, 576), (1536, 576), (4096, 4096), (14336, 4096)];

/// A packed matrix of pseudo-random codes and the bytes it takes.
pub fn weights(format: Format, d_out: usize, d_in: usize) -> Vec<u8> {
    let group = format.source_group();
    let scales = if format.has_minimum() { 4 } else { 2 };
    let source: Vec<u8> = (0..d_out * d_in / format.group() * group)
        // Scales and minima of 0x1111 (about 5e-4 in f16), codes that vary.
        .map(|i| if i % group < scales { 0x11 } else { (i.wrapping_mul(2_654_435_761) >> 13) as u8 })
        .collect();
    let source = SourceMatrix::new(format, d_out, d_in, &source).expect("the length matches the shape");
    pack(&source).expect("the scales are finite")
}

/// Quantized activations of `rows` rows.
pub fn activations(isa: Isa, rows: usize, d_in: usize) -> Activations {
    let x: Vec<f32> = (0..rows * d_in).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect();
    let mut a = Activations::with_capacity(rows, d_in);
    a.quantize(isa, &x, d_in);
    a
}
