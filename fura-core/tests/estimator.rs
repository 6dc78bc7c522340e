//! Properties of the estimator.

use fura_core::estimator::{
    Adam, Coordinates, EsConfig, Estimator, EstimatorError, Member, Shaping, Sign, Turn,
};
use fura_core::layout::{Layout, Linear};
use fura_core::noise::{Distribution, Noise};
use proptest::prelude::*;

/// Two linears, 1500 coordinates: more than one chunk, and a boundary inside one.
fn layout() -> Layout {
    Layout::new(32, [Linear::new("a", 8, 700), Linear::new("b", 8, 800)]).unwrap()
}

fn estimator(config: EsConfig) -> Estimator {
    Estimator::new(config, &layout()).unwrap()
}

fn run(config: EsConfig, generations: usize, reward: impl Fn(&[f32]) -> f64) -> Estimator {
    let mut es = estimator(config);
    let mut c = vec![0.0; 1500];
    for _ in 0..generations {
        let rewards: Vec<f64> = (es.ask().members())
            .map(|member| {
                es.member_coordinates(member, 0..1500, &mut c);
                reward(&c)
            })
            .collect();
        es.tell(&rewards).unwrap();
    }
    es
}

/// Distance to a point, with a sharp scale per coordinate.
fn quadratic(c: &[f32]) -> f64 {
    let off = |(i, &x): (usize, &f32)| (f64::from(x) - 0.1 * f64::from(i as u32 % 3)).powi(2);
    -c.iter().enumerate().map(off).sum::<f64>()
}

proptest! {
    #[test]
    fn the_update_is_the_documented_formula(
        seed: u64, rewards in prop::collection::vec(-1.0f64..1.0, 6), decay in 0f32..0.5,
    ) {
        let config = EsConfig { seed, pairs: 3, decay, shaping: Shaping::None, ..EsConfig::default() };
        let mut es = estimator(config.clone());
        let mut expected = vec![0.0f32; 1500];
        for t in 0..2 {
            es.tell(&rewards).unwrap();
            let noise = [0, 1, 2].map(|pair| {
                let mut e = vec![0.0; 1500];
                Noise::new(seed).fill(t, pair, 0..1500, &mut e);
                e
            });
            for (j, c) in expected.iter_mut().enumerate() {
                let sum: f64 =
                    (0..3).map(|i| (rewards[2 * i] - rewards[2 * i + 1]) * f64::from(noise[i][j])).sum();
                let step = f64::from(config.alpha) * (sum * (1.0 / 3.0));
                *c = ((1.0 - f64::from(decay)) * f64::from(*c) + step) as f32;
            }
            prop_assert_eq!(es.coordinates(), &expected[..]);
        }
    }

    #[test]
    fn twins_mirror_each_other_and_ranges_are_slices(
        seed: u64, pair in 0u32..4, start in 0usize..1500, len in 0usize..1500,
    ) {
        let es = estimator(EsConfig { seed, pairs: 4, ..EsConfig::default() });
        let end = (start + len).min(1500);
        let member = |sign, range: std::ops::Range<usize>| {
            let mut out = vec![0.0; range.len()];
            es.member_coordinates(Member { pair, sign }, range, &mut out);
            out
        };
        let plus = member(Sign::Plus, 0..1500);
        let minus: Vec<f32> = member(Sign::Minus, 0..1500).iter().map(|x| -x).collect();
        prop_assert_eq!(&plus, &minus); // about zero, the initial centre
        prop_assert_eq!(&member(Sign::Plus, start..end)[..], &plus[start..end]);
    }

    #[test]
    fn bounds_hold_under_any_finite_rewards(
        rewards in prop::collection::vec(-1e90f64..1e90, 4), alpha in 1e-3f32..1e30, bound in 0.01f32..0.99,
    ) {
        let config = EsConfig { pairs: 2, alpha, bound, sigma: 10.0, shaping: Shaping::None, momentum: 0.5, ..EsConfig::default() };
        let mut es = estimator(config);
        let mut out = vec![0.0; 1500];
        for _ in 0..3 {
            es.tell(&rewards).unwrap();
            es.member_coordinates(Member { pair: 1, sign: Sign::Minus }, 0..1500, &mut out);
            prop_assert!(es.coordinates().iter().chain(&out).all(|c| c.abs() <= bound));
        }
    }

    /// z-scores do not see the unit of reward; powers of two make that exact.
    #[test]
    fn z_scores_ignore_scale(rewards in prop::collection::vec(0.0f64..1.0, 8), exponent in -6i32..20) {
        let config = EsConfig { pairs: 4, spread_floor: 0.0, ..EsConfig::default() };
        let scaled: Vec<f64> = rewards.iter().map(|r| r * 2f64.powi(exponent)).collect();
        let (mut a, mut b) = (estimator(config.clone()), estimator(config));
        a.tell(&rewards).unwrap();
        b.tell(&scaled).unwrap();
        prop_assert_eq!(a.coordinates(), b.coordinates());
    }
}

