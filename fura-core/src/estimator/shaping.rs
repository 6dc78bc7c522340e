//! From rewards to one weight `z_+ - z_-` per pair.

use serde::Serialize;

use super::config::{EsConfig, Shaping};

/// Rewards beyond this magnitude count as faults: their squares would leave `f64`.
const REWARD_LIMIT: f64 = 1e100;

/// What the rewards of a generation look like.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RewardSummary {
    /// Mean reward of the surviving members; NaN if none survived.
    pub mean: f64,
    /// Best reward of the surviving members; NaN if none survived.
    pub best: f64,
    /// Population standard deviation of the surviving rewards; NaN if none survived.
    pub spread: f64,
    /// Pairs left out because a twin's reward was NaN, infinite or beyond 1e100.
    pub dropped_pairs: u32,
    /// Nothing to learn from: nothing was changed.
    pub flat: bool,
}

impl RewardSummary {
    /// Summarizes rewards, twins next to each other; flat where the spread is 0 or below `floor`.
    pub(crate) fn new(rewards: &[f64], floor: f64) -> Self {
        let (count, mean) = mean(rewards);
        let spread = spread(rewards);
        Self {
            mean,
            best: survivors(rewards).fold(f64::NAN, f64::max),
            spread,
            // At most MAX_PAIRS.
            dropped_pairs: (rewards.len() / 2 - count / 2) as u32,
            flat: count == 0 || spread < floor || spread == 0.0,
        }
    }
}

/// Shapes rewards with buffers sized for the largest population.
#[derive(Debug, Clone)]
pub(super) struct Shaper {
    /// Members in order of reward, for ranks.
    order: Vec<u32>,
    /// Rank of each member.
    ranks: Vec<f64>,
    /// `z_+ - z_-` of each pair; 0 for a dropped pair.
    weights: Vec<f64>,
}

/// Whether a reward counts; if not, both twins of its pair are left out.
pub(crate) fn valid(reward: f64) -> bool {
    // NaN fails the comparison too.
    reward.abs() <= REWARD_LIMIT
}

fn survivors(rewards: &[f64]) -> impl Iterator<Item = f64> {
    (rewards.as_chunks::<2>().0.iter()).filter(|twins| twins.iter().all(|&r| valid(r))).flatten().copied()
}

/// Population standard deviation of the surviving rewards; NaN if none survived.
pub(super) fn spread(rewards: &[f64]) -> f64 {
    let (count, mean) = mean(rewards);
    let variance = survivors(rewards).map(|r| (r - mean) * (r - mean)).sum::<f64>();
    (variance / count as f64).sqrt()
}

/// Number and mean of the surviving rewards.
fn mean(rewards: &[f64]) -> (usize, f64) {
    let count = survivors(rewards).count();
    (count, survivors(rewards).sum::<f64>() / count as f64)
}

impl Shaper {
    pub(super) fn new(pairs: u32) -> Self {
        let pairs = pairs as usize;
        Self { order: Vec::with_capacity(2 * pairs), ranks: vec![0.0; 2 * pairs], weights: vec![0.0; pairs] }
    }

    /// Bytes of one.
    pub(super) fn bytes(pairs: u32) -> usize {
        pairs as usize * (2 * size_of::<u32>() + 3 * size_of::<f64>())
    }

    /// Weights from the last call of [`shape`](Self::shape), followed by unused ones where that population was not
    /// the largest.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Shapes one generation's rewards, `(0, +), (0, -), (1, +), ...`. Allocates nothing.
    pub(super) fn shape(&mut self, config: &EsConfig, rewards: &[f64]) -> RewardSummary {
        let summary = RewardSummary::new(rewards, config.spread_floor);
        let RewardSummary { spread, flat, .. } = summary;
        let count = rewards.len() - 2 * summary.dropped_pairs as usize;
        if config.shaping == Shaping::CentredRanks && !flat {
            self.rank(rewards, count);
        }
        let pairs = rewards.as_chunks::<2>().0;
        for (i, (weight, &[plus, minus])) in self.weights.iter_mut().zip(pairs).enumerate() {
            *weight = if flat || !valid(plus) || !valid(minus) {
                0.0
            } else {
                match config.shaping {
                    // The mean cancels in the difference.
                    Shaping::ZScore => (plus - minus) / spread,
                    Shaping::CentredRanks => (self.ranks[2 * i] - self.ranks[2 * i + 1]) / (count - 1) as f64,
                    Shaping::PairSign if plus > minus => 2.0,
                    Shaping::PairSign if plus < minus => -2.0,
                    Shaping::PairSign => 0.0,
                    Shaping::None => plus - minus,
                }
            };
        }
        summary
    }

