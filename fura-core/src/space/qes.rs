//! Quantized evolution strategies: a search among integer codes.

use std::collections::VecDeque;
use std::ops::Range;

use rand::Rng;

use super::{Entry, Population};
use crate::estimator::{EstimatorError, Generation, MAX_PAIRS, Member, RewardSummary, Sign, valid};
use crate::noise::{Noise, Words};

mod codes;

pub use codes::{Codes, CodesError};

/// Codes updated per pass.
const CHUNK: usize = 1024;
/// Shaped differences are clipped to this many standard deviations.
const CLIP: f64 = 3.0;
/// Residuals are clipped to this many codes, lest a blocked move wind up.
const WINDUP: f32 = 1.5;

/// How the part of a step that no code can express yet is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// As a number for each code.
    Stored,
    /// Not at all: it is computed again from the coefficients of the last `window` updates, with the noise
    /// generated again and the codes taken as they are now. Costs `window + 1` times the noise.
    Replayed {
        /// Updates remembered, at least 1; published runs use 50.
        window: u32,
    },
}

/// Settings of [`Qes`]. The defaults are the published ones for a 1.5-billion-parameter model in 4 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QesConfig {
    /// Seed of all perturbations.
    pub seed: u64,
    /// Antithetic pairs per generation, at least 2; default 25.
    pub pairs: u32,
    /// Standard deviation of a perturbation before it is rounded, in codes; default 0.01.
    pub sigma: f32,
    /// Step size; default 5e-4.
    pub alpha: f32,
    /// Share of the residual that is carried on, in `[0, 1]`; default 0.9.
    pub gamma: f32,
    /// How it is remembered; default replayed from 50 updates.
    pub residual: Residual,
}

impl Default for QesConfig {
    fn default() -> Self {
        let residual = Residual::Replayed { window: 50 };
        Self { seed: 0, pairs: 25, sigma: 0.01, alpha: 5e-4, gamma: 0.9, residual }
    }
}

impl QesConfig {
    /// Checks every field's range.
    ///
    /// # Errors
    /// [`EstimatorError::Config`] naming the first field out of range.
    pub fn validate(&self) -> Result<(), EstimatorError> {
        let check = |ok: bool, field, found: f64, expected| match ok {
            true => Ok(()),
            false => Err(EstimatorError::Config { field, found, expected }),
        };
        let positive = |x: f32| x > 0.0 && x.is_finite();
        check((2..=MAX_PAIRS).contains(&self.pairs), "pairs", self.pairs.into(), "2 to 1048576")?;
        check(positive(self.sigma), "sigma", self.sigma.into(), "a finite number above 0")?;
        check(positive(self.alpha), "alpha", self.alpha.into(), "a finite number above 0")?;
        check((0.0..=1.0).contains(&self.gamma), "gamma", self.gamma.into(), "0 to 1")?;
        match self.residual {
            Residual::Replayed { window: 0 } => check(false, "residual.window", 0.0, "at least 1"),
            _ => Ok(()),
        }
    }
}

