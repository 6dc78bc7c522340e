//! Settings of the evolution-strategies estimator.

use serde::{Deserialize, Serialize};

use super::{EstimatorError, Turn};
use crate::noise::Distribution;

/// Most pairs a generation may have (2^20).
pub const MAX_PAIRS: u32 = 1 << 20;

/// How the step size `alpha` changes over generations `t = 0, 1, ...`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Schedule {
    /// `alpha` throughout.
    #[default]
    Constant,
    /// Falls linearly from `alpha` at `t = 0` to `fraction * alpha` at `t = generations`, and
    /// stays there.
    Linear {
        /// Final fraction of `alpha`, in `[0, 1]`.
        fraction: f32,
        /// Generations the decay takes, at least 1.
        generations: u32,
    },
    /// `alpha / (1 + t / tau)`.
    InverseTime {
        /// Generations after which `alpha` has halved, above 0.
        tau: f32,
    },
}

/// How rewards become the weights of the update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Shaping {
    /// `(r - mean) / std` over the surviving members, population standard deviation.
    #[default]
    ZScore,
    /// Rank among the surviving members, equal rewards sharing their mean rank, scaled to
    /// `[-1/2, 1/2]`.
    CentredRanks,
    /// `+1` for the better twin of a pair and `-1` for the other; 0 for equal twins.
    PairSign,
    /// The reward as it is.
    None,
}

/// What is perturbed by `sigma`: the relative change `c` of a singular value, or the value itself.
///
/// The estimator's coordinates are relative in both cases, and so are bounds and specialists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Coordinates {
    /// `c ~ sigma e`. One `sigma` fits all linears, and no singular value moves by more than the others.
    #[default]
    Relative,
    /// `c = d / s` with `d ~ sigma e`: ascent in the singular values themselves, small ones moving
    /// relatively more. `sigma` and `alpha` are in the unit of the weights. Needs the singular values
    /// `s`: [`Estimator::absolute`](super::Estimator::absolute).
    Absolute,
}

/// Adam's settings (Kingma and Ba, 2015).
///
/// It is an option, not the default, because it has not earned that: on quadratics of 200 dimensions with
/// 8 pairs, each method at its best step size, it leaves 4 to 14 % less loss than plain steps where curvatures
/// differ 30 and 1000 times, and nearly twice as much where they do not; [momentum](EsConfig::momentum) does much
/// the same (`tests/ascent.rs`). The noise of the estimate is of equal size in every coordinate, so there is
/// little for Adam to even out; what it does do is to forget the unit of the rewards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adam {
    /// Decay of the first moment, in `[0, 1)`; default 0.9.
    pub beta1: f32,
    /// Decay of the second moment, in `[0, 1)`; default 0.999.
    pub beta2: f32,
    /// Added to the root of the second moment, above 0; default 1e-8.
    pub epsilon: f32,
}

