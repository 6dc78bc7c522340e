//! Integer codes: QES against a plain second implementation, and what its residual conserves.

use fura_core::estimator::{EstimatorError, Member, Sign};
use fura_core::layout::Linear;
use fura_core::space::{Codes, CodesError, Population, Qes, QesConfig, Residual};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};

const SIZES: [(usize, usize); 2] = [(5, 12), (4, 7)];

/// 4-bit codes around the middle, or at the ends of their range.
fn tensors(at_ends: bool) -> Vec<Codes> {
    let tensor = |l: usize, (d_out, d_in): (usize, usize)| {
        let groups = d_out * d_in.div_ceil(5);
        let code = |i: usize| match (at_ends, i % 3) {
            (true, 0) => 0,
            (true, _) => 15,
            (false, k) => 7 + k as u8,
        };
        let codes = (0..d_out * d_in).map(code).collect();
        let scales = (0..groups).map(|g| 0.01 * (g + 1) as f32).collect();
        let minima = (0..groups).map(|g| -0.08 * (g + 1) as f32).collect();
        Codes::new(Linear::new(format!("l{l}"), d_out, d_in), 4, 5, codes, scales, minima).unwrap()
    };
    SIZES.into_iter().enumerate().map(|(l, size)| tensor(l, size)).collect()
}

fn config(residual: Residual) -> QesConfig {
    QesConfig { seed: 7, pairs: 4, sigma: 0.6, alpha: 0.2, gamma: 0.9, residual }
}

fn codes(qes: &Qes) -> Vec<u8> {
    qes.tensors().iter().flat_map(|t| t.codes()).copied().collect()
}

/// Rewards of a generation, eight of them, any.
fn rewards(t: u32) -> Vec<f64> {
    (0..8).map(|m| libm::sin(f64::from(t * 8 + m) * 1.9)).collect()
}

/// The pair's perturbation of all codes, from the description: rounded Gaussians.
fn deltas(config: &QesConfig, t: u32, pair: u32, n: usize) -> Vec<f64> {
    let mut e = vec![0.0; n];
    fura_core::noise::Noise::new(config.seed).fill(t, pair, 0..n, &mut e);
    let key = blake3::derive_key("fura 2026 noise v1 chacha8 qes rounding", &config.seed.to_le_bytes());
    let mut rng = rand::rngs::ChaCha8Rng::from_seed(key);
    rng.set_stream(u64::from(t) << 32 | u64::from(pair));
    e.iter()
        .map(|&e| {
            let u = config.sigma * e;
            let up = f64::from(rng.next_u32()) / 2f64.powi(32) < f64::from(u - u.floor());
            (f64::from(u.floor()) + f64::from(u8::from(up))).clamp(-15.0, 15.0)
        })
        .collect()
}

fn phase(config: &QesConfig, n: usize) -> Vec<f64> {
    let key = blake3::derive_key("fura 2026 noise v1 chacha8 qes phase", &config.seed.to_le_bytes());
    let mut rng = rand::rngs::ChaCha8Rng::from_seed(key);
    (0..n).map(|_| f64::from(rng.next_u32() >> 8) / 2f64.powi(24) - 0.5).collect()
}