proptest! {
    /// Scaling a linear is ascent in `c / scale`: with a power of two, the same run bit for bit, scaled.
    #[test]
    fn a_scaled_linear_is_the_unscaled_run_in_other_units(
        rewards in prop::collection::vec(-1.0f64..1.0, 8), exponent in -3i32..1, decay in 0f32..0.5,
    ) {
        let scale = 2f32.powi(exponent);
        let config = EsConfig { pairs: 4, decay, momentum: 0.5, bound: 0.99, ..EsConfig::default() };
        let mut plain = estimator(config.clone());
        let mut scaled = estimator(EsConfig { linear_scales: vec![scale, 1.0], ..config.clone() });
        let mut ones = estimator(EsConfig { linear_scales: vec![1.0, 1.0], ..config });
        let member = Member { pair: 2, sign: Sign::Minus };
        for _ in 0..3 {
            let (mut a, mut b, mut c) = (vec![0.0; 1500], vec![0.0; 1500], vec![0.0; 1500]);
            plain.member_coordinates(member, 0..1500, &mut a);
            scaled.member_coordinates(member, 0..1500, &mut b);
            ones.member_coordinates(member, 0..1500, &mut c);
            prop_assert_eq!(&a, &c);
            a[..700].iter_mut().for_each(|a| *a *= scale);
            prop_assert_eq!(a, b);
            for es in [&mut plain, &mut scaled, &mut ones] {
                es.tell(&rewards).unwrap();
            }
            prop_assert_eq!(plain.coordinates(), ones.coordinates());
            let mut expected = plain.coordinates().to_vec();
            expected[..700].iter_mut().for_each(|c| *c *= scale);
            prop_assert_eq!(&expected[..], scaled.coordinates());
        }
    }
}

#[test]
fn a_scale_of_zero_freezes_a_linear() {
    let config = EsConfig { pairs: 4, linear_scales: vec![0.0, 1.0], ..EsConfig::default() };
    let es = run(config, 3, quadratic);
    assert!(es.coordinates()[..700].iter().all(|&c| c == 0.0));
    assert!(es.coordinates()[700..].iter().all(|&c| c != 0.0));
}

#[test]
fn scales_of_another_layout_are_refused() {
    let config = EsConfig { linear_scales: vec![1.0; 3], ..EsConfig::default() };
    let error = Estimator::new(config, &layout()).unwrap_err();
    assert_eq!(error, EstimatorError::ScaleCount { found: 3, expected: 2 });
}

#[test]
fn every_shaping_learns_a_quadratic() {
    for shaping in [Shaping::ZScore, Shaping::CentredRanks, Shaping::PairSign, Shaping::None] {
        let config = EsConfig { pairs: 16, shaping, ..EsConfig::default() };
        let es = run(config, 40, quadratic);
        let (before, after) = (quadratic(&[0.0; 1500]), quadratic(es.coordinates()));
        assert!(after > before, "{shaping:?}: {before} -> {after}");
    }
}

#[test]
fn reward_is_maximised_and_negating_it_negates_the_step() {
    let config = EsConfig { pairs: 8, ..EsConfig::default() };
    let up = run(config.clone(), 1, |c| f64::from(c[0]));
    let down = run(config, 1, |c| -f64::from(c[0]));
    assert!(up.coordinates()[0] > 0.0);
    let negated: Vec<f32> = down.coordinates().iter().map(|c| -c).collect();
    assert_eq!(up.coordinates(), negated);
}

