//! Choosing `sigma` by the spread of rewards that it causes.

use super::shaping::spread;

/// The rewards of one population perturbed with one `sigma`: what a fresh
/// [`Estimator`](super::Estimator) asks for, evaluated and not told. The same `sigma` may be probed several
/// times, with other seeds or tasks; rewards on different tasks do not belong into one probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe<'a> {
    /// Standard deviation of the perturbation.
    pub sigma: f32,
    /// One reward per member, twins next to each other. A pair with a fault is left out.
    pub rewards: &'a [f64],
}

/// Why no `sigma` can be proposed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No probe has a spread above 0.
    #[error(
        "sigma probe: no population has any spread of rewards; probe a larger sigma, or tasks of another difficulty"
    )]
    Flat,
    /// Spreads do not grow with sigma.
    #[error(
        "sigma probe: the spread of rewards does not grow with sigma; probe smaller ones, or more members"
    )]
    NotGrowing,
    /// A probe's sigma is not a positive number.
    #[error("sigma probe: sigma {sigma}, expected a finite number above 0")]
    BadSigma {
        /// The value.
        sigma: f32,
    },
    /// The band's ends are not positive numbers in order.
    #[error("sigma probe: band {low} to {high}, expected finite numbers above 0 in order")]
    BadBand {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
}

/// The spread of rewards (population standard deviation within a generation) to aim at.
///
/// The footprint of a perturbation in the weights says little about the best `sigma`; across the arms of
/// one published study it varied two hundredfold while the spread of rewards did not. Too small a spread
/// learns slowly, too large a one destroys what the model knows.
///
/// ```
/// use fura_core::estimator::{Probe, SpreadBand};
/// let probes = [
///     Probe { sigma: 0.02, rewards: &[0.51, 0.49, 0.50, 0.52] },
///     Probe { sigma: 0.08, rewards: &[0.54, 0.46, 0.50, 0.58] },
/// ];
/// // Four times the sigma gave four times the spread, 0.0112 and 0.0447: the second is in the band.
/// assert_eq!(SpreadBand::PASS_FAIL_64.propose(&probes)?, 0.08);
/// // Only the first measured: its spread is scaled in proportion to the middle of the band.
/// let sigma = SpreadBand::PASS_FAIL_64.propose(&probes[..1])?;
/// assert!((sigma - 0.0839).abs() < 1e-4);
/// # Ok::<(), fura_core::estimator::ProbeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpreadBand {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Farthest a proposal leaves the measured sigmas, as a factor.
const REACH: f64 = 4.0;

impl SpreadBand {
    /// For the mean outcome of 64 pass/fail tasks: 0.040 to 0.055.
    pub const PASS_FAIL_64: Self = Self { low: 0.040, high: 0.055 };
    /// For the mean outcome of 1024 pass/fail tasks: 0.016 to 0.024.
    pub const PASS_FAIL_1024: Self = Self { low: 0.016, high: 0.024 };

