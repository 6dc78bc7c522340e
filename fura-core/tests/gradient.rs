//! What the estimator estimates: gradients, with the error that theory predicts.
//!
//! With `N` Gaussian pairs in `d` dimensions and rewards whose antithetic differences are linear in the
//! perturbation (linear and quadratic functions), the estimate is `g_hat = (1/N) sum_i e_i e_i^T g` up to a
//! factor. Write `S = sum_i (e_i . g/|g|)^2`, a chi-squared variable with `N` degrees of freedom; orthogonally to
//! `g` the estimate is `sqrt(S)` times a standard normal vector, whose squared length `Q` has `d - 1` degrees of
//! freedom. So `cos^2 = S / (S + Q)` is Beta(N/2, (d-1)/2), and the mean cosine is
//! `Gamma((N+1)/2) Gamma((N+d-1)/2) / (Gamma(N/2) Gamma((N+d)/2))`, close to `sqrt(N/d)`.

use fura_core::estimator::{EsConfig, Estimator, Member, Shaping, Sign};
use fura_core::noise::Distribution;
use proptest::prelude::*;

/// Raw differences, so small a step that nothing is clamped.
fn config(seed: u64, pairs: u32) -> EsConfig {
    EsConfig { seed, pairs, alpha: 1e-3, shaping: Shaping::None, ..EsConfig::default() }
}