#[test]
fn flat_generations_change_nothing() {
    let config = EsConfig { pairs: 2, decay: 0.1, momentum: 0.9, ..EsConfig::default() };
    let mut es = estimator(config);
    es.tell(&[1.0, 0.0, 0.5, 0.0]).unwrap();
    let before = es.coordinates().to_vec();
    for flat in [[0.3; 4], [f64::NAN; 4], [0.5, 0.5 + 1e-7, 0.5, 0.5], [f64::INFINITY, 0.0, 1.0, f64::NAN]] {
        let report = es.tell(&flat).unwrap();
        assert!(report.flat && report.update_rms == 0.0);
        assert_eq!(es.coordinates(), before);
    }
    assert_eq!(es.ask().index, 5); // and yet the noise moves on
}

#[test]
fn a_dropped_pair_contributes_zero() {
    let config = EsConfig { pairs: 2, shaping: Shaping::PairSign, ..EsConfig::default() };
    let (mut dropped, mut tied) = (estimator(config.clone()), estimator(config));
    let report = dropped.tell(&[1.0, 0.0, f64::NAN, 7.0]).unwrap();
    tied.tell(&[1.0, 0.0, 0.5, 0.5]).unwrap();
    assert_eq!((report.dropped_pairs, report.mean, report.best), (1, 0.5, 1.0));
    assert_eq!(dropped.coordinates(), tied.coordinates());
}

#[test]
fn averaging_is_the_mean_of_the_iterates() {
    let config = EsConfig { pairs: 2, average_from: Some(1), ..EsConfig::default() };
    let mut es = estimator(config);
    let rewards = [1.0, 0.0, 0.2, 0.4];
    es.tell(&rewards).unwrap();
    assert_eq!(es.final_coordinates(), es.coordinates()); // averaging has not begun
    let mut iterates = Vec::new();
    for _ in 0..3 {
        es.tell(&rewards).unwrap();
        iterates.push(es.coordinates().to_vec());
    }
    for (j, c) in es.final_coordinates().into_iter().enumerate() {
        let sum: f64 = iterates.iter().map(|c| f64::from(c[j])).sum();
        assert_eq!(c, (sum / 3.0) as f32);
    }
}

#[test]
fn momentum_accumulates() {
    let config = |momentum| EsConfig { pairs: 1, momentum, ..EsConfig::default() };
    let (mut plain, mut heavy) = (estimator(config(0.0)), estimator(config(0.5)));
    for es in [&mut plain, &mut heavy] {
        es.tell(&[1.0, 0.0]).unwrap();
    }
    assert_eq!(plain.coordinates(), heavy.coordinates());
    for es in [&mut plain, &mut heavy] {
        es.tell(&[1.0, 0.0]).unwrap();
    }
    assert_ne!(plain.coordinates(), heavy.coordinates());
}

/// Adam as its paper states it, bias corrections by powers.
#[test]
fn adam_is_the_published_algorithm() {
    let adam = Adam { beta1: 0.75, beta2: 0.5, epsilon: 1e-3 };
    let config =
        EsConfig { seed: 2, pairs: 2, adam: Some(adam), shaping: Shaping::None, ..EsConfig::default() };
    let mut es = estimator(config.clone());
    let rewards = [[0.3, -0.4, 0.9, 0.1], [0.2, 0.8, -0.6, 0.0], [0.5; 4], [1.0, 0.0, 0.0, 0.25]];
    let (mut m, mut v, mut c, mut k) = (vec![0.0; 1500], vec![0.0; 1500], vec![0.0f32; 1500], 0);
    for (t, rewards) in (0..).zip(rewards) {
        es.tell(&rewards).unwrap();
        if rewards == [0.5; 4] {
            continue; // flat: no step, no decay of the moments
        }
        k += 1;
        let noise = [0, 1].map(|pair| {
            let mut e = vec![0.0; 1500];
            Noise::new(2).fill(t, pair, 0..1500, &mut e);
            e
        });
        for j in 0..1500 {
            let sum = |i: usize| (rewards[2 * i] - rewards[2 * i + 1]) * f64::from(noise[i][j]);
            let g: f64 = (sum(0) + sum(1)) / 2.0;
            m[j] = 0.75 * m[j] + 0.25 * g;
            v[j] = 0.5 * v[j] + 0.5 * g * g;
            let (mhat, vhat) = (m[j] / (1.0 - 0.75f64.powi(k)), v[j] / (1.0 - 0.5f64.powi(k)));
            let step = mhat / (vhat.sqrt() + f64::from(adam.epsilon));
            c[j] = (f64::from(c[j]) + f64::from(config.alpha) * step) as f32;
        }
        assert_eq!(es.coordinates(), c);
    }
}

