//! From the policy over legal answers to a fitness.

use serde::{Deserialize, Serialize};

/// What a member earns on one question, from the log-probabilities of its legal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reward {
    /// `ln sum_a p(a) R(a)`: the log of the exact expected reward. Keeps a slope where the right answer is
    /// still unlikely.
    LogExpected,
    /// `sum_a p(a) R(a)`: the exact expected reward.
    Expected,
    /// The reward of the most likely answer.
    Greedy,
}

/// Expected rewards below this count as this, so that one hopeless question does not outweigh all others.
const FLOOR: f64 = 1e-6;

impl Reward {
    /// The fitness of one question. NaN if a log-probability is NaN (a fault, never a number).
    ///
    /// ```
    /// use fura::reward::Reward;
    /// let half = [0.5f64.ln(), 0.5f64.ln()];
    /// assert_eq!(Reward::Expected.of(&half, &[1.0, 0.0]), 0.5);
    /// assert_eq!(Reward::Greedy.of(&half, &[0.0, 1.0]), 0.0); // the first among equals
    /// ```
    pub fn of(self, log_probabilities: &[f64], rewards: &[f64]) -> f64 {
        if log_probabilities.iter().any(|p| p.is_nan()) {
            return f64::NAN;
        }
        match self {
            Reward::Greedy => rewards[best(log_probabilities)],
            Reward::Expected => expected(log_probabilities, rewards),
            Reward::LogExpected => libm::log(expected(log_probabilities, rewards).max(FLOOR)),
        }
    }
}

/// `libm`'s exponential: the same bits on every platform, as a run must be reproducible.
fn expected(log_probabilities: &[f64], rewards: &[f64]) -> f64 {
    log_probabilities.iter().zip(rewards).map(|(p, r)| libm::exp(*p) * r).sum()
}

/// Index of the most likely answer, the first among equals.
pub fn best(log_probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (i, p) in log_probabilities.iter().enumerate() {
        if *p > log_probabilities[best] {
            best = i;
        }
    }
    best
}