impl Default for Adam {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// Settings of an [`Estimator`](super::Estimator); part of a run's identity.
///
/// Start from [`EsConfig::default`]. `sigma` is relative: a coordinate of 0.05 scales one
/// singular value by 5 %. Two rules of thumb from published runs: choose `sigma` by the spread of
/// rewards that it causes ([`SpreadBand`](super::SpreadBand)), and hold `alpha / sqrt(pairs)` fixed when
/// changing `pairs` ([`with_pairs`](Self::with_pairs)).
///
/// ```
/// use fura_core::estimator::{EsConfig, Schedule};
/// let config = EsConfig {
///     seed: 1,
///     schedule: Schedule::Linear { fraction: 0.25, generations: 50 },
///     ..EsConfig::default()
/// };
/// config.validate()?;
/// assert_eq!(config.alpha_at(50), 0.25 * config.alpha_at(0));
/// # Ok::<(), fura_core::estimator::EstimatorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EsConfig {
    /// Seed of all perturbations.
    pub seed: u64,
    /// Antithetic pairs per generation; a generation evaluates twice as many members.
    pub pairs: u32,
    /// Standard deviation of the perturbation, in relative coordinates. Default 0.05.
    pub sigma: f32,
    /// Step size of the update. Default 0.02.
    pub alpha: f32,
    /// Change of `alpha` over generations.
    pub schedule: Schedule,
    /// How rewards are shaped.
    pub shaping: Shaping,
    /// A generation whose rewards have a population standard deviation below this is flat and
    /// changes nothing. Guards z-scores against blowing rounding noise up. Default 1e-6.
    pub spread_floor: f64,
    /// Anchored weight decay: each update first multiplies the coordinates by `1 - decay`,
    /// pulling towards the base model. In `[0, 1)`; default 0.
    pub decay: f32,
    /// Heavy-ball momentum in `[0, 1)`; default 0. See [`Adam`] for what it is worth.
    pub momentum: f32,
    /// Coordinates and members' coordinates are clamped to `[-bound, bound]`; in `(0, 1)`, so
    /// that `1 + c` stays positive and no singular value vanishes. Default 0.9.
    pub bound: f32,
    /// If set, the final coordinates are the mean of the coordinates after this and every later
    /// generation (counted from 0).
    pub average_from: Option<u32>,
    /// A factor for each linear, in layout order: linear `l` is perturbed with standard deviation
    /// `sigma * linear_scales[l]` and moves by `alpha * linear_scales[l]`, which is plain ascent in
    /// the coordinates `c / linear_scales[l]`. At least 0, not all 0; 0 freezes a linear. Empty, the
    /// default, means 1 for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linear_scales: Vec<f32>,
    /// Distribution of the perturbations' entries; default Gaussian.
    #[serde(skip_serializing_if = "is_default")]
    pub noise: Distribution,
    /// Unit of the perturbations; default relative.
    #[serde(skip_serializing_if = "is_default")]
    pub coordinates: Coordinates,
    /// Adam in place of plain steps; excludes `momentum` and `turns`. Default none.
    #[serde(skip_serializing_if = "is_default")]
    pub adam: Option<Adam>,
    /// Generations that take turns: generation `t` perturbs, moves and decays the linears of turn
    /// `t mod turns.len()` alone, with that turn's pairs and with `alpha` times `sqrt(turn.pairs / pairs)`, the rule
    /// of [`with_pairs`](Self::with_pairs). Empty, the default: every generation perturbs all linears.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// Settings that version 0.1.0 of the log did not have are written only where they are used.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for EsConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            pairs: 16,
            sigma: 0.05,
            alpha: 0.02,
            schedule: Schedule::Constant,
            shaping: Shaping::ZScore,
            spread_floor: 1e-6,
            decay: 0.0,
            momentum: 0.0,
            bound: 0.9,
            average_from: None,
            linear_scales: Vec::new(),
            noise: Distribution::Gaussian,
            coordinates: Coordinates::Relative,
            adam: None,
            turns: Vec::new(),
        }
    }
}