/// Evolution strategies on the integer codes of quantized weights (QES, arXiv 2602.03120): scales and
/// minima stay, codes move by whole steps.
///
/// Pair `i` perturbs the codes by `delta_i`, Gaussian noise times `sigma` rounded up or down at random so
/// that its mean is kept; moves that would leave the range of codes are not made. Differences `R+ - R-`
/// become z-scores `z_i`, clipped to 3. Then, for each code `q` with residual `e`,
///
/// `g = (1 / sigma) sum_i z_i (gate(q, delta_i) - gate(q, -delta_i))`, `gate(q, d) = d` if `q + d` is a
/// code, else 0,
/// `step = alpha g + gamma e`, `D = round(step)` or 0 if `q + D` is no code,
/// `q <- q + D`, `e <- clamp(step - D, -1.5, 1.5)`.
///
/// At first `e` is uniform on `[-1/2, 1/2)`, so that codes do not all move at once. Rounding is to the
/// nearest, ties to even; sums run in `f64`, steps and residuals are `f32`.
///
/// The codes are a function of settings, first codes and rewards. What [`perturb`](Population::perturb)
/// writes are dequantized codes; the base that it is given is not read.
///
/// ```
/// use fura_core::layout::Linear;
/// use fura_core::space::{Codes, Population, Qes, QesConfig};
/// // One row of four 4-bit codes, weights 0.1 q - 0.8.
/// let codes = Codes::new(Linear::new("w", 1, 4), 4, 4, vec![8, 9, 7, 8], vec![0.1], vec![-0.8])?;
/// let mut qes = Qes::new(QesConfig { pairs: 2, sigma: 0.5, ..QesConfig::default() }, vec![codes])?;
/// let (mut w, mut scratch) = ([0.0; 4], Vec::new());
/// qes.perturb(None, 0, 0..1, &mut w, &mut scratch);
/// assert!((w[1] - 0.1).abs() < 1e-6);
/// qes.tell(&[1.0, 0.0, 0.2, 0.3])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Qes {
    config: QesConfig,
    tensors: Vec<Codes>,
    /// `offsets[l]` is the number of codes before linear `l`.
    offsets: Vec<usize>,
    noise: Noise,
    rounding: Words,
    phase: Words,
    generation: u32,
    updates: u32,
    memory: Memory,
}

/// What is remembered of residuals.
#[derive(Debug, Clone)]
enum Memory {
    /// One residual for each code, in flat order.
    Stored(Vec<f32>),
    /// The last updates, oldest first.
    Replayed { window: usize, updates: VecDeque<Update> },
}

/// A generation's coefficients, from which its step can be computed again.
#[derive(Debug, Clone)]
struct Update {
    generation: u32,
    /// `z` of each pair; 0 for a dropped one.
    coefficients: Vec<f64>,
}

impl Qes {
    /// Starts at the given codes.
    ///
    /// # Errors
    /// A setting out of range.
    pub fn new(config: QesConfig, tensors: Vec<Codes>) -> Result<Self, EstimatorError> {
        config.validate()?;
        let mut offsets = vec![0; tensors.len() + 1];
        for (l, tensor) in tensors.iter().enumerate() {
            offsets[l + 1] = offsets[l] + tensor.codes().len();
        }
        let phase = Words::new("fura 2026 noise v1 chacha8 qes phase", config.seed);
        let memory = match config.residual {
            Residual::Stored => {
                let mut residual = vec![0.0; offsets[tensors.len()]];
                fill_phase(&phase, 0, &mut residual);
                Memory::Stored(residual)
            }
            Residual::Replayed { window } => {
                Memory::Replayed { window: window as usize, updates: VecDeque::new() }
            }
        };
        Ok(Self {
            tensors,
            offsets,
            noise: Noise::new(config.seed),
            rounding: Words::new("fura 2026 noise v1 chacha8 qes rounding", config.seed),
            phase,
            generation: 0,
            updates: 0,
            memory,
            config,
        })
    }

    /// The settings.
    pub fn config(&self) -> &QesConfig {
        &self.config
    }

    /// The linears as they stand.
    pub fn tensors(&self) -> &[Codes] {
        &self.tensors
    }

    /// The residuals of a linear's codes, where they are stored.
    pub fn residual(&self, linear: usize) -> Option<&[f32]> {
        match &self.memory {
            Memory::Stored(residual) => Some(&residual[self.offsets[linear]..self.offsets[linear + 1]]),
            Memory::Replayed { .. } => None,
        }
    }

    /// Writes a pair's perturbation of the codes from flat index `start` on: whole numbers.
    pub(crate) fn deltas(&self, generation: u32, pair: u32, start: usize, largest: u8, out: &mut [f32]) {
        self.noise.fill(generation, pair, start..start + out.len(), out);
        let mut words = self.rounding.at(generation, pair, start);
        let largest = f32::from(largest);
        for e in out {
            let u = self.config.sigma * *e;
            let down = u.floor();
            let up = f64::from(words.next_u32()) / 4_294_967_296.0 < f64::from(u - down);
            *e = (down + f32::from(u8::from(up))).clamp(-largest, largest);
        }
    }

