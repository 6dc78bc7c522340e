//! Antithetic evolution strategies as an ask/tell loop.
//!
//! Generation `t` perturbs the coordinates `c` with `pairs` random vectors `e_i`
//! ([`noise`](crate::noise)), each with both signs: members `(i, +)` and `(i, -)` are
//! `clamp(c + (sign sigma) e_i)`. Every member answers the same tasks; the caller **maximises**
//! reward. [`Estimator::tell`] then moves
//!
//! `m <- momentum m + (1 / N) sum_i (z_i+ - z_i-) e_i`,
//! `c <- clamp((1 - decay) c + alpha_t m)`,
//!
//! with `sigma` and `alpha` multiplied by the linear's [scale](EsConfig::linear_scales) where one is set
//! and divided by the singular value where coordinates are [absolute](Coordinates::Absolute);
//! [Adam](EsConfig::adam) may take the place of `m`. Where generations take [turns](EsConfig::turns), all this
//! happens to the linears whose turn it is. Here `z` are the shaped rewards and `N` is the generation's number of pairs. A dropped pair
//! contributes zero to the sum and still counts in `N`: a generation with faults takes a smaller
//! step, never a wilder one. The factor `1 / (2 sigma)` of a textbook gradient is part of `alpha`.
//!
//! Sums over pairs run in `f64` in pair order, one rounding to `f32` per coordinate and generation,
//! so the coordinates are a function of configuration, layout and rewards: that is what makes
//! a [run log](crate::runlog) sufficient. The base weights are never touched, so nothing has to
//! be restored between members.

use std::ops::Range;

use serde::Serialize;

pub use config::{Adam, Coordinates, EsConfig, MAX_PAIRS, Schedule, Shaping};
pub use probe::{Probe, ProbeError, SpreadBand};
pub use turn::Turn;

mod ascent;
mod config;
mod probe;
mod scales;
mod shaping;
mod turn;

use crate::layout::Layout;
use crate::noise::Noise;
use ascent::Ascent;
use fura_simd::Isa;
use scales::Scales;
pub use shaping::RewardSummary;
use shaping::Shaper;
pub(crate) use shaping::valid;

/// Coordinates updated per pass: one chunk of noise and of sums stays in the first-level cache.
const CHUNK: usize = 1024;

/// Why an estimator refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EstimatorError {
    /// A setting is out of range.
    #[error("estimator settings: {field} is {found}, expected {expected}")]
    Config {
        /// The setting.
        field: &'static str,
        /// Its value.
        found: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Not one scale per linear.
    #[error(
        "estimator settings: linear_scales has {found} entries, expected none or {expected}, one per linear"
    )]
    ScaleCount {
        /// Scales given.
        found: usize,
        /// Linears of the layout.
        expected: usize,
    },
    /// Absolute coordinates without singular values, or the reverse.
    #[error("estimator settings: coordinates are {found}, which `{used}` does not take; use `{instead}`")]
    Units {
        /// What the settings say.
        found: &'static str,
        /// What was called.
        used: &'static str,
        /// What to call.
        instead: &'static str,
    },
    /// Singular values that do not fit the layout.
    #[error("estimator: {found} singular values, expected {expected}, one per coordinate")]
    SingularValueCount {
        /// Values given.
        found: usize,
        /// Coordinates of the layout.
        expected: usize,
    },
    /// A singular value is negative or not finite.
    #[error("estimator: singular value {index} is {value}, expected a finite number, at least 0")]
    SingularValue {
        /// Flat coordinate.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// Not one reward per member.
    #[error(
        "estimator: generation {generation} got {found} rewards, expected {expected}, one per member in order"
    )]
    RewardCount {
        /// The generation.
        generation: u32,
        /// Rewards given.
        found: usize,
        /// Members asked for.
        expected: usize,
    },
    /// The generation counter is exhausted.
    #[error("estimator: generation {} is the last one; start a new run", u32::MAX)]
    Exhausted,
}

/// Sign of a perturbation within its antithetic pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sign {
    /// `c + sigma e`.
    Plus,
    /// `c - sigma e`.
    Minus,
}

/// One member of a generation's population.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// Index of the antithetic pair.
    pub pair: u32,
    /// Which twin.
    pub sign: Sign,
}

/// A generation waiting for its rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generation {
    /// Index, from 0.
    pub index: u32,
    /// Antithetic pairs.
    pub pairs: u32,
    /// Standard deviation of the perturbation.
    pub sigma: f32,
}

impl Generation {
    /// The members, in the order [`Estimator::tell`] wants their rewards:
    /// `(0, +), (0, -), (1, +), ...`.
    pub fn members(self) -> impl Iterator<Item = Member> + Clone {
        (0..self.pairs).flat_map(|pair| [Sign::Plus, Sign::Minus].map(|sign| Member { pair, sign }))
    }

