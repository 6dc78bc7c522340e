//! Tables of rotary position embedding.

use crate::config::ModelConfig;

/// Cosines and sines of `position * base^(-2 i / head_dim)`, computed in f64 with `libm` (the same bits on every
/// platform) and rounded once.
#[derive(Clone, Debug)]
pub(crate) struct RopeTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    pub(crate) fn new(config: &ModelConfig, positions: usize) -> Self {
        let half = config.head_dim / 2;
        let (mut cos, mut sin) = (Vec::with_capacity(positions * half), Vec::with_capacity(positions * half));
        let frequencies: Vec<f64> = (0..half)
            .map(|i| libm::pow(f64::from(config.rope_base), -2.0 * i as f64 / config.head_dim as f64))
            .collect();
        for position in 0..positions {
            for f in &frequencies {
                let angle = position as f64 * f;
                cos.push(libm::cos(angle) as f32);
                sin.push(libm::sin(angle) as f32);
            }
        }
        Self { half, cos, sin }
    }

    pub(crate) fn positions(&self) -> usize {
        self.cos.len() / self.half
    }

    /// Rotates every head of a row.
    pub(crate) fn rotate(&self, row: &mut [f32], position: usize) {
        let at = position * self.half;
        let (cos, sin) = (&self.cos[at..at + self.half], &self.sin[at..at + self.half]);
        for head in row.chunks_exact_mut(2 * self.half) {
            fura_simd::elementwise::rotate_pairs(head, cos, sin);
        }
    }
}