/// Absolute coordinates are relative ones divided by the singular values, in members and in steps.
#[test]
fn absolute_coordinates_move_singular_values() {
    let s: Vec<f32> = (0..1500).map(|j| if j % 50 == 7 { 0.0 } else { 0.25 * (1 + j % 16) as f32 }).collect();
    let config = EsConfig { pairs: 2, bound: 0.99, shaping: Shaping::None, ..EsConfig::default() };
    let mut relative = estimator(config.clone());
    let config = EsConfig { coordinates: Coordinates::Absolute, ..config };
    let mut absolute = Estimator::absolute(config.clone(), &layout(), &s).unwrap();
    let rewards = [1.0, 0.25, 0.5, 0.75];
    let member = Member { pair: 1, sign: Sign::Minus };
    let (mut a, mut r) = (vec![0.0; 1500], vec![0.0; 1500]);
    for _ in 0..2 {
        absolute.member_coordinates(member, 0..1500, &mut a);
        relative.member_coordinates(member, 0..1500, &mut r);
        let same = |a: f32, r: f32, s: f32| match s {
            0.0 => a == 0.0,
            // d of 2 steps and a perturbation in f32, some divided by s before they are rounded.
            _ => (a * s - r).abs() <= 4.0 * f32::EPSILON * r.abs().max(0.1) || a.abs() == 0.99,
        };
        assert!(a.iter().zip(&r).zip(&s).all(|((&a, &r), &s)| same(a, r, s)));
        relative.tell(&rewards).unwrap();
        absolute.tell(&rewards).unwrap();
        let pairs = absolute.coordinates().iter().zip(relative.coordinates());
        assert!(pairs.zip(&s).all(|((&a, &r), &s)| same(a, r, s)));
    }
    assert!(absolute.coordinates().iter().any(|c| *c != 0.0));
    // Without singular values, or with ones that make no sense, there is no such estimator.
    let error = Estimator::new(config.clone(), &layout()).unwrap_err();
    assert!(matches!(error, EstimatorError::Units { found: "absolute", .. }), "{error}");
    let error = Estimator::absolute(EsConfig::default(), &layout(), &s).unwrap_err();
    assert!(matches!(error, EstimatorError::Units { found: "relative", .. }), "{error}");
    let error = Estimator::absolute(config.clone(), &layout(), &s[1..]).unwrap_err();
    assert_eq!(error, EstimatorError::SingularValueCount { found: 1499, expected: 1500 });
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        let mut s = s.clone();
        s[3] = bad;
        let error = Estimator::absolute(config.clone(), &layout(), &s).unwrap_err();
        assert!(matches!(error, EstimatorError::SingularValue { index: 3, .. }), "{error}");
    }
}

/// The pairs rule: steps of equal length for any population, on rewards that are all noise.
#[test]
fn with_pairs_keeps_the_length_of_a_step() {
    let length = |pairs: u32, seed: u64| {
        let config = EsConfig { seed, pairs: 4, ..EsConfig::default() }.with_pairs(pairs);
        let mut es = estimator(config);
        let rewards: Vec<f64> = (0..2 * pairs).map(|m| libm::sin(f64::from(m * m) + seed as f64)).collect();
        es.tell(&rewards).unwrap().update_rms
    };
    let mean = |pairs: u32| (0..20).map(|seed| length(pairs, seed)).sum::<f64>() / 20.0;
    let ratio = mean(64) / mean(4);
    // z-scores of independent rewards have variance 1, their differences 2: the length is alpha sqrt(2 / N). The sum
    // of 4 squared differences varies by 1/sqrt(2), its root by a third, the mean of 20 by 8 %.
    assert!((ratio - 1.0).abs() < 0.25, "{ratio}");
}