    /// Number of members, `2 * pairs`.
    pub fn len(self) -> usize {
        2 * self.pairs as usize
    }

    /// Never true: a generation has at least one pair.
    pub fn is_empty(self) -> bool {
        self.pairs == 0
    }
}

/// What a generation taught.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GenerationReport {
    /// The generation just told.
    pub generation: u32,
    /// Mean reward of the surviving members; NaN if none survived.
    pub mean: f64,
    /// Best reward of the surviving members; NaN if none survived.
    pub best: f64,
    /// Population standard deviation of the surviving rewards; NaN if none survived.
    pub spread: f64,
    /// The spread was below the floor, or nobody survived: nothing was changed.
    pub flat: bool,
    /// Pairs left out because a twin's reward was NaN, infinite or beyond 1e100.
    pub dropped_pairs: u32,
    /// Root mean square of the coordinates after the update.
    pub coordinate_rms: f64,
    /// Root mean square of the change.
    pub update_rms: f64,
}

impl From<GenerationReport> for RewardSummary {
    fn from(report: GenerationReport) -> Self {
        let GenerationReport { mean, best, spread, dropped_pairs, flat, .. } = report;
        Self { mean, best, spread, dropped_pairs, flat }
    }
}

/// The state of a run: coordinates and what is needed to improve them.
///
/// ```
/// use fura_core::estimator::{EsConfig, Estimator};
/// use fura_core::layout::{Layout, Linear};
/// let layout = Layout::new(4, [Linear::new("w", 8, 8)])?;
/// let mut estimator = Estimator::new(EsConfig { pairs: 2, ..EsConfig::default() }, &layout)?;
/// let mut c = [0.0; 8];
/// let mut rewards = Vec::new();
/// for member in estimator.ask().members() {
///     estimator.member_coordinates(member, 0..8, &mut c);
///     rewards.push(f64::from(c[0])); // prefers a larger first coordinate
/// }
/// let report = estimator.tell(&rewards)?;
/// assert!(estimator.coordinates()[0] > 0.0 && !report.flat);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Estimator {
    config: EsConfig,
    noise: Noise,
    scales: Scales,
    /// End of each linear's stretch of flat coordinates.
    ends: Vec<usize>,
    generation: u32,
    coordinates: Vec<f32>,
    ascent: Ascent,
    /// Sum of the averaged iterates; empty without averaging.
    sum: Vec<f64>,
    averaged: u32,
    shaper: Shaper,
    /// Scratch of `tell`.
    perturbation: Vec<f32>,
    step: Vec<f64>,
}

impl Estimator {
    /// Starts at the base model: all coordinates zero.
    ///
    /// Everything a run needs is allocated here; [`ask`](Self::ask),
    /// [`member_coordinates`](Self::member_coordinates) and [`tell`](Self::tell) allocate
    /// nothing.
    ///
    /// # Errors
    /// [`EstimatorError::Config`] for a setting out of range, [`EstimatorError::ScaleCount`] for
    /// scales of another layout, [`EstimatorError::Units`] for absolute coordinates.
    pub fn new(config: EsConfig, layout: &Layout) -> Result<Self, EstimatorError> {
        let lengths: Vec<usize> = layout.linears().iter().map(|linear| linear.d_in).collect();
        Self::over(config, &lengths)
    }

    /// As [`new`](Self::new), with [absolute](Coordinates::Absolute) coordinates: `s` are the layout's
    /// singular values, one per coordinate
    /// ([`LinearSpectrum::s`](crate::spectrum::LinearSpectrum::s), linear after linear). A coordinate
    /// whose singular value is 0 stays 0.
    ///
    /// ```
    /// use fura_core::estimator::{Coordinates, EsConfig, Estimator};
    /// use fura_core::layout::{Layout, Linear};
    /// let layout = Layout::new(2, [Linear::new("w", 2, 2)])?;
    /// let config = EsConfig { coordinates: Coordinates::Absolute, ..EsConfig::default() };
    /// let absolute = Estimator::absolute(config, &layout, &[4.0, 0.5])?;
    /// let relative = Estimator::new(EsConfig::default(), &layout)?;
    /// let member = relative.ask().members().next().unwrap();
    /// let (mut a, mut r) = ([0.0; 2], [0.0; 2]);
    /// absolute.member_coordinates(member, 0..2, &mut a);
    /// relative.member_coordinates(member, 0..2, &mut r);
    /// assert_eq!(a, [r[0] / 4.0, r[1] / 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new), for relative coordinates, and for singular values that do not fit.
    pub fn absolute(config: EsConfig, layout: &Layout, s: &[f32]) -> Result<Self, EstimatorError> {
        if config.coordinates != Coordinates::Absolute {
            let (used, instead) = ("Estimator::absolute", "Estimator::new");
            return Err(EstimatorError::Units { found: "relative", used, instead });
        }
        let (found, expected) = (s.len(), layout.coordinates());
        if found != expected {
            return Err(EstimatorError::SingularValueCount { found, expected });
        }
        if let Some((index, &value)) =
            s.iter().enumerate().find(|&(_, &s)| !(0.0..f32::INFINITY).contains(&s))
        {
            return Err(EstimatorError::SingularValue { index, value });
        }
        let relative = EsConfig { coordinates: Coordinates::Relative, ..config.clone() };
        let estimator = Self::new(relative, layout)?;
        Ok(Self { scales: estimator.scales.divided_by(s), config, ..estimator })
    }

