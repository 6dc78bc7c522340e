//! Matrices in 4-bit groups as AWQ, GPTQ and MLX store them, and the same in blocks of GGUF.
//!
//! All three have codes of 4 bits in 32-bit words and a scale for each group of channels; what is added is a zero point,
//! `w = (q - z) s`, or a bias, `w = s q + b`. Blocks of Q4_0 and Q4_1 hold the scale in f16, which is checked to be exact,
//! and the code as it is. A bias is checked in the same way. A zero point of 8 is that of Q4_0; others become the f16
//! nearest to `-z s`, which has more bits than f16 in general: values then move by at most 2^-11 of it.

use crate::gguf::TensorKind;
use crate::weights::{Deviation, Quantized};
use fura_quant::GROUP;
use half::{bf16, f16};
use rayon::prelude::*;

/// Who wrote the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// AWQ's `gemm`: words of eight outputs, in an order of their own.
    Awq,
    /// GPTQ: words of eight inputs; zero points are stored less `first_zero`.
    Gptq {
        /// 1 in the first version of the format, 0 in the second.
        first_zero: u8,
    },
    /// MLX's affine mode: words of eight inputs, row after row.
    Mlx,
}

impl Packing {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packing::Awq => "awq",
            Packing::Gptq { .. } => "gptq",
            Packing::Mlx => "mlx",
        }
    }
}

/// Place, in nibbles, of each of a word's eight outputs in AWQ.
const AWQ_PLACES: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// A matrix of such a file, or some of its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouped<'a> {
    pub(crate) packing: Packing,
    /// Channels of a group, a multiple of 32.
    pub(crate) group: usize,
    /// Outputs and inputs of the whole tensor, both multiples of eight.
    pub(crate) shape: [usize; 2],
    /// First row that is meant.
    pub(crate) first: usize,
    /// Of `scales` and of MLX's `offsets`.
    pub(crate) kind: TensorKind,
    pub(crate) codes: &'a [u8],
    pub(crate) scales: &'a [u8],
    /// Zero points, or MLX's biases.
    pub(crate) offsets: &'a [u8],
}

/// A number that blocks cannot hold.
#[derive(Debug, PartialEq)]
pub(crate) struct Unrepresentable {
    pub(crate) row: usize,
    pub(crate) group: usize,
    pub(crate) problem: String,
}