    /// Proposes a `sigma` whose spread should lie in the band.
    ///
    /// A measured point in the band is preferred, the one nearest its geometric middle. Otherwise a line
    /// through `(ln sigma, ln spread)` by least squares is solved for the middle; with one `sigma`
    /// measured the line has slope 1, as for small perturbations. The proposal leaves the measured range
    /// by a factor of 4 at most: probe there and ask again.
    ///
    /// # Errors
    /// A band or `sigma` that makes no sense, no spread at all, spreads that do not grow.
    pub fn propose(&self, probes: &[Probe<'_>]) -> Result<f32, ProbeError> {
        let (low, high) = (self.low, self.high);
        if !(low > 0.0 && low <= high && high.is_finite()) {
            return Err(ProbeError::BadBand { low, high });
        }
        if let Some(bad) = probes.iter().find(|p| !(p.sigma > 0.0 && p.sigma.is_finite())) {
            return Err(ProbeError::BadSigma { sigma: bad.sigma });
        }
        let middle = 0.5 * (libm::log(low) + libm::log(high));
        let points: Vec<(f32, f64)> = (probes.iter())
            .map(|probe| (probe.sigma, spread(probe.rewards)))
            .filter(|&(_, spread)| spread > 0.0)
            .collect();
        let off = |spread: f64| (libm::log(spread) - middle).abs();
        let measured = (points.iter()).filter(|(_, spread)| (low..=high).contains(spread));
        if let Some(&(sigma, _)) = measured.min_by(|a, b| off(a.1).total_cmp(&off(b.1))) {
            return Ok(sigma);
        }
        let logs = points.iter().map(|&(sigma, spread)| (libm::log(sigma.into()), libm::log(spread)));
        let count = points.len() as f64;
        let (x, y) = logs.clone().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (x, y) = (x / count, y / count);
        let (xx, xy) = logs.clone().fold((0.0, 0.0), |sum, point| {
            let d = point.0 - x;
            (sum.0 + d * d, sum.1 + d * (point.1 - y))
        });
        let ends =
            logs.fold((f64::INFINITY, f64::NEG_INFINITY), |e, point| (e.0.min(point.0), e.1.max(point.0)));
        if points.is_empty() {
            return Err(ProbeError::Flat);
        }
        let slope = if xx > 0.0 { xy / xx } else { 1.0 };
        if slope <= 0.0 {
            return Err(ProbeError::NotGrowing);
        }
        let reach = libm::log(REACH);
        let target = (x + (middle - y) / slope).clamp(ends.0 - reach, ends.1 + reach);
        Ok(libm::exp(target) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rewards of one pair with a given spread.
    fn twins(spread: f64) -> [f64; 2] {
        [0.5 + spread, 0.5 - spread]
    }

    fn propose(points: &[(f32, f64)]) -> Result<f32, ProbeError> {
        let rewards: Vec<[f64; 2]> = points.iter().map(|&(_, spread)| twins(spread)).collect();
        let probes: Vec<Probe<'_>> =
            points.iter().zip(&rewards).map(|(&(sigma, _), rewards)| Probe { sigma, rewards }).collect();
        SpreadBand::PASS_FAIL_64.propose(&probes)
    }

    proptest! {
        /// Where spread is a power of sigma, the line is that power and the proposal hits the middle.
        #[test]
        fn a_power_law_is_solved(exponent in 0.3f64..2.0, at in 0.02f64..0.06) {
            let law = |sigma: f64| 0.0469 * (sigma / at).powf(exponent);
            let points = [0.5, 0.7, 1.8, 2.5].map(|k| ((k * at) as f32, law(k * at)));
            prop_assume!(points.iter().all(|p| !(0.04..=0.055).contains(&p.1)));
            let sigma = f64::from(propose(&points).unwrap());
            // The middle is sqrt(0.040 * 0.055) = 0.046904.
            prop_assert!((law(sigma) / 0.046904 - 1.0).abs() < 1e-4, "{} for {}", sigma, at);
        }
    }

    #[test]
    fn a_measured_point_in_the_band_is_preferred_and_the_reach_is_limited() {
        assert_eq!(propose(&[(0.01, 0.041), (0.02, 0.047), (0.03, 0.054)]), Ok(0.02));
        let far = propose(&[(0.01, 1e-4), (0.02, 2e-4)]).unwrap();
        assert!((far - 0.08).abs() < 1e-6, "{far}");
        let near = propose(&[(0.01, 30.0)]).unwrap();
        assert!((near - 0.0025).abs() < 1e-8, "{near}");
    }

    #[test]
    fn nothing_is_proposed_from_nothing() {
        assert_eq!(propose(&[]), Err(ProbeError::Flat));
        assert_eq!(propose(&[(0.1, 0.0), (0.2, 0.0)]), Err(ProbeError::Flat));
        assert_eq!(propose(&[(0.1, 0.2), (0.2, 0.1)]), Err(ProbeError::NotGrowing));
        assert!(matches!(propose(&[(f32::NAN, 0.2)]), Err(ProbeError::BadSigma { .. })));
        let band = SpreadBand { low: 2.0, high: 1.0 };
        assert_eq!(band.propose(&[]), Err(ProbeError::BadBand { low: 2.0, high: 1.0 }));
    }
}