    /// As [`new`](Self::new), with `lengths[l]` coordinates for linear `l`: any
    /// [space](crate::space) of coordinates in which zero is the base model.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over(config: EsConfig, lengths: &[usize]) -> Result<Self, EstimatorError> {
        config.validate_for(lengths.len())?;
        if config.coordinates != Coordinates::Relative {
            let (used, instead) = ("Estimator::new", "Estimator::absolute");
            return Err(EstimatorError::Units { found: "absolute", used, instead });
        }
        let ends: Vec<usize> = (lengths.iter())
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .collect();
        let n = ends.last().copied().unwrap_or(0);
        Ok(Self {
            noise: Noise::with_distribution(config.seed, config.noise),
            scales: Scales::new(&config.linear_scales, &ends),
            ends,
            generation: 0,
            coordinates: vec![0.0; n],
            ascent: Ascent::new(&config, n),
            sum: vec![0.0; if config.average_from.is_some() { n } else { 0 }],
            averaged: 0,
            shaper: Shaper::new(config.most_pairs()),
            perturbation: vec![0.0; CHUNK.min(n)],
            step: vec![0.0; CHUNK.min(n)],
            config,
        })
    }

    /// The same estimator, its noise computed with the instructions of this tier instead of the best one.
    #[must_use]
    pub fn on(self, isa: Isa) -> Self {
        Self { noise: self.noise.on(isa), ..self }
    }

    /// Bytes of an estimator of so many coordinates.
    pub fn bytes(config: &EsConfig, coordinates: usize) -> usize {
        let wide = Ascent::numbers(config) + usize::from(config.average_from.is_some());
        let scratch = CHUNK.min(coordinates) * (size_of::<f32>() + size_of::<f64>());
        coordinates * (size_of::<f32>() + wide * size_of::<f64>())
            + scratch
            + Shaper::bytes(config.most_pairs())
    }

    /// The settings.
    pub fn config(&self) -> &EsConfig {
        &self.config
    }

    /// The generation to evaluate now. Asking again gives the same one until it is told.
    pub fn ask(&self) -> Generation {
        let pairs = self.config.pairs_at(self.generation);
        Generation { index: self.generation, pairs, sigma: self.config.sigma }
    }

    /// The linears that the current generation perturbs and moves; in the others every member has the
    /// [current coordinates](Self::coordinates).
    pub fn linears(&self) -> Range<usize> {
        self.config.turn_at(self.generation).map_or(0..self.ends.len(), Turn::range)
    }

    /// Flat coordinates of [`linears`](Self::linears).
    fn active(&self) -> Range<usize> {
        let linears = self.linears();
        let start_of = |linear: usize| linear.checked_sub(1).map_or(0, |before| self.ends[before]);
        start_of(linears.start)..start_of(linears.end)
    }

    /// The current coordinates, in flat layout order.
    pub fn coordinates(&self) -> &[f32] {
        &self.coordinates
    }

    /// Writes a member's coordinates in `range` of the flat vector to `out`, e.g. one linear's
    /// with [`Layout::range`]. Allocates nothing and may be called from many threads.
    ///
    /// # Panics
    /// If `range` leaves the layout, `out` has another length, or the pair is not of this
    /// generation.
    pub fn member_coordinates(&self, member: Member, range: Range<usize>, out: &mut [f32]) {
        assert!(member.pair < self.ask().pairs, "member of another population");
        assert_eq!(range.len(), out.len(), "one place for each coordinate");
        let active = self.active();
        let start = active.start.clamp(range.start, range.end);
        let end = active.end.clamp(start, range.end);
        out.copy_from_slice(&self.coordinates[range.clone()]);
        self.perturb(member, start..end, &mut out[start - range.start..end - range.start]);
    }

    /// As [`member_coordinates`](Self::member_coordinates) for perturbed coordinates.
    fn perturb(&self, member: Member, range: Range<usize>, out: &mut [f32]) {
        let centre = &self.coordinates[range.clone()];
        self.noise.fill(self.generation, member.pair, range.clone(), out);
        let sigma = match member.sign {
            Sign::Plus => self.config.sigma,
            Sign::Minus => -self.config.sigma,
        };
        let bound = self.config.bound;
        for (x, reciprocal) in out.iter_mut().zip(self.scales.reciprocals(range.clone())) {
            *x *= reciprocal;
        }
        for (piece, scale) in self.scales.pieces(range) {
            let sigma = sigma * scale;
            for (x, &c) in out[piece.clone()].iter_mut().zip(&centre[piece]) {
                *x = (c + sigma * *x).clamp(-bound, bound);
            }
        }
    }

    /// Takes one reward per member, in the order of [`Generation::members`], and moves to the
    /// next generation.
    ///
    /// A NaN or infinite reward is an abstention or a fault and drops both twins of its pair.
    /// A flat generation changes neither coordinates nor momentum, and is not decayed.
    ///
    /// # Errors
    /// A wrong number of rewards, or generation `u32::MAX`; nothing is changed then.
    pub fn tell(&mut self, rewards: &[f64]) -> Result<GenerationReport, EstimatorError> {
        let generation = self.generation;
        let expected = self.ask().len();
        if rewards.len() != expected {
            return Err(EstimatorError::RewardCount { generation, found: rewards.len(), expected });
        }
        let next = generation.checked_add(1).ok_or(EstimatorError::Exhausted)?;
        let summary = self.shaper.shape(&self.config, rewards);
        let change = match summary.flat {
            true => 0.0,
            false => self.update(),
        };
        if self.config.average_from.is_some_and(|from| generation >= from) {
            for (sum, &c) in self.sum.iter_mut().zip(&self.coordinates) {
                *sum += f64::from(c);
            }
            self.averaged += 1;
        }
        self.generation = next;
        let n = self.coordinates.len() as f64;
        let square = |&c: &f32| f64::from(c) * f64::from(c);
        Ok(GenerationReport {
            generation,
            mean: summary.mean,
            best: summary.best,
            spread: summary.spread,
            flat: summary.flat,
            dropped_pairs: summary.dropped_pairs,
            coordinate_rms: (self.coordinates.iter().map(square).sum::<f64>() / n).sqrt(),
            update_rms: (change / n).sqrt(),
        })
    }

    /// Applies the shaped weights; returns the squared norm of the change.
    fn update(&mut self) -> f64 {
        let active = self.active();
        let config = &self.config;
        let alpha = config.alpha_at(self.generation);
        let keep = 1.0 - f64::from(config.decay);
        let pairs = config.pairs_at(self.generation);
        let scale = 1.0 / f64::from(pairs);
        let mut change = 0.0;
        self.ascent.begin();
        for (chunk, coordinates) in self.coordinates[active.clone()].chunks_mut(CHUNK).enumerate() {
            let len = coordinates.len();
            let start = active.start + chunk * CHUNK;
            let perturbation = &mut self.perturbation[..len];
            let step = &mut self.step[..len];
            step.fill(0.0);
            for (pair, &weight) in (0..pairs).zip(self.shaper.weights()) {
                if weight == 0.0 {
                    continue;
                }
                let range = start..start + len;
                self.noise.fill(self.generation, pair, range, perturbation);
                for (sum, &e) in step.iter_mut().zip(perturbation.iter()) {
                    *sum += weight * f64::from(e);
                }
            }
            step.iter_mut().for_each(|sum| *sum *= scale);
            self.ascent.direct(start, step);
            for (g, reciprocal) in step.iter_mut().zip(self.scales.reciprocals(start..start + len)) {
                *g *= f64::from(*reciprocal);
            }
            for (piece, scale) in self.scales.pieces(start..start + len) {
                let alpha = alpha * f64::from(scale);
                for (c, &g) in coordinates[piece.clone()].iter_mut().zip(&step[piece]) {
                    let old = f64::from(*c);
                    let new = (keep * old + alpha * g) as f32;
                    *c = new.clamp(-config.bound, config.bound);
                    let moved = f64::from(*c) - old;
                    change += moved * moved;
                }
            }
        }
        change
    }

    /// The coordinates to keep: the mean of the averaged iterates if averaging has begun, else
    /// the current ones.
    pub fn final_coordinates(&self) -> Vec<f32> {
        if self.averaged == 0 {
            return self.coordinates.clone();
        }
        let count = f64::from(self.averaged);
        self.sum.iter().map(|sum| (sum / count) as f32).collect()
    }
}