impl EsConfig {
    /// Checks every field's range.
    ///
    /// # Errors
    /// [`EstimatorError::Config`] naming the first field out of range.
    pub fn validate(&self) -> Result<(), EstimatorError> {
        let check = |ok: bool, field, found: f64, expected| match ok {
            true => Ok(()),
            false => Err(EstimatorError::Config { field, found, expected }),
        };
        let real = |field, found: f32, ok: fn(f32) -> bool, expected| {
            check(found.is_finite() && ok(found), field, found.into(), expected)
        };
        let pairs = (1..=MAX_PAIRS).contains(&self.pairs);
        check(pairs, "pairs", self.pairs.into(), "1 to 1048576")?;
        real("sigma", self.sigma, |x| x > 0.0, "a finite number above 0")?;
        real("alpha", self.alpha, |x| x > 0.0, "a finite number above 0")?;
        real("decay", self.decay, |x| (0.0..1.0).contains(&x), "at least 0, below 1")?;
        real("momentum", self.momentum, |x| (0.0..1.0).contains(&x), "at least 0, below 1")?;
        real("bound", self.bound, |x| x > 0.0 && x < 1.0, "above 0, below 1")?;
        let floor = self.spread_floor;
        let ok = floor.is_finite() && floor >= 0.0;
        check(ok, "spread_floor", floor, "a finite number, at least 0")?;
        for &scale in &self.linear_scales {
            real("linear_scales", scale, |x| x >= 0.0, "finite numbers, at least 0")?;
        }
        let moves = self.linear_scales.is_empty() || self.linear_scales.iter().any(|&scale| scale > 0.0);
        check(moves, "linear_scales", 0.0, "a number above 0 for at least one linear")?;
        if let Some(adam) = self.adam {
            check(self.momentum == 0.0, "momentum", self.momentum.into(), "0 where Adam is used")?;
            real("adam.beta1", adam.beta1, |x| (0.0..1.0).contains(&x), "at least 0, below 1")?;
            real("adam.beta2", adam.beta2, |x| (0.0..1.0).contains(&x), "at least 0, below 1")?;
            real("adam.epsilon", adam.epsilon, |x| x > 0.0, "above 0")?;
            // Its moments are those of a gradient that every step measures.
            check(self.turns.is_empty(), "turns", self.turns.len() as f64, "none where Adam is used")?;
        }
        for turn in &self.turns {
            let pairs = (1..=MAX_PAIRS).contains(&turn.pairs);
            check(pairs, "turns.pairs", turn.pairs.into(), "1 to 1048576")?;
            check(turn.linears > 0, "turns.linears", 0.0, "at least 1")?;
        }
        match self.schedule {
            Schedule::Constant => Ok(()),
            Schedule::Linear { fraction, generations } => {
                let ok = |x| (0.0..=1.0).contains(&x);
                real("schedule.linear.fraction", fraction, ok, "0 to 1")?;
                let field = "schedule.linear.generations";
                check(generations > 0, field, generations.into(), "at least 1")
            }
            Schedule::InverseTime { tau } => real("schedule.inverse_time.tau", tau, |x| x > 0.0, "above 0"),
        }
    }

    /// As [`validate`](Self::validate), and that the settings fit a run over `linears` linears.
    ///
    /// # Errors
    /// As [`validate`](Self::validate); [`EstimatorError::ScaleCount`].
    pub fn validate_for(&self, linears: usize) -> Result<(), EstimatorError> {
        self.validate()?;
        if let Some(turn) = self.turns.iter().find(|turn| turn.range().end > linears) {
            let (found, expected) = (turn.range().end as f64, "a turn's linears within those of the layout");
            return Err(EstimatorError::Config { field: "turns", found, expected });
        }
        let found = self.linear_scales.len();
        match found == 0 || found == linears {
            true => Ok(()),
            false => Err(EstimatorError::ScaleCount { found, expected: linears }),
        }
    }

    /// The same settings for another population: `alpha / sqrt(pairs)` stays what it was.
    ///
    /// A step's length is `alpha / sqrt(pairs)` times a number that hardly depends on the population
    /// (the gradient's share in it is `sqrt(pairs / d)` of `d` coordinates), so this holds the distance
    /// a generation moves. In published runs ten members with `alpha` so reduced reached what thirty did,
    /// at a third of the evaluations.
    ///
    /// ```
    /// use fura_core::estimator::EsConfig;
    /// let config = EsConfig { pairs: 16, alpha: 0.02, ..EsConfig::default() };
    /// assert_eq!(config.with_pairs(4), EsConfig { pairs: 4, alpha: 0.01, ..EsConfig::default() });
    /// ```
    #[must_use]
    pub fn with_pairs(self, pairs: u32) -> Self {
        let ratio = f64::from(pairs) / f64::from(self.pairs);
        Self { alpha: (f64::from(self.alpha) * ratio.sqrt()) as f32, pairs, ..self }
    }

    /// The turn of generation `t`; none where every generation perturbs all linears.
    pub fn turn_at(&self, t: u32) -> Option<&Turn> {
        let count = self.turns.len();
        (count > 0).then(|| &self.turns[t as usize % count])
    }

    /// Pairs of generation `t`.
    pub fn pairs_at(&self, t: u32) -> u32 {
        self.turn_at(t).map_or(self.pairs, |turn| turn.pairs)
    }

    /// Pairs of the largest generation.
    pub fn most_pairs(&self) -> u32 {
        self.turns.iter().map(|turn| turn.pairs).max().unwrap_or(self.pairs)
    }