    /// Moves the codes; `coefficients` are this generation's.
    fn update(&mut self, coefficients: &[f64]) {
        let mut tensors = std::mem::take(&mut self.tensors);
        let mut memory = std::mem::replace(&mut self.memory, Memory::Stored(Vec::new()));
        let mut buffers = Buffers::default();
        for (tensor, &offset) in tensors.iter_mut().zip(&self.offsets) {
            let largest = tensor.largest();
            for (chunk, codes) in tensor.codes_mut().chunks_mut(CHUNK).enumerate() {
                let start = offset + chunk * CHUNK;
                buffers.residual.resize(codes.len(), 0.0);
                match &memory {
                    Memory::Stored(residual) => {
                        buffers.residual.copy_from_slice(&residual[start..start + codes.len()]);
                    }
                    Memory::Replayed { .. } if self.updates == 0 => {
                        fill_phase(&self.phase, start, &mut buffers.residual);
                    }
                    Memory::Replayed { updates, .. } => {
                        buffers.residual.fill(0.0);
                        for past in updates {
                            self.gradient(
                                past.generation,
                                &past.coefficients,
                                start,
                                codes,
                                largest,
                                &mut buffers,
                            );
                            self.step(codes, largest, &mut buffers);
                        }
                    }
                }
                self.gradient(self.generation, coefficients, start, codes, largest, &mut buffers);
                self.step(codes, largest, &mut buffers);
                for (code, step) in codes.iter_mut().zip(&buffers.steps) {
                    // A step leads from a code to a code.
                    *code = (f32::from(*code) + step) as u8;
                }
                if let Memory::Stored(residual) = &mut memory {
                    residual[start..start + codes.len()].copy_from_slice(&buffers.residual);
                }
            }
        }
        if let Memory::Replayed { window, updates } = &mut memory {
            if updates.len() == *window {
                updates.pop_front();
            }
            updates.push_back(Update { generation: self.generation, coefficients: coefficients.to_vec() });
        }
        self.updates = self.updates.saturating_add(1);
        self.tensors = tensors;
        self.memory = memory;
    }

    /// `g` of a stretch of codes, gated by the codes as they are.
    fn gradient(
        &self,
        generation: u32,
        coefficients: &[f64],
        start: usize,
        codes: &[u8],
        largest: u8,
        buffers: &mut Buffers,
    ) {
        let Buffers { deltas, gradient, .. } = buffers;
        deltas.resize(codes.len(), 0.0);
        gradient.clear();
        gradient.resize(codes.len(), 0.0);
        for (pair, &z) in (0..).zip(coefficients) {
            if z == 0.0 {
                continue;
            }
            self.deltas(generation, pair, start, largest, deltas);
            for ((g, &d), &q) in gradient.iter_mut().zip(deltas.iter()).zip(codes) {
                *g += z * f64::from(gate(q, d, largest) - gate(q, -d, largest));
            }
        }
        let sigma = f64::from(self.config.sigma);
        gradient.iter_mut().for_each(|g| *g /= sigma);
    }

    /// The whole steps of a stretch and the residuals that they leave; the codes are not touched.
    fn step(&self, codes: &[u8], largest: u8, buffers: &mut Buffers) {
        let Buffers { gradient, residual, steps, .. } = buffers;
        let (alpha, gamma) = (f64::from(self.config.alpha), f64::from(self.config.gamma));
        steps.resize(codes.len(), 0.0);
        for (((whole, e), &g), &q) in steps.iter_mut().zip(residual).zip(gradient.iter()).zip(codes) {
            let step = (alpha * g + gamma * f64::from(*e)) as f32;
            *whole = gate(q, step.round_ties_even(), largest);
            *e = (step - *whole).clamp(-WINDUP, WINDUP);
        }
    }
}