/// The algorithm written out plainly, everything stored; returns codes and residuals after the rewards.
fn plainly(config: &QesConfig, first: &[u8], all: &[Vec<f64>]) -> (Vec<u8>, Vec<f32>) {
    let n = first.len();
    let mut q: Vec<f64> = first.iter().map(|&q| q.into()).collect();
    let inside = |x: f64| (0.0..=15.0).contains(&x);
    let mut residual: Vec<f32> = phase(config, n).iter().map(|&e| e as f32).collect();
    let mut history: Vec<(u32, Vec<f64>)> = Vec::new();
    for (t, rewards) in (0..).zip(all) {
        let differences: Vec<f64> = rewards.chunks(2).map(|r| r[0] - r[1]).collect();
        let mean = differences.iter().sum::<f64>() / 4.0;
        let deviation = (differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 4.0).sqrt();
        let z: Vec<f64> = differences.iter().map(|d| ((d - mean) / deviation).clamp(-3.0, 3.0)).collect();
        let one_step = |q: &[f64], t: u32, z: &[f64], e: &[f32]| -> (Vec<f64>, Vec<f32>) {
            let mut g = vec![0.0; n];
            for (pair, z) in (0..).zip(z) {
                for (j, d) in deltas(config, t, pair, n).into_iter().enumerate() {
                    // Two seeds, +s with z and -s with -z, each gated on its own.
                    let plus = if inside(q[j] + d) { d } else { 0.0 };
                    let minus = if inside(q[j] - d) { -d } else { 0.0 };
                    g[j] += z * (plus - minus);
                }
            }
            let mut whole = vec![0.0; n];
            let mut left = vec![0.0; n];
            for j in 0..n {
                let g = g[j] / f64::from(config.sigma);
                let step = (f64::from(config.alpha) * g + f64::from(config.gamma) * f64::from(e[j])) as f32;
                let rounded = f64::from(step).round_ties_even();
                whole[j] = if inside(q[j] + rounded) { rounded } else { 0.0 };
                left[j] = (step - whole[j] as f32).clamp(-1.5, 1.5);
            }
            (whole, left)
        };
        let previous = match config.residual {
            Residual::Replayed { .. } if t > 0 => {
                let mut e = vec![0.0; n];
                for (t, z) in &history {
                    e = one_step(&q, *t, z, &e).1;
                }
                e
            }
            _ => residual.clone(),
        };
        let (whole, left) = one_step(&q, t, &z, &previous);
        q.iter_mut().zip(whole).for_each(|(q, d)| *q += d);
        residual = left;
        history.push((t, z));
        if let Residual::Replayed { window } = config.residual
            && history.len() > window as usize
        {
            history.remove(0);
        }
    }
    (q.into_iter().map(|q| q as u8).collect(), residual)
}

#[test]
fn both_variants_are_the_plain_algorithm() {
    for residual in [Residual::Stored, Residual::Replayed { window: 50 }, Residual::Replayed { window: 2 }] {
        for at_ends in [false, true] {
            let config = config(residual);
            let mut qes = Qes::new(config, tensors(at_ends)).unwrap();
            let first = codes(&qes);
            let all: Vec<Vec<f64>> = (0..8).map(rewards).collect();
            for rewards in &all {
                qes.tell(rewards).unwrap();
            }
            let (expected, left) = plainly(&config, &first, &all);
            assert_eq!(codes(&qes), expected, "{residual:?}");
            assert_ne!(codes(&qes), first, "{residual:?}");
            if residual == Residual::Stored {
                let found: Vec<f32> = (0..2).flat_map(|l| qes.residual(l).unwrap()).copied().collect();
                assert_eq!(found, left);
            }
        }
    }
}

