//! Matrix products of the sizes that models have.

use fura_quant::{ActivationRows, Activations, Code, Format, PackedMatrix, SourceMatrix, TILE};
use fura_simd::Isa;
use rayon::ThreadPool;
use rayon::prelude::*;
use std::ops::Range;

/// Layer shapes `(d_out, d_in)` of SmolLM2-135M and Llama-3.1-8B.
const SHAPES: [(usize, usize); 4] = [(576, 576), (1536, 576), (4096, 4096), (14336, 4096)];

/// The layer shapes whose rows are whole groups of a format: 576 channels have no groups of 128.
pub fn shapes(format: Format) -> impl Iterator<Item = (usize, usize)> {
    SHAPES.into_iter().filter(move |(_, d_in)| d_in.is_multiple_of(format.group()))
}

/// The output head of Llama-3.1-8B: with 4-bit weights 295 MB or more, larger than any cache.
pub const HEAD: (usize, usize) = (128_256, 4096);

/// A packed weight matrix.
#[derive(Clone, Debug)]
pub struct Weights {
    format: Format,
    d_out: usize,
    d_in: usize,
    bytes: Vec<u8>,
}

impl Weights {
    /// Pseudo-random codes: one tile of them, repeated, since no kernel's time depends on values.
    pub fn new(format: Format, d_out: usize, d_in: usize) -> Self {
        let group = format.source_group();
        let floats = if format.has_minimum() { 4 } else { 2 };
        let source: Vec<u8> = (0..TILE * d_in / format.group() * group)
            // Scales and minima of 0x1111 (about 6e-4 in f16), codes that vary.
            .map(|i| if i % group < floats { 0x11 } else { (i.wrapping_mul(2_654_435_761) >> 13) as u8 })
            .collect();
        let source = SourceMatrix::new(format, TILE, d_in, &source).expect("the length matches the shape");
        let tile = fura_quant::pack(&source).expect("the scales are finite");
        Self { format, d_out, d_in, bytes: tile.repeat(d_out.div_ceil(TILE)) }
    }

    /// The packed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Multiply-adds that one row takes.
    pub fn macs(&self) -> usize {
        self.d_out * self.d_in
    }

    fn matrix(&self) -> PackedMatrix<'_> {
        PackedMatrix::new(self.format, self.d_out, self.d_in, &self.bytes).expect("packed to this shape")
    }
}

/// A product of given weights with rows of activations, its output tiles split evenly over threads.
#[derive(Debug)]
pub struct Product<'a, C: Code = i8> {
    isa: Isa,
    weights: &'a Weights,
    x: Activations<C>,
    parts: Vec<Part>,
}

/// The tiles of one thread and the buffer for its outputs.
#[derive(Debug)]
struct Part {
    tiles: Range<usize>,
    out: Vec<f32>,
}

impl<'a, C: Code> Product<'a, C> {
    /// `rows` rows times `weights`, in `threads` parts.
    pub fn new(isa: Isa, weights: &'a Weights, rows: usize, threads: usize) -> Self {
        let d_in = weights.d_in;
        let x: Vec<f32> = (0..rows * d_in).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect();
        let mut codes = Activations::with_capacity(rows, d_in);
        codes.quantize(isa, &x, d_in);
        let tiles = weights.d_out.div_ceil(TILE);
        let share = tiles.div_ceil(threads);
        let parts = (0..threads)
            .map(|i| (i * share).min(tiles)..((i + 1) * share).min(tiles))
            .map(|tiles| Part { out: vec![0.0; rows * tiles.len() * TILE], tiles })
            .collect();
        Self { isa, weights, x: codes, parts }
    }

    /// Computes every output once. One part runs on the calling thread, several on those of `pool`.
    pub fn run(&mut self, pool: &ThreadPool) {
        let (isa, w, x) = (self.isa, self.weights.matrix(), self.x.view());
        if let [part] = &mut self.parts[..] {
            part.run(isa, &w, x);
        } else {
            pool.install(|| self.parts.par_iter_mut().for_each(|part| part.run(isa, &w, x)));
        }
    }
}

impl Part {
    fn run<C: Code>(&mut self, isa: Isa, w: &PackedMatrix<'_>, x: ActivationRows<'_, C>) {
        w.multiply(isa, x, self.tiles.clone(), &mut self.out, self.tiles.len() * TILE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the number of parts, the outputs are those of the undivided product.
    #[test]
    fn every_format_has_shapes_and_weights_of_them() {
        for format in Format::ALL {
            assert!(shapes(format).count() >= 2, "{format:?}");
            for (_, d_in) in shapes(format).chain([HEAD]) {
                assert!(!Weights::new(format, TILE, d_in).bytes().is_empty());
            }
        }
    }

    #[test]
    fn the_parts_of_a_product_are_the_product() {
        let weights = Weights::new(Format::Q8, 5 * TILE, 64);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let mut whole = Product::<i8>::new(Isa::detect(), &weights, 3, 1);
        whole.run(&pool);
        assert!(whole.parts[0].out.iter().any(|v| *v != 0.0));
        for threads in [2, 3, 7] {
            let mut split = Product::<i8>::new(Isa::detect(), &weights, 3, threads);
            split.run(&pool);
            for row in 0..3 {
                let width = 5 * TILE;
                let outputs: Vec<f32> = split
                    .parts
                    .iter()
                    .flat_map(|p| &p.out[row * p.tiles.len() * TILE..][..p.tiles.len() * TILE])
                    .copied()
                    .collect();
                assert_eq!(outputs, whole.parts[0].out[row * width..][..width]);
            }
        }
    }
}
