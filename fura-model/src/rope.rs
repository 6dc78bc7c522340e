//! Tables of rotary position embedding (Su et al., arXiv 2104.09864).

use crate::config::{ModelConfig, RopeScaling};
use fura_simd::elementwise::{rotate_halves, rotate_pairs};

/// The rotations of a model's layers, for a number of positions.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    halves: bool,
    head_dim: usize,
    unrotated_period: Option<usize>,
    positions: usize,
    table: Table,
    /// Of the layers with a sliding window, if they differ.
    local: Option<Table>,
}

/// Cosines and sines of `position * frequency`, computed in f64 with `libm` (the same bits on every platform) and
/// rounded once.
#[derive(Clone, Debug)]
struct Table {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rope {
    /// `divisors` has one entry for each frequency, if the model has them.
    pub(crate) fn new(config: &ModelConfig, divisors: Option<&[f32]>, positions: usize) -> Self {
        let v = &config.variant;
        let mut frequencies = frequencies(f64::from(config.rope_base), config.rotated(), v.rope_scaling);
        if let Some(divisors) = divisors {
            for (f, d) in frequencies.iter_mut().zip(divisors) {
                *f /= f64::from(*d);
            }
        }
        let stretched = match v.rope_scaling {
            RopeScaling::Yarn { factor, .. } => 1.0 + 0.1 * libm::log(f64::from(factor)),
            _ => 1.0,
        };
        let magnitude = f64::from(v.rope_magnitude.unwrap_or(1.0)) * stretched;
        let local = v.local_rope_base.map(|base| {
            let frequencies = self::frequencies(f64::from(base), config.rotated(), RopeScaling::None);
            Table::new(&frequencies, 1.0, positions)
        });
        Self {
            halves: v.halves,
            head_dim: config.head_dim,
            unrotated_period: v.unrotated_period,
            positions,
            table: Table::new(&frequencies, magnitude, positions),
            local,
        }
    }

    pub(crate) fn positions(&self) -> usize {
        self.positions
    }

    /// Rotates every head of a row of layer `layer`, which has a sliding window or not.
    pub(crate) fn rotate(&self, row: &mut [f32], position: usize, layer: usize, window: bool) {
        if self.unrotated_period.is_some_and(|n| (layer + 1).is_multiple_of(n)) {
            return;
        }
        let table = self.local.as_ref().filter(|_| window).unwrap_or(&self.table);
        let at = position * table.half;
        let (cos, sin) = (&table.cos[at..at + table.half], &table.sin[at..at + table.half]);
        let rotate = if self.halves { rotate_halves } else { rotate_pairs };
        for head in row.chunks_exact_mut(self.head_dim) {
            rotate(&mut head[..2 * table.half], cos, sin);
        }
    }
}

impl Table {
    fn new(frequencies: &[f64], magnitude: f64, positions: usize) -> Self {
        let half = frequencies.len();
        let (mut cos, mut sin) = (Vec::with_capacity(positions * half), Vec::with_capacity(positions * half));
        for position in 0..positions {
            for f in frequencies {
                let angle = position as f64 * f;
                cos.push((libm::cos(angle) * magnitude) as f32);
                sin.push((libm::sin(angle) * magnitude) as f32);
            }
        }
        Self { half, cos, sin }
    }
}

/// `base^(-2i / n)` for `i` in `0..n/2`, stretched.
fn frequencies(base: f64, n: usize, scaling: RopeScaling) -> Vec<f64> {
    let plain = |i: usize| libm::pow(base, -2.0 * i as f64 / n as f64);
    match scaling {
        RopeScaling::None => (0..n / 2).map(plain).collect(),
        RopeScaling::Linear { factor } => (0..n / 2).map(|i| plain(i) / f64::from(factor)).collect(),
        RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow } => {
            // The (fractional) index of the frequency that turns so many times in the original context.
            let index = |turns: f32| {
                let positions = original_context as f64 / (f64::from(turns) * 2.0 * std::f64::consts::PI);
                n as f64 * libm::log(positions) / (2.0 * libm::log(base))
            };
            let low = index(beta_fast).floor().max(0.0);
            let high = index(beta_slow).ceil().min((n - 1) as f64);
            // Equal ends would divide by zero; so small a width makes a step of the ramp.
            let width = (high - low).max(0.001);
            (0..n / 2)
                .map(|i| {
                    let divided = ((i as f64 - low) / width).clamp(0.0, 1.0);
                    let f = plain(i);
                    f / f64::from(factor) * divided + f * (1.0 - divided)
                })
                .collect()
        }
    }
}
