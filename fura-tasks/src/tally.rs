//! Grades, counted and made into rewards.

use std::collections::BTreeMap;

use crate::grader::{Grade, Label};

/// What a fault of a grader is to training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFault {
    /// As an abstention: it counts neither for nor against an output.
    #[default]
    Abstain,
    /// A reward of 0. Only for graders whose faults are the output's doing.
    Zero,
}

/// How many grades there were of each kind and label.
///
/// ```
/// use fura_tasks::{Grade, Label, Tally};
/// let mut tally = Tally::default();
/// tally.add(&Grade::score(1.0, Label::Right));
/// tally.add(&Grade::Fault { label: Label::TimedOut, why: "no answer in time".to_owned() });
/// assert_eq!((tally.scores, tally.faults), (1, 1));
/// assert_eq!(tally.mean(), Some(1.0));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// Grades that are scores.
    pub scores: u64,
    /// Abstentions.
    pub abstentions: u64,
    /// Faults of the grader.
    pub faults: u64,
    /// Grades with each label.
    pub labels: BTreeMap<Label, u64>,
    sum: f64,
}

impl Tally {
    /// Counts a grade.
    pub fn add(&mut self, grade: &Grade) {
        match (grade, grade.value()) {
            (_, Some(score)) => {
                self.scores += 1;
                self.sum += score;
            }
            (Grade::Abstain { .. }, None) => self.abstentions += 1,
            _ => self.faults += 1,
        }
        *self.labels.entry(grade.label()).or_default() += 1;
    }

    /// The mean of the scores, `None` without any: faults and abstentions are no zeros.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.scores > 0).then(|| self.sum / self.scores as f64)
    }
}

/// Mean rewards of an antithetic pair of members over the same tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairReward {
    /// Of the member at `+e`.
    pub plus: f64,
    /// Of the member at `-e`.
    pub minus: f64,
    /// Tasks that both were graded on.
    pub tasks: usize,
}

/// The rewards of a pair from its grades on the same tasks in the same order. A task on which one
/// of the two has no reward is dropped from both, since half of a comparison is none; `None` where
/// no task is left, which is no reward of 0.
///
/// ```
/// use fura_tasks::{Grade, Label, OnFault, pair_reward};
/// let (right, wrong) = (Grade::score(1.0, Label::Right), Grade::score(0.0, Label::Wrong));
/// let abstain = Grade::Abstain { label: Label::NotApplicable };
/// let pair = pair_reward(&[right.clone(), right.clone()], &[wrong, abstain.clone()], OnFault::Abstain);
/// assert_eq!(pair.map(|pair| (pair.plus, pair.minus, pair.tasks)), Some((1.0, 0.0, 1)));
/// assert_eq!(pair_reward(&[right], &[abstain], OnFault::Abstain), None);
/// ```
#[must_use]
pub fn pair_reward(plus: &[Grade], minus: &[Grade], on_fault: OnFault) -> Option<PairReward> {
    let reward = |grade: &Grade| match (grade, on_fault) {
        (Grade::Fault { .. }, OnFault::Zero) => Some(0.0),
        _ => grade.value(),
    };
    let pairs: Vec<_> = plus.iter().zip(minus).filter_map(|(a, b)| reward(a).zip(reward(b))).collect();
    let tasks = pairs.len();
    let mean = |sum: f64| sum / tasks as f64;
    (tasks > 0).then(|| PairReward {
        plus: mean(pairs.iter().map(|pair| pair.0).sum()),
        minus: mean(pairs.iter().map(|pair| pair.1).sum()),
        tasks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_abstentions_are_counted_and_are_no_zeros() {
        let mut tally = Tally::default();
        assert_eq!(tally.mean(), None);
        for grade in [
            Grade::score(0.5, Label::Partial),
            Grade::score(f64::NAN, Label::Right),
            Grade::Score { score: 7.0, label: Label::Right },
            Grade::Abstain { label: Label::NotApplicable },
            Grade::Fault { label: Label::Crashed, why: String::new() },
        ] {
            tally.add(&grade);
        }
        assert_eq!((tally.scores, tally.abstentions, tally.faults), (1, 1, 3));
        assert_eq!(tally.mean(), Some(0.5));
        assert_eq!(tally.labels[&Label::BadScore], 1);
    }

    #[test]
    fn a_task_without_a_reward_is_dropped_from_both_members() {
        let right = || Grade::score(1.0, Label::Right);
        let fault = || Grade::Fault { label: Label::TimedOut, why: String::new() };
        let (plus, minus) = ([right(), fault(), right()], [right(), right(), fault()]);
        let pair = pair_reward(&plus, &minus, OnFault::Abstain).unwrap();
        assert_eq!((pair.plus, pair.minus, pair.tasks), (1.0, 1.0, 1));
        let pair = pair_reward(&plus, &minus, OnFault::Zero).unwrap();
        assert_eq!((pair.plus, pair.minus, pair.tasks), (2.0 / 3.0, 2.0 / 3.0, 3));
        let nan = [Grade::score(f64::NAN, Label::Right)];
        assert_eq!(pair_reward(&nan, &[right()], OnFault::Abstain), None);
    }
}