/// With nothing forgotten (gamma 1) and no code at its end, the steps applied and the residual that is left add up
/// to all updates and the first phase.
#[test]
fn applied_steps_and_residual_are_the_accumulated_update() {
    let config = QesConfig { gamma: 1.0, alpha: 0.05, ..config(Residual::Stored) };
    let mut qes = Qes::new(config, tensors(false)).unwrap();
    let first = codes(&qes);
    let n = first.len();
    let mut accumulated = phase(&config, n);
    let generations = 12u32;
    let (mut largest, mut moved) = (0.0f64, false);
    for t in 0..generations {
        let rewards = rewards(t);
        let differences: Vec<f64> = rewards.chunks(2).map(|r| r[0] - r[1]).collect();
        let mean = differences.iter().sum::<f64>() / 4.0;
        let deviation = (differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 4.0).sqrt();
        for (pair, difference) in (0..).zip(&differences) {
            let z = ((difference - mean) / deviation).clamp(-3.0, 3.0);
            for (sum, d) in accumulated.iter_mut().zip(deltas(&config, t, pair, n)) {
                // No gate closes: codes stay within 4..=11 here and perturbations within 4.
                *sum += f64::from(config.alpha) * z * 2.0 * d / f64::from(config.sigma);
            }
        }
        largest = accumulated.iter().fold(largest, |m, x| m.max(x.abs()));
        qes.tell(&rewards).unwrap();
        let all = codes(&qes);
        moved |= all != first;
        assert!(all.iter().all(|q| (4..=11).contains(q)), "the premise");
    }
    assert!(moved && largest > 0.5);
    let residual: Vec<f64> = (0..2).flat_map(|l| qes.residual(l).unwrap()).map(|&e| e.into()).collect();
    // One rounding to f32 a generation, of numbers below 4.
    let tolerance = f64::from(generations) * 4.0 * f64::from(f32::EPSILON);
    for j in 0..n {
        let applied = f64::from(codes(&qes)[j]) - f64::from(first[j]);
        assert!((applied + residual[j] - accumulated[j]).abs() < tolerance, "code {j}");
    }
}

#[test]
fn replay_from_seeds_gives_the_same_codes() {
    let run = |generations: std::ops::Range<u32>, mut qes: Qes| {
        generations.for_each(|t| {
            qes.tell(&rewards(t)).unwrap();
        });
        qes
    };
    let new = || Qes::new(config(Residual::Replayed { window: 3 }), tensors(true)).unwrap();
    let whole = run(0..10, new());
    assert_eq!(codes(&whole), codes(&run(0..10, new())));
    // A copy made half way is the run: nothing but what it holds is needed.
    let half = run(0..5, new());
    assert_eq!(codes(&whole), codes(&run(5..10, half.clone())));
    assert_ne!(codes(&whole), codes(&half));
}

#[test]
fn a_member_is_its_gated_codes_dequantized() {
    let qes = Qes::new(config(Residual::Stored), tensors(true)).unwrap();
    let (d_out, d_in) = SIZES[1];
    let offset = SIZES[0].0 * SIZES[0].1;
    let perturbation = &deltas(qes.config(), 0, 2, offset + d_out * d_in)[offset..];
    let tensor = &qes.tensors()[1];
    let mut changed = false;
    for (sign, factor) in [(Some(Sign::Plus), 1.0), (Some(Sign::Minus), -1.0), (None, 0.0)] {
        let member = sign.map(|sign| Member { pair: 2, sign });
        let mut w = vec![9.0; d_out * d_in];
        qes.perturb(member, 1, 0..d_out, &mut w, &mut Vec::new());
        for (j, w) in w.iter().enumerate() {
            let group = j / d_in * 2 + j % d_in / 5;
            let q = f64::from(tensor.codes()[j]);
            let moved = q + factor * perturbation[j];
            let q = if (0.0..=15.0).contains(&moved) { moved } else { q };
            changed |= sign.is_some() && q == moved && perturbation[j] != 0.0;
            let (scale, minimum) = (0.01 * (group + 1) as f32, -0.08 * (group + 1) as f32);
            assert_eq!(*w, scale * q as f32 + minimum);
        }
    }
    assert!(changed);
}

/// Rounding is unbiased: whole numbers whose mean is that of the Gaussian.
#[test]
fn rounded_perturbations_keep_their_mean_and_the_published_variance() {
    let config = QesConfig { sigma: 0.01, ..config(Residual::Stored) };
    let n = 1 << 18;
    let d = deltas(&config, 0, 0, n);
    let mean = d.iter().sum::<f64>() / n as f64;
    let variance = d.iter().map(|d| d * d).sum::<f64>() / n as f64;
    // Almost all are 0, the others +-1: the variance is E|sigma e| = 0.798 sigma.
    let expected = 0.01 * (2.0 / std::f64::consts::PI).sqrt();
    let error = (expected / n as f64).sqrt();
    assert!(mean.abs() < 4.0 * error, "{mean}");
    assert!((variance - expected).abs() < 4.0 * error, "{variance} for {expected}");
}