    /// Ranks `0 .. count` of the surviving members, equal rewards sharing their mean rank.
    fn rank(&mut self, rewards: &[f64], count: usize) {
        self.order.clear();
        for (i, twins) in rewards.as_chunks::<2>().0.iter().enumerate() {
            if twins.iter().all(|&r| valid(r)) {
                self.order.extend([2 * i as u32, 2 * i as u32 + 1]);
            }
        }
        let reward = |&m: &u32| rewards[m as usize];
        // Adding 0.0 makes the two zeros equal in the total order as they are in value.
        (self.order).sort_unstable_by(|a, b| (reward(a) + 0.0).total_cmp(&(reward(b) + 0.0)));
        let mut start = 0;
        for ties in self.order.chunk_by(|a, b| reward(a) == reward(b)) {
            let rank = start as f64 + (ties.len() - 1) as f64 / 2.0;
            for &member in ties {
                self.ranks[member as usize] = rank;
            }
            start += ties.len();
        }
        debug_assert_eq!(start, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(shaping: Shaping, rewards: &[f64]) -> (Vec<f64>, RewardSummary) {
        let config = EsConfig { shaping, ..EsConfig::default() };
        let mut shaper = Shaper::new(rewards.len() as u32 / 2);
        let summary = shaper.shape(&config, rewards);
        (shaper.weights, summary)
    }

    #[test]
    fn each_shaping_by_hand() {
        let rewards = [4.0, 0.0, 2.0, 2.0];
        let spread = (8.0f64 / 4.0).sqrt();
        assert_eq!(weights(Shaping::ZScore, &rewards).0, [4.0 / spread, 0.0]);
        assert_eq!(weights(Shaping::CentredRanks, &rewards).0, [1.0, 0.0]);
        assert_eq!(weights(Shaping::PairSign, &rewards).0, [2.0, 0.0]);
        assert_eq!(weights(Shaping::None, &rewards).0, [4.0, 0.0]);
        let summary = weights(Shaping::ZScore, &rewards).1;
        assert_eq!((summary.mean, summary.best, summary.spread), (2.0, 4.0, spread));
    }

    #[test]
    fn a_fault_drops_both_twins() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1e101] {
            let (with, summary) = weights(Shaping::ZScore, &[1.0, 0.0, bad, 9.0, 2.0, 5.0]);
            let (without, _) = weights(Shaping::ZScore, &[1.0, 0.0, 2.0, 5.0]);
            assert_eq!([with[0], with[2]], without[..]);
            assert_eq!(with[1], 0.0);
            assert_eq!((summary.dropped_pairs, summary.best), (1, 5.0));
        }
    }

    #[test]
    fn nothing_to_learn_is_flat() {
        for rewards in [[0.5, 0.5, 0.5, 0.5], [f64::NAN, 1.0, 0.0, f64::NAN], [1e-7, 0.0, 0.0, 0.0]] {
            let (weights, summary) = weights(Shaping::ZScore, &rewards);
            assert!(summary.flat);
            assert_eq!(weights, [0.0, 0.0]);
        }
    }

    #[test]
    fn ranks_ignore_any_monotone_change_of_rewards() {
        let rewards = [0.3, -2.0, 0.3, 7.0, -0.0, 0.0];
        let cubed = rewards.map(|r: f64| r * r * r + 5.0);
        assert_eq!(weights(Shaping::CentredRanks, &rewards).0, weights(Shaping::CentredRanks, &cubed).0);
    }
}
