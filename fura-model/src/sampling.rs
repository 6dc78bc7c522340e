//! Choosing the next token: greedily or by chance.
//!
//! A choice is a function of the logits, the settings, the sequence's seed and the number of the token in its
//! sequence: the same on every machine, whatever else is in the batch. The order is that of the `transformers` package:
//! temperature, the `top_k` largest, the nucleus `top_p` of those, then `min_p`.

use crate::error::ModelError;
use fura_simd::Isa;
use fura_simd::softmax::softmax;
use std::cmp::Ordering;

/// How tokens are chosen. The default is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divisor of the logits; 0 takes the most likely token, the one with the lowest id among equals.
    pub temperature: f32,
    /// How many of the most likely tokens are kept; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest most likely tokens whose probabilities add up to at least this; 1 keeps all, 0 keeps one.
    pub top_p: f32,
    /// Keeps tokens at least this times as likely as the most likely one; 0 keeps all, 1 those equal to it.
    pub min_p: f32,
    /// Which sequence of random numbers is used.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 }
    }
}

impl Sampling {
    /// Checks the settings.
    ///
    /// # Errors
    /// Names the first one that is impossible.
    pub fn check(&self) -> Result<(), ModelError> {
        let unit = |setting, value: f32| {
            if (0.0..=1.0).contains(&value) {
                return Ok(());
            }
            Err(ModelError::Sampling { setting, value, expected: "a number from 0 to 1" })
        };
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(ModelError::Sampling {
                setting: "temperature",
                value: self.temperature,
                expected: "a finite number, 0 for greedy",
            });
        }
        unit("top_p", self.top_p)?;
        unit("min_p", self.min_p)
    }
}

/// A token that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: u32,
    logit: f32,
    weight: f32,
}

/// Buffers of choices: once they have seen a vocabulary, choosing allocates nothing.
///
/// ```
/// use fura_model::{Sampler, Sampling};
/// let logits = [0.0, 3.0, 2.0, -1.0];
/// let candidates = || (0..).zip(logits);
/// let mut sampler = Sampler::default();
/// let isa = fura_simd::Isa::detect();
/// assert_eq!(sampler.choose(isa, &Sampling::default(), 0, candidates()), Some(1));
/// let hot = Sampling { temperature: 1.5, top_k: 2, seed: 7, ..Sampling::default() };
/// for step in 0..20 {
///     let token = sampler.choose(isa, &hot, step, candidates());
///     assert!(token == Some(1) || token == Some(2));
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    candidates: Vec<Candidate>,
    weights: Vec<f32>,
}

impl Sampler {
    /// Bytes of a sampler that has seen a vocabulary of `vocab` tokens.
    pub(crate) fn bytes(vocab: usize) -> usize {
        vocab * (size_of::<Candidate>() + size_of::<f32>())
    }

    /// Chooses token number `step` of a sequence among `candidates`, pairs of a token and its logit in ascending order
    /// of tokens. A NaN is never chosen and infinities count as the largest finite numbers. `None` if there is no
    /// candidate. The settings are taken as [checked](Sampling::check).
    pub fn choose(
        &mut self,
        isa: Isa,
        sampling: &Sampling,
        step: u64,
        candidates: impl Iterator<Item = (u32, f32)>,
    ) -> Option<u32> {
        let candidates = candidates.filter(|(_, logit)| !logit.is_nan());
        if sampling.temperature == 0.0 {
            let larger = |best: (u32, f32), new: (u32, f32)| if new.1 > best.1 { new } else { best };
            return candidates.reduce(larger).map(|(token, _)| token);
        }
        self.candidates.clear();
        // What a filter leaves is not known, so growing would double; all that there can be is exact.
        self.candidates.reserve_exact(candidates.size_hint().1.unwrap_or(0));
        self.weights.reserve_exact(candidates.size_hint().1.unwrap_or(0).saturating_sub(self.weights.len()));
        self.candidates.extend(candidates.map(|(token, logit)| Candidate {
            token,
            logit: logit.clamp(f32::MIN, f32::MAX),
            weight: 0.0,
        }));
        self.keep(isa, sampling);
        self.draw(uniform(sampling.seed, step))
    }

    /// Leaves the candidates that the settings keep, with their weights.
    fn keep(&mut self, isa: Isa, sampling: &Sampling) {
        let kept = &mut self.candidates;
        let cut = (1..kept.len()).contains(&sampling.top_k);
        if cut {
            kept.select_nth_unstable_by(sampling.top_k - 1, by_likelihood);
            kept.truncate(sampling.top_k);
            kept.sort_unstable_by(by_likelihood);
        }
        let top = kept.iter().fold(f32::MIN, |top, c| if c.logit > top { c.logit } else { top });
        self.weights.clear();
        // The largest is exactly 0, however small the temperature; the others are at most 0.
        self.weights.extend(kept.iter().map(|c| (c.logit - top) / sampling.temperature));
        softmax(isa, &mut self.weights);
        for (c, weight) in kept.iter_mut().zip(&self.weights) {
            c.weight = *weight;
        }
        if sampling.top_p < 1.0 {
            let (share, total) = (f64::from(sampling.top_p), total(kept));
            if !cut {
                // Tokens below this add up to half of what the nucleus leaves out at most, so they are not in it:
                // most of the vocabulary need not be sorted.
                let floor = (1.0 - share) * total / (2.0 * kept.len() as f64);
                kept.retain(|c| f64::from(c.weight) >= floor);
                kept.sort_unstable_by(by_likelihood);
            }
            let mut sum = 0.0;
            let enough = kept.iter().position(|c| {
                sum += f64::from(c.weight);
                sum >= share * total
            });
            kept.truncate(enough.map_or(kept.len(), |last| last + 1));
        }
        if sampling.min_p > 0.0 {
            let top = kept.iter().fold(0.0f32, |top, c| if c.weight > top { c.weight } else { top });
            let floor = f64::from(sampling.min_p) * f64::from(top);
            kept.retain(|c| f64::from(c.weight) >= floor);
        }
    }

    /// The candidate at `u`, in [0, 1), of the way through the weights.
    fn draw(&self, u: f64) -> Option<u32> {
        let at = u * total(&self.candidates);
        let mut sum = 0.0;
        let found = self.candidates.iter().find(|c| {
            sum += f64::from(c.weight);
            sum > at
        });
        // Rounding of the product may leave nobody; then it is the last one's.
        found.or(self.candidates.last()).map(|c| c.token)
    }
}

/// The sum of weights, in order.
fn total(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|c| f64::from(c.weight)).sum()
}

/// Larger logits first, lower ids first among equals: a total order of distinct tokens.
fn by_likelihood(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Random number `step` of the sequence that `seed` names, uniform on [0, 1) in steps of `2^-53`: the first eight bytes
/// of a BLAKE3 hash of the step, keyed by the seed.
fn uniform(seed: u64, step: u64) -> f64 {
    let key = blake3::derive_key("fura 2026 sampling v1", &seed.to_le_bytes());
    let hash = blake3::keyed_hash(&key, &step.to_le_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(word) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