#[test]
fn faults_drop_both_twins_and_flat_generations_change_nothing() {
    let new = || Qes::new(config(Residual::Stored), tensors(false)).unwrap();
    let (mut qes, first) = (new(), codes(&new()));
    for flat in [[0.5; 8], [f64::NAN; 8], [1.0, 0.0, 1.0, 0.0, 3.0, 2.0, 0.0, -1.0]] {
        let summary = qes.tell(&flat).unwrap();
        assert!(summary.flat);
        assert_eq!(codes(&qes), first);
    }
    assert_eq!(qes.ask().index, 3);
    let faulty = [1.0, 0.0, 0.2, f64::NAN, 0.0, 3.0, 0.5, 0.25];
    let summary = qes.tell(&faulty).unwrap();
    assert_eq!((summary.dropped_pairs, summary.flat, summary.best), (1, false, 3.0));
    // The twin of a fault has no influence.
    let mut other = new();
    for _ in 0..3 {
        other.tell(&[0.5; 8]).unwrap();
    }
    let mut changed = faulty;
    changed[2] = 100.0;
    other.tell(&changed).unwrap();
    assert_eq!(qes.residual(0), other.residual(0));
    assert!(matches!(qes.tell(&[0.0; 7]), Err(EstimatorError::RewardCount { found: 7, expected: 8, .. })));
}

#[test]
fn what_does_not_fit_is_refused() {
    let codes = |bits, group, codes: Vec<u8>, scales: usize| {
        Codes::new(Linear::new("l", 1, 4), bits, group, codes, vec![1.0; scales], vec![0.0; scales])
    };
    assert!(codes(4, 3, vec![15; 4], 2).is_ok());
    assert!(matches!(codes(9, 3, vec![0; 4], 2), Err(CodesError::Format { .. })));
    assert!(matches!(codes(4, 0, vec![0; 4], 2), Err(CodesError::Format { .. })));
    assert!(matches!(codes(4, 3, vec![0; 3], 2), Err(CodesError::Length { what: "codes", .. })));
    assert!(matches!(codes(4, 3, vec![0; 4], 1), Err(CodesError::Length { what: "scales", .. })));
    let range = codes(3, 3, vec![7, 8, 0, 0], 2).unwrap_err();
    assert!(matches!(range, CodesError::Range { index: 1, found: 8, largest: 7, .. }));
    for (field, bad) in [
        ("pairs", QesConfig { pairs: 1, ..QesConfig::default() }),
        ("sigma", QesConfig { sigma: 0.0, ..QesConfig::default() }),
        ("alpha", QesConfig { alpha: f32::NAN, ..QesConfig::default() }),
        ("gamma", QesConfig { gamma: 1.5, ..QesConfig::default() }),
        ("residual.window", QesConfig { residual: Residual::Replayed { window: 0 }, ..QesConfig::default() }),
    ] {
        match Qes::new(bad, Vec::new()) {
            Err(EstimatorError::Config { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn codes_stay_codes(
        seed: u64, sigma in 0.01f32..50.0, alpha in 1e-3f32..50.0, gamma in 0f32..=1.0,
        all in prop::collection::vec(prop::collection::vec(-1e3f64..1e3, 8), 1..5), window in 0u32..4,
    ) {
        let residual = if window == 0 { Residual::Stored } else { Residual::Replayed { window } };
        let config = QesConfig { seed, pairs: 4, sigma, alpha, gamma, residual };
        let mut qes = Qes::new(config, tensors(true)).unwrap();
        for rewards in &all {
            qes.tell(rewards).unwrap();
            prop_assert!(codes(&qes).iter().all(|&q| q <= 15));
            if let Some(e) = qes.residual(0) {
                prop_assert!(e.iter().all(|e| e.abs() <= 1.5));
            }
        }
    }
}