#[test]
fn rademacher_perturbations_all_have_one_length() {
    let es = estimator(EsConfig { noise: Distribution::Rademacher, ..EsConfig::default() });
    let mut c = vec![0.0; 1500];
    es.member_coordinates(Member { pair: 3, sign: Sign::Plus }, 0..1500, &mut c);
    assert!(c.iter().all(|c| c.abs() == es.config().sigma));
    let config = EsConfig { pairs: 16, noise: Distribution::Rademacher, ..EsConfig::default() };
    let trained = run(config, 40, quadratic);
    assert!(quadratic(trained.coordinates()) > quadratic(&[0.0; 1500]));
}

#[test]
fn a_wrong_number_of_rewards_changes_nothing() {
    let mut es = estimator(EsConfig { pairs: 2, ..EsConfig::default() });
    for count in [0, 3, 5] {
        let error = es.tell(&vec![1.0; count]).unwrap_err();
        assert_eq!(error, EstimatorError::RewardCount { generation: 0, found: count, expected: 4 });
    }
    assert_eq!(es.ask().index, 0);
}

#[test]
fn members_come_in_reward_order() {
    let members: Vec<_> = estimator(EsConfig { pairs: 2, ..EsConfig::default() }).ask().members().collect();
    let order = [(0, Sign::Plus), (0, Sign::Minus), (1, Sign::Plus), (1, Sign::Minus)];
    assert_eq!(members, order.map(|(pair, sign)| Member { pair, sign }));
}

/// A short run's coordinates, pinned: the same on every machine.
#[test]
fn a_run_is_pinned() {
    let config = EsConfig { seed: 9, pairs: 3, momentum: 0.5, decay: 0.01, ..EsConfig::default() };
    let es = run(config, 5, quadratic);
    let mut hash = blake3::Hasher::new();
    es.coordinates().iter().for_each(|c| {
        hash.update(&c.to_bits().to_le_bytes());
    });
    assert_eq!(
        hash.finalize().to_hex().as_str(),
        "f7356cf66775a9abcca0a067137822758a5b0fb8c3cd1666b4c535accf233c28"
    );
}

proptest! {
    /// A turn perturbs and moves its linears as if the others' scale were 0, with its own pairs and their step.
    #[test]
    fn a_turn_freezes_the_other_linears(
        rewards in prop::collection::vec(-1.0f64..1.0, 8), seed: u64, start in 0usize..1500, len in 0usize..1500,
    ) {
        let turns = vec![
            Turn { first: 0, linears: 1, pairs: 4 },
            Turn { first: 1, linears: 1, pairs: 1 },
            Turn { first: 0, linears: 2, pairs: 4 },
        ];
        let scales = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];
        let config = EsConfig { seed, pairs: 1, ..EsConfig::default() };
        let mut cycle = estimator(EsConfig { turns: turns.clone(), ..config.clone() });
        let end = (start + len).min(1500);
        for t in 0..6 {
            let turn = &turns[t % 3];
            prop_assert_eq!(cycle.linears(), turn.range());
            prop_assert_eq!(cycle.ask().pairs, turn.pairs);
            let alone = config.clone().with_pairs(turn.pairs);
            let before = cycle.coordinates().to_vec();
            let member = Member { pair: turn.pairs - 1, sign: Sign::Minus };
            let mut out = vec![0.0; end - start];
            cycle.member_coordinates(member, start..end, &mut out);
            let mut noise = vec![0.0; 1500];
            Noise::new(seed).fill(t as u32, member.pair, 0..1500, &mut noise);
            for (x, i) in out.iter().zip(start..end) {
                let scale = scales[t % 3][usize::from(i >= 700)];
                prop_assert_eq!(*x, before[i] + -alone.sigma * scale * noise[i]);
            }
            let rewards = &rewards[..2 * turn.pairs as usize];
            let report = cycle.tell(rewards).unwrap();
            let spread = report.spread;
            let (pairs, alpha) = (turn.pairs as usize, f64::from(alone.alpha));
            let noise: Vec<Vec<f32>> = (0..turn.pairs)
                .map(|pair| {
                    let mut e = vec![0.0; 1500];
                    Noise::new(seed).fill(t as u32, pair, 0..1500, &mut e);
                    e
                })
                .collect();
            for (i, (new, old)) in cycle.coordinates().iter().zip(&before).enumerate() {
                let scale = f64::from(scales[t % 3][usize::from(i >= 700)]);
                let sum: f64 = (0..pairs)
                    .map(|p| (rewards[2 * p] - rewards[2 * p + 1]) / spread * f64::from(noise[p][i]))
                    .sum();
                let expected = f64::from(*old) + alpha * scale * (sum * (1.0 / pairs as f64));
                prop_assert_eq!(*new, expected as f32);
            }
        }
    }

    /// A cycle of one turn over everything is no cycle.
    #[test]
    fn one_turn_over_all_linears_changes_nothing(
        rewards in prop::collection::vec(-1.0f64..1.0, 8), momentum in 0f32..0.9, decay in 0f32..0.5,
    ) {
        let config = EsConfig { pairs: 4, momentum, decay, ..EsConfig::default() };
        let mut plain = estimator(config.clone());
        let mut cycle =
            estimator(EsConfig { turns: vec![Turn { first: 0, linears: 2, pairs: 4 }], ..config });
        for _ in 0..3 {
            prop_assert_eq!(plain.tell(&rewards).unwrap(), cycle.tell(&rewards).unwrap());
            prop_assert_eq!(plain.coordinates(), cycle.coordinates());
        }
    }
}