/// Scratch of an update, one stretch of codes long.
#[derive(Default)]
struct Buffers {
    deltas: Vec<f32>,
    gradient: Vec<f64>,
    residual: Vec<f32>,
    steps: Vec<f32>,
}

/// `d` if `q + d` is a code, else 0.
fn gate(q: u8, d: f32, largest: u8) -> f32 {
    let moved = f32::from(q) + d;
    if (0.0..=f32::from(largest)).contains(&moved) { d } else { 0.0 }
}

/// Uniform on `[-1/2, 1/2)`, in steps of `2^-24`.
fn fill_phase(words: &Words, start: usize, out: &mut [f32]) {
    let mut words = words.at(0, 0, start);
    out.iter_mut().for_each(|e| *e = (words.next_u32() >> 8) as f32 / 16_777_216.0 - 0.5);
}

impl Population for Qes {
    fn ask(&self) -> Generation {
        Generation { index: self.generation, pairs: self.config.pairs, sigma: self.config.sigma }
    }

    fn entry(&self) -> Entry {
        Entry::Weight
    }

    fn transform(&self, _: Option<Member>, _: usize, _: &[f32], _: &mut [f32], _: &mut Vec<f32>) {
        panic!("integer codes are weights, not inputs");
    }

    fn perturb(
        &self,
        member: Option<Member>,
        linear: usize,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let tensor = &self.tensors[linear];
        let d_in = tensor.linear().d_in;
        assert_eq!(w.len(), rows.len() * d_in, "weights of {} rows", rows.len());
        scratch.clear();
        scratch.resize(d_in, 0.0);
        for (row, w) in rows.zip(w.chunks_exact_mut(d_in)) {
            let range = row * d_in..(row + 1) * d_in;
            if let Some(member) = member {
                assert!(member.pair < self.config.pairs, "member of another population");
                let start = self.offsets[linear] + range.start;
                self.deltas(self.generation, member.pair, start, tensor.largest(), scratch);
                if member.sign == Sign::Minus {
                    scratch.iter_mut().for_each(|d| *d = -*d);
                }
                for (d, &q) in scratch.iter_mut().zip(&tensor.codes()[range]) {
                    *d = gate(q, *d, tensor.largest());
                }
            }
            tensor.dequantize(row, scratch, w);
        }
    }

    fn tell(&mut self, rewards: &[f64]) -> Result<RewardSummary, EstimatorError> {
        let generation = self.generation;
        let expected = self.ask().len();
        if rewards.len() != expected {
            return Err(EstimatorError::RewardCount { generation, found: rewards.len(), expected });
        }
        let next = generation.checked_add(1).ok_or(EstimatorError::Exhausted)?;
        let mut summary = RewardSummary::new(rewards, 0.0);
        let coefficients = z_scores(rewards);
        summary.flat = coefficients.iter().all(|&z| z == 0.0);
        if !summary.flat {
            self.update(&coefficients);
        }
        self.generation = next;
        Ok(summary)
    }
}

/// z-scores of the pairs' differences (population standard deviation), clipped; 0 for a dropped pair, all 0
/// where they do not differ.
fn z_scores(rewards: &[f64]) -> Vec<f64> {
    let pairs = rewards.as_chunks::<2>().0;
    let differences: Vec<Option<f64>> =
        pairs.iter().map(|&[plus, minus]| (valid(plus) && valid(minus)).then_some(plus - minus)).collect();
    let surviving = || differences.iter().flatten();
    let count = surviving().count() as f64;
    let mean = surviving().sum::<f64>() / count;
    let deviation = (surviving().map(|d| (d - mean) * (d - mean)).sum::<f64>() / count).sqrt();
    let z = |d: f64| if deviation > 0.0 { ((d - mean) / deviation).clamp(-CLIP, CLIP) } else { 0.0 };
    differences.into_iter().map(|d| d.map_or(0.0, z)).collect()
}