/// The first step from zero.
fn step(config: EsConfig, d: usize, reward: impl Fn(&[f32]) -> f64) -> Vec<f64> {
    let mut es = Estimator::over(config, &[d]).unwrap();
    let mut c = vec![0.0; d];
    let rewards: Vec<f64> = (es.ask().members())
        .map(|member| {
            es.member_coordinates(member, 0..d, &mut c);
            reward(&c)
        })
        .collect();
    es.tell(&rewards).unwrap();
    es.coordinates().iter().map(|&c| c.into()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// A quadratic with curvatures over four decades and a rank-one term that couples all coordinates, its maximum
/// away from zero.
struct Quadratic {
    curvature: Vec<f64>,
    coupling: Vec<f64>,
    maximum: Vec<f64>,
}

impl Quadratic {
    fn new(d: usize) -> Self {
        let wave = |k: f64| (0..d).map(|i| libm::sin(k * (i + 1) as f64)).collect::<Vec<f64>>();
        Self {
            curvature: (0..d).map(|i| libm::pow(10.0, -4.0 * i as f64 / d as f64)).collect(),
            coupling: wave(1.7),
            maximum: wave(0.9),
        }
    }

    fn value(&self, c: &[f32]) -> f64 {
        let off: Vec<f64> = c.iter().zip(&self.maximum).map(|(&c, m)| f64::from(c) - m).collect();
        let own: f64 = off.iter().zip(&self.curvature).map(|(x, h)| h * x * x).sum();
        -0.5 * (own + dot(&off, &self.coupling).powi(2))
    }

    fn gradient_at_zero(&self) -> Vec<f64> {
        let along = dot(&self.maximum, &self.coupling);
        let terms = self.curvature.iter().zip(&self.coupling).zip(&self.maximum);
        terms.map(|((h, u), m)| h * m + u * along).collect()
    }
}

fn mean_cosine(n: f64, d: f64) -> f64 {
    let ln = libm::lgamma((n + 1.0) / 2.0) + libm::lgamma((n + d - 1.0) / 2.0)
        - libm::lgamma(n / 2.0)
        - libm::lgamma((n + d) / 2.0);
    libm::exp(ln)
}

#[test]
fn the_cosine_with_a_quadratics_gradient_is_the_predicted_one() {
    for (d, pairs, runs) in [(1500usize, 16u32, 120u64), (1500, 64, 40), (200, 8, 300)] {
        let quadratic = Quadratic::new(d);
        let gradient = quadratic.gradient_at_zero();
        let cosines: Vec<f64> = (0..runs)
            .map(|seed| cosine(&step(config(seed, pairs), d, |c| quadratic.value(c)), &gradient))
            .collect();
        let (n, d) = (f64::from(pairs), d as f64);
        let mean = cosines.iter().sum::<f64>() / runs as f64;
        // E cos^2 = N / (N + d - 1), so the variance of one cosine is known too.
        let expected = mean_cosine(n, d);
        let error = ((n / (n + d - 1.0) - expected * expected) / runs as f64).sqrt();
        assert!((mean - expected).abs() < 4.0 * error, "N={n} d={d}: {mean}, expected {expected} +- {error}");
        // The rule of thumb sqrt(N/d) is this mean to first order in 1/N and N/d.
        let rule = (n / d).sqrt();
        assert!((expected / rule - 1.0).abs() < 1.0 / (4.0 * n) + n / (2.0 * d) + 0.01);
    }
}

/// Over many generations the estimates of a linear function's gradient average to it: the squared z-scores of all
/// coordinates add up to a chi-squared variable with `d` degrees of freedom (variance `2 d`).
#[test]
fn linear_functions_are_estimated_without_bias() {
    for noise in [Distribution::Gaussian, Distribution::Rademacher] {
        let (d, pairs, runs) = (300usize, 4u32, 400u64);
        let gradient: Vec<f64> = (0..d).map(|i| libm::sin(i as f64 + 0.5)).collect();
        let linear = |c: &[f32]| c.iter().zip(&gradient).map(|(&c, g)| f64::from(c) * g).sum::<f64>();
        let (mut sum, mut squares) = (vec![0.0; d], vec![0.0; d]);
        for seed in 0..runs {
            let config = EsConfig { noise, ..config(seed, pairs) };
            // Differences are 2 sigma e . g, the step alpha / N times their sum over pairs.
            let unit = 2.0 * f64::from(config.sigma) * f64::from(config.alpha);
            for (j, step) in step(config, d, linear).into_iter().enumerate() {
                sum[j] += step / unit;
                squares[j] += (step / unit) * (step / unit);
            }
        }
        let count = runs as f64;
        let chi: f64 = (0..d)
            .map(|j| {
                let mean = sum[j] / count;
                let variance = (squares[j] / count - mean * mean) / (count - 1.0);
                (mean - gradient[j]).powi(2) / variance
            })
            .sum();
        let d = d as f64;
        assert!((chi - d).abs() < 5.0 * (2.0 * d).sqrt(), "{noise:?}: {chi} for {d}");
    }
}

/// There is no smoothing bias either: on a linear function the estimate does not depend on sigma at all. Powers of
/// two make that exact.
#[test]
fn a_linear_functions_estimate_does_not_depend_on_sigma() {
    let d = 64;
    // Whole weights and coordinates of few bits keep every sum exact.
    let linear =
        |c: &[f32]| c.iter().zip(0..).map(|(&c, i)| f64::from(c) * f64::from(i % 5 - 2)).sum::<f64>();
    let with = |sigma: f32| {
        let noise = Distribution::Rademacher;
        step(EsConfig { sigma, noise, alpha: 2f32.powi(-10), ..config(3, 4) }, d, linear)
    };
    let (small, large) = (with(2f32.powi(-8)), with(2f32.powi(-3)));
    assert!(small.iter().any(|&x| x != 0.0));
    let scaled: Vec<f64> = small.iter().map(|x| 32.0 * x).collect();
    assert_eq!(scaled, large);
}

/// Even parts of the reward cancel exactly between twins.
#[test]
fn curvature_does_not_enter_the_estimate() {
    let d = 64;
    let odd = |c: &[f32]| c.iter().zip(0..).map(|(&c, i)| f64::from(c) * f64::from(i % 5 - 2)).sum::<f64>();
    let even = |c: &[f32]| odd(c) + 3.0 * c.iter().map(|&c| f64::from(c) * f64::from(c)).sum::<f64>();
    let config = EsConfig { sigma: 0.125, noise: Distribution::Rademacher, ..config(5, 4) };
    assert_eq!(step(config.clone(), d, odd), step(config, d, even));
}

proptest! {
    /// Rewards on a grid, so that adding a constant and taking means round nothing: no shaping sees it, to the bit.
    #[test]
    fn a_constant_added_to_all_rewards_changes_nothing(
        rewards in prop::collection::vec(-1000i32..1000, 8), constant in -100_000i32..100_000,
    ) {
        for shaping in [Shaping::ZScore, Shaping::CentredRanks, Shaping::PairSign, Shaping::None] {
            let run = |add: i32| {
                let config = EsConfig { pairs: 4, shaping, ..EsConfig::default() };
                let mut es = Estimator::over(config, &[50]).unwrap();
                let rewards: Vec<f64> = rewards.iter().map(|r| f64::from(r + add) / 1024.0).collect();
                es.tell(&rewards).unwrap();
                es.coordinates().to_vec()
            };
            prop_assert_eq!(run(0), run(constant), "{:?}", shaping);
        }
    }

    /// Twins are `c + x` and `c - x` with the same `x`, bit for bit; about zero they differ in their sign bits only.
    #[test]
    fn twins_differ_in_sign_only(seed: u64, pair in 0u32..4, told: bool) {
        for noise in [Distribution::Gaussian, Distribution::Rademacher] {
            let config = EsConfig { seed, pairs: 4, noise, ..EsConfig::default() };
            let sigma = config.sigma;
            let mut es = Estimator::over(config, &[700, 800]).unwrap();
            if told {
                es.tell(&[1.0, 0.0, 0.2, 0.1, 0.3, 0.7, 0.0, 0.0]).unwrap();
            }
            let twin = |sign| {
                let mut out = vec![0.0; 1500];
                es.member_coordinates(Member { pair, sign }, 0..1500, &mut out);
                out
            };
            let mut e = vec![0.0; 1500];
            fura_core::noise::Noise::with_distribution(seed, noise).fill(u32::from(told), pair, 0..1500, &mut e);
            for (((plus, minus), e), c) in
                twin(Sign::Plus).into_iter().zip(twin(Sign::Minus)).zip(e).zip(es.coordinates())
            {
                let x = sigma * e;
                prop_assert_eq!((plus.to_bits(), minus.to_bits()), ((c + x).to_bits(), (c - x).to_bits()));
                prop_assert!(told || plus.to_bits() == minus.to_bits() ^ 1 << 31);
            }
        }
    }
}