    /// The step size in generation `t`.
    pub fn alpha_at(&self, t: u32) -> f64 {
        let share = f64::from(self.pairs_at(t)) / f64::from(self.pairs);
        let alpha = f64::from(self.alpha) * share.sqrt();
        match self.schedule {
            Schedule::Constant => alpha,
            Schedule::Linear { fraction, generations } => {
                let done = f64::from(t.min(generations)) / f64::from(generations);
                alpha * ((1.0 - done) + done * f64::from(fraction))
            }
            Schedule::InverseTime { tau } => alpha / (1.0 + f64::from(t) / f64::from(tau)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_their_end_points() {
        let with = |schedule| EsConfig { alpha: 0.5, schedule, ..EsConfig::default() };
        let linear = with(Schedule::Linear { fraction: 0.25, generations: 4 });
        let alphas = [0, 2, 4, 9].map(|t| linear.alpha_at(t));
        assert_eq!(alphas, [0.5, 0.3125, 0.125, 0.125]);
        let inverse = with(Schedule::InverseTime { tau: 10.0 });
        assert_eq!([0, 10, 30].map(|t| inverse.alpha_at(t)), [0.5, 0.25, 0.125]);
        assert_eq!(with(Schedule::Constant).alpha_at(u32::MAX), 0.5);
    }

    #[test]
    fn every_field_out_of_range_is_named() {
        type Change = fn(&mut EsConfig);
        let set: [(&str, Change); 21] = [
            ("pairs", |c| c.pairs = 0),
            ("pairs", |c| c.pairs = u32::MAX),
            ("sigma", |c| c.sigma = 0.0),
            ("sigma", |c| c.sigma = f32::NAN),
            ("alpha", |c| c.alpha = f32::INFINITY),
            ("decay", |c| c.decay = 1.0),
            ("momentum", |c| c.momentum = -0.1),
            ("bound", |c| c.bound = 1.0),
            ("spread_floor", |c| c.spread_floor = f64::NAN),
            ("linear_scales", |c| c.linear_scales = vec![1.0, -0.5]),
            ("linear_scales", |c| c.linear_scales = vec![f32::INFINITY]),
            ("linear_scales", |c| c.linear_scales = vec![0.0, 0.0]),
            ("momentum", |c| (c.momentum, c.adam) = (0.5, Some(Adam::default()))),
            ("adam.beta1", |c| c.adam = Some(Adam { beta1: 1.0, ..Adam::default() })),
            ("adam.beta2", |c| c.adam = Some(Adam { beta2: f32::NAN, ..Adam::default() })),
            ("adam.epsilon", |c| c.adam = Some(Adam { epsilon: 0.0, ..Adam::default() })),
            ("schedule.linear.generations", |c| {
                c.schedule = Schedule::Linear { fraction: 0.5, generations: 0 }
            }),
            ("turns.pairs", |c| c.turns = vec![Turn { first: 0, linears: 1, pairs: 0 }]),
            ("turns.linears", |c| c.turns = vec![Turn { first: 0, linears: 0, pairs: 1 }]),
            ("turns", |c| {
                c.adam = Some(Adam::default());
                c.turns = vec![Turn { first: 0, linears: 1, pairs: 1 }];
            }),
            ("schedule.inverse_time.tau", |c| c.schedule = Schedule::InverseTime { tau: 0.0 }),
        ];
        for (name, change) in set {
            let mut config = EsConfig::default();
            change(&mut config);
            match config.validate() {
                Err(EstimatorError::Config { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        assert_eq!(EsConfig::default().validate(), Ok(()));
    }

    #[test]
    fn json_omits_nothing_and_refuses_unknown_fields() {
        let config = EsConfig {
            spread_floor: 0.1 + 0.2,
            sigma: 0.1,
            schedule: Schedule::InverseTime { tau: 3.3 },
            average_from: Some(2),
            ..EsConfig::default()
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<EsConfig>(&text).unwrap(), config);
        assert!(serde_json::from_str::<EsConfig>(r#"{"sigme":0.1}"#).is_err());
    }
}