impl<'a> Grouped<'a> {
    /// The same tensor from another row on.
    pub(crate) fn rows_from(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// Everything that its values depend on.
    pub(crate) fn parts(&self) -> [&'a [u8]; 3] {
        [self.codes, self.scales, self.offsets]
    }

    fn code(&self, row: usize, channel: usize) -> u8 {
        let [rows, d_in] = self.shape;
        match self.packing {
            Packing::Awq => nibble(self.codes, channel * (rows / 8) + row / 8, AWQ_PLACES[row % 8]),
            Packing::Gptq { .. } => nibble(self.codes, channel / 8 * rows + row, channel as u32 % 8),
            Packing::Mlx => nibble(self.codes, row * (d_in / 8) + channel / 8, channel as u32 % 8),
        }
    }

    /// Zero point of a group; 0 where there are biases.
    fn zero(&self, row: usize, group: usize) -> u8 {
        let word = group * (self.shape[0] / 8) + row / 8;
        match self.packing {
            Packing::Awq => nibble(self.offsets, word, AWQ_PLACES[row % 8]),
            Packing::Gptq { first_zero } => nibble(self.offsets, word, row as u32 % 8) + first_zero,
            Packing::Mlx => 0,
        }
    }

    /// Place of a group's scale, and of its bias.
    fn place(&self, row: usize, group: usize) -> usize {
        match self.packing {
            Packing::Mlx => row * (self.shape[1] / self.group) + group,
            _ => group * self.shape[0] + row,
        }
    }

    fn number(&self, bytes: &[u8], at: usize) -> f32 {
        let half = |at: usize| [bytes[at], bytes[at + 1]];
        match self.kind {
            TensorKind::F16 => f16::from_le_bytes(half(2 * at)).to_f32(),
            TensorKind::BF16 => bf16::from_le_bytes(half(2 * at)).to_f32(),
            _ => f32::from_le_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]]),
        }
    }

    /// Whether every zero point is 8.
    fn is_symmetric(&self) -> bool {
        let stored = match self.packing {
            Packing::Awq => 0x88,
            Packing::Gptq { first_zero } => 0x11 * (8 - first_zero),
            Packing::Mlx => return false,
        };
        self.offsets.iter().all(|b| *b == stored)
    }

    /// The first number that blocks cannot hold, if there is one.
    pub(crate) fn check(&self) -> Result<(), Unrepresentable> {
        let bad = |at: usize, what: &str, value: f32| {
            let groups = self.shape[1] / self.group;
            let (row, group) = match self.packing {
                Packing::Mlx => (at / groups, at % groups),
                _ => (at % self.shape[0], at / self.shape[0]),
            };
            Unrepresentable { row, group, problem: format!("{what} {value}, which f16 cannot hold exactly") }
        };
        let inexact = |bytes: &[u8], what: &str| {
            let n = self.shape[0] * (self.shape[1] / self.group);
            let exact = |v: f32| v.is_finite() && f16::from_f32(v).to_f32() == v;
            (0..n).find(|at| !exact(self.number(bytes, *at))).map(|at| bad(at, what, self.number(bytes, at)))
        };
        let mut found = inexact(self.scales, "a scale of");
        if self.packing == Packing::Mlx {
            found = found.or_else(|| inexact(self.offsets, "a bias of"));
        }
        if self.packing == (Packing::Gptq { first_zero: 1 }) {
            let wraps = |at: &usize| self.offsets[*at] & 15 == 15 || self.offsets[*at] >> 4 == 15;
            found = found.or_else(|| {
                let at = (0..self.offsets.len()).find(wraps)?;
                let row = 2 * at % self.shape[0] + usize::from(self.offsets[at] & 15 != 15);
                let problem =
                    "a zero point of 15 + 1, which is 16 to some readers and 0 to others".to_owned();
                Some(Unrepresentable { row, group: 2 * at / self.shape[0], problem })
            });
        }
        found.map_or(Ok(()), Err)
    }

    /// `d_out` rows as blocks, and how far the values moved.
    pub(crate) fn quantized(&self, d_out: usize) -> Quantized {
        let kind = if self.is_symmetric() { TensorKind::Q4_0 } else { TensorKind::Q4_1 };
        let (d_in, size) = (self.shape[1], kind.block_bytes());
        let mut blocks = vec![0; d_out * (d_in / GROUP) * size];
        let rows = blocks.par_chunks_exact_mut(d_in / GROUP * size).enumerate();
        let moved: Vec<[f64; 3]> =
            rows.map(|(row, blocks)| self.row(self.first + row, kind, blocks)).collect();
        // In order: the same sums whatever the threads.
        let [max, error, norm] =
            moved.iter().fold([0.0f64; 3], |a, r| [a[0].max(r[0]), a[1] + r[1], a[2] + r[2]]);
        let deviation = Deviation {
            max,
            rms: (error / (d_out * d_in) as f64).sqrt(),
            relative: if norm > 0.0 { (error / norm).sqrt() } else { 0.0 },
        };
        Quantized::new(kind, d_out, d_in, blocks, deviation)
    }

    /// One row; the largest difference, the sum of squared differences and of squared values.
    fn row(&self, row: usize, kind: TensorKind, blocks: &mut [u8]) -> [f64; 3] {
        let (mut max, mut error, mut norm) = (0.0f64, 0.0f64, 0.0f64);
        for (k, block) in blocks.chunks_exact_mut(kind.block_bytes()).enumerate() {
            let group = k * GROUP / self.group;
            let scale = self.number(self.scales, self.place(row, group));
            let zero = self.zero(row, group);
            // Codes and zero points are exact in f32, and so is their product with an f16.
            let exact = match self.packing {
                Packing::Mlx => self.number(self.offsets, self.place(row, group)),
                _ => -(f32::from(zero) * scale),
            };
            let minimum = f16::from_f32(exact);
            block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
            let codes = kind.block_bytes() - GROUP / 2;
            if codes == 4 {
                block[2..4].copy_from_slice(&minimum.to_le_bytes());
            }
            for i in 0..GROUP / 2 {
                let code = |i| self.code(row, k * GROUP + i);
                block[codes + i] = code(i) | code(i + GROUP / 2) << 4;
            }
            let difference = if codes == 4 { f64::from(minimum.to_f32()) - f64::from(exact) } else { 0.0 };
            max = max.max(difference.abs());
            error += GROUP as f64 * difference * difference;
            for i in 0..GROUP {
                let value = f64::from(scale) * f64::from(self.code(row, k * GROUP + i)) + f64::from(exact);
                norm += value * value;
            }
        }
        [max, error, norm]
    }
}

fn nibble(words: &[u8], word: usize, place: u32) -> u8 {
    // Little-endian: the nibble of a byte.
    let byte = words[4 * word + place as usize / 2];
    if place.is_multiple_of(2) { byte & 15 } else { byte >> 4 }
}