#[test]
fn turns_outside_the_layout_are_refused() {
    let turns = vec![Turn { first: 1, linears: 2, pairs: 1 }];
    let error = Estimator::new(EsConfig { turns, ..EsConfig::default() }, &layout()).unwrap_err();
    assert!(matches!(error, EstimatorError::Config { field: "turns", found: 3.0, .. }), "{error}");
    let turns = vec![Turn { first: usize::MAX, linears: usize::MAX, pairs: 1 }];
    assert!(Estimator::new(EsConfig { turns, ..EsConfig::default() }, &layout()).is_err());
}

/// Linears of one shape, which a generator reseeded for each of them would perturb alike.
#[test]
fn linears_of_equal_shape_are_perturbed_differently() {
    const N: usize = 1 << 14;
    let layout = Layout::new(32, (0..3).map(|l| Linear::new(format!("blk.{l}.q"), 8, N))).unwrap();
    let es =
        Estimator::new(EsConfig { seed: 3, pairs: 2, sigma: 1e-3, ..EsConfig::default() }, &layout).unwrap();
    let mut c = vec![0.0; 3 * N];
    es.member_coordinates(Member { pair: 1, sign: Sign::Plus }, 0..3 * N, &mut c);
    let correlation = |a: &[f32], b: &[f32]| {
        let dot =
            |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let of = |l: usize| &c[l * N..][..N];
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let r = correlation(of(one), of(other));
        assert!(r.abs() < 4.0 / (N as f64).sqrt(), "{one} and {other}: {r}");
    }
}

/// Steps far below what half precision tells apart at the coordinate arrive, to a rounding of `f32`.
#[test]
fn small_steps_on_large_coordinates_are_not_lost() {
    let config = EsConfig {
        seed: 5,
        pairs: 1,
        alpha: 0.3,
        shaping: Shaping::None,
        bound: 0.99,
        ..EsConfig::default()
    };
    let mut es = estimator(config);
    es.tell(&[1.0, 0.0]).unwrap();
    let before = es.coordinates().to_vec();
    let mut e = vec![0.0; 1500];
    Noise::new(5).fill(1, 0, 0..1500, &mut e);
    es.tell(&[1e-5, 0.0]).unwrap();
    let mut large = 0;
    for ((old, new), e) in before.iter().zip(es.coordinates()).zip(&e) {
        let step = f64::from(0.3f32) * 1e-5 * f64::from(*e);
        let moved = f64::from(*new) - f64::from(*old);
        assert!(
            (moved - step).abs() <= 0.5 * f64::from(f32::EPSILON) * f64::from(new.abs()) + 1e-12,
            "{old}: {moved} {step}"
        );
        // Between 0.25 and 1 half precision has steps of 2^-12 or more.
        let lost = old.abs() > 0.25 && step.abs() < 2f64.powi(-13) && step.abs() > 1e-6;
        large += u32::from(lost && moved != 0.0);
    }
    assert!(large > 200, "{large}");
}
