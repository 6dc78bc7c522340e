//! The noise scheme: addresses, pinned values, statistics.

use fura_core::noise::{Distribution, Noise};
use fura_core::transform::Isa;
use proptest::prelude::*;

fn noise(seed: u64, generation: u32, pair: u32, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; n];
    Noise::new(seed).fill(generation, pair, 0..n, &mut out);
    out
}

fn signs(seed: u64, generation: u32, pair: u32, range: std::ops::Range<usize>) -> Vec<f32> {
    let mut out = vec![0.0; range.len()];
    Noise::with_distribution(seed, Distribution::Rademacher).fill(generation, pair, range, &mut out);
    out
}

/// Stretches of every beginning and length, beside what the tier of plain Rust makes of them.
#[test]
fn noise_is_the_same_on_every_tier() {
    for isa in Isa::available() {
        for (start, n) in [(0, 1), (0, 128), (1, 300), (2, 127), (7, 1), (129, 1000)] {
            let (mut here, mut plain) = (vec![0.0; n], vec![0.0; n]);
            Noise::new(3).on(isa).fill(2, 1, start..start + n, &mut here);
            Noise::new(3).on(Isa::scalar()).fill(2, 1, start..start + n, &mut plain);
            assert_eq!(here, plain, "{isa:?} {start} {n}");
        }
    }
}

/// The scheme written out a second time from its description, on a plain ChaCha8.
fn from_the_description(seed: u64, generation: u32, pair: u32, n: usize) -> Vec<f32> {
    let words = key_stream("fura 2026 noise v1 chacha8 box-muller", seed, generation, pair, n + 1);
    let couples = words.as_chunks::<2>().0.iter().flat_map(|&[a, b]| {
        let u = (f64::from(a) + 1.0) / 4_294_967_296.0;
        let theta = std::f64::consts::TAU * (f64::from(b) / 4_294_967_296.0);
        let r = (-2.0 * libm::log(u)).sqrt();
        [(r * libm::cos(theta)) as f32, (r * libm::sin(theta)) as f32]
    });
    couples.take(n).collect()
}

/// At least `n` words of ChaCha8, written out.
fn key_stream(context: &str, seed: u64, generation: u32, pair: u32, n: usize) -> Vec<u32> {
    let key = blake3::derive_key(context, &seed.to_le_bytes());
    let mut words = Vec::new();
    for counter in 0u64.. {
        if words.len() >= n {
            break;
        }
        let mut state = [0u32; 16];
        state[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        for (word, bytes) in state[4..12].iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        state[12] = counter as u32;
        state[13] = (counter >> 32) as u32;
        state[14] = pair;
        state[15] = generation;
        let mut x = state;
        for _ in 0..4 {
            for [a, b, c, d] in [
                [0, 4, 8, 12],
                [1, 5, 9, 13],
                [2, 6, 10, 14],
                [3, 7, 11, 15],
                [0, 5, 10, 15],
                [1, 6, 11, 12],
                [2, 7, 8, 13],
                [3, 4, 9, 14],
            ] {
                for (a, b, d, by) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                    x[a] = x[a].wrapping_add(x[b]);
                    x[d] = (x[d] ^ x[a]).rotate_left(by);
                }
            }
        }
        words.extend(x.iter().zip(&state).map(|(x, s)| x.wrapping_add(*s)));
    }
    words
}

proptest! {
    #[test]
    fn any_range_is_a_slice_of_the_whole(
        seed: u64, generation: u32, pair: u32, start in 0usize..300, len in 0usize..300,
    ) {
        let whole = noise(seed, generation, pair, 600);
        let mut part = vec![0.0; len];
        Noise::new(seed).fill(generation, pair, start..start + len, &mut part);
        prop_assert_eq!(&part[..], &whole[start..start + len]);
    }

    #[test]
    fn the_description_suffices_to_reproduce_it(
        seed: u64, generation: u32, pair: u32, n in 0usize..200,
    ) {
        prop_assert_eq!(noise(seed, generation, pair, n), from_the_description(seed, generation, pair, n));
    }
}

proptest! {
    #[test]
    fn signs_come_from_bits_and_any_range_is_a_slice(
        seed: u64, generation: u32, pair: u32, start in 0usize..200, len in 0usize..200,
    ) {
        let words = key_stream("fura 2026 noise v1 chacha8 rademacher", seed, generation, pair, 13);
        let expected = (start..start + len).map(|j| if words[j / 32] >> (j % 32) & 1 == 1 { 1.0 } else { -1.0 });
        prop_assert_eq!(signs(seed, generation, pair, start..start + len), expected.collect::<Vec<f32>>());
    }
}

#[test]
fn pinned_signs() {
    let word = signs(42, 7, 3, 0..32).iter().zip(0..).map(|(&e, j)| u32::from(e > 0.0) << j).sum::<u32>();
    assert_eq!(word, 182_036_187);
}

/// Signs are balanced, and independent of their neighbours, of other pairs, generations, seeds, linears, and of the
/// Gaussian noise of the same address; all sums of `n` independent signs, with standard deviation `sqrt(n)`.
#[test]
fn signs_are_fair_and_independent() {
    let n = 1 << 18;
    let base = signs(5, 10, 2, 0..2 * n);
    let others = [
        vec![1.0; n],
        signs(5, 10, 3, 0..n),
        signs(5, 11, 2, 0..n),
        signs(5, 2, 10, 0..n),
        signs(6, 10, 2, 0..n),
        noise(5, 10, 2, n),
        base[n..].to_vec(),
        base[1..n + 1].to_vec(),
        base[31..n + 31].to_vec(),
        base[32..n + 32].to_vec(),
    ];
    for (which, other) in others.iter().enumerate() {
        let dot: f64 = base.iter().zip(other).map(|(a, b)| f64::from(a * b)).sum();
        assert!(dot.abs() < 4.0 * (n as f64).sqrt(), "{which}: {dot}");
    }
    // Their variance and kurtosis are exactly 1.
    assert!(base.iter().all(|e| e.abs() == 1.0));
}

#[test]
fn pinned_values() {
    let bits = |seed, generation, pair| {
        noise(seed, generation, pair, 4).into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let all = [bits(0, 0, 0), bits(42, 7, 3), bits(u64::MAX, u32::MAX, u32::MAX)];
    assert_eq!(
        all,
        [
            [1062027649, 1068748695, 3225137671, 3212472881],
            [1049996314, 3215626898, 3205273762, 1055358913],
            [1066636644, 3216470238, 1044698994, 3199150888],
        ]
    );
}

#[test]
fn far_coordinates_are_addressable() {
    let start = (1usize << 26) - 3;
    let mut far = [0.0; 3];
    Noise::new(1).fill(0, 0, start..start + 3, &mut far);
    let mut one = [0.0];
    Noise::new(1).fill(0, 0, start + 1..start + 2, &mut one);
    assert_eq!(one[0], far[1]);
    assert!(far.iter().all(|e| e.is_finite() && *e != 0.0));
}

/// Sample moments of n normals: standard errors 1/sqrt(n), sqrt(2/n), sqrt(15/n), sqrt(96/n).
#[test]
fn moments_are_those_of_a_standard_normal() {
    let n = 1 << 20;
    let e = noise(11, 0, 0, n);
    let moment = |p: i32| e.iter().map(|&x| f64::from(x).powi(p)).sum::<f64>() / n as f64;
    let root = (n as f64).sqrt();
    assert!(moment(1).abs() < 4.0 / root);
    assert!((moment(2) - 1.0).abs() < 4.0 * 2f64.sqrt() / root);
    assert!(moment(3).abs() < 4.0 * 15f64.sqrt() / root);
    assert!((moment(4) - 3.0).abs() < 4.0 * 96f64.sqrt() / root);
}

/// Kolmogorov-Smirnov: sqrt(n) D exceeds 1.95 with probability 0.001.
#[test]
fn the_distribution_is_normal() {
    let n = 1 << 18;
    let mut e = noise(12, 3, 1, n);
    e.sort_by(f32::total_cmp);
    let cdf = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    let distance = (e.iter().enumerate())
        .map(|(i, &x)| {
            let at = cdf(f64::from(x));
            (at - i as f64 / n as f64).abs().max(((i + 1) as f64 / n as f64 - at).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance * (n as f64).sqrt() < 1.95, "{distance}");
}

/// Linears of equal shape, pairs, generations and seeds share nothing, at any small shift.
#[test]
fn streams_are_uncorrelated() {
    let n = 1 << 16;
    let base = noise(5, 10, 2, 2 * n);
    let others = [
        noise(5, 10, 3, n),
        noise(5, 11, 2, n),
        noise(5, 2, 10, n),
        noise(6, 10, 2, n),
        base[n..].to_vec(),
        base[1..n + 1].to_vec(),
        base[2..n + 2].to_vec(),
        base[16..n + 16].to_vec(),
    ];
    for (which, other) in others.iter().enumerate() {
        let dot: f64 = base.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        let squares: f64 = base.iter().zip(other).map(|(a, b)| f64::from(a * a) * f64::from(b * b)).sum();
        // The two members of a couple share a radius, so energies must not correlate either.
        assert!((dot / n as f64).abs() < 4.0 / (n as f64).sqrt(), "{which}: {dot}");
        let energy = squares / n as f64 - 1.0;
        assert!(energy.abs() < 4.0 * 8f64.sqrt() / (n as f64).sqrt(), "{which}: {energy}");
    }
}

/// Two samples, ours and that of an independent generator (ziggurat), cannot be told apart by the two-sample
/// Kolmogorov-Smirnov statistic: above 1.95 sqrt(2 / n) one would reject with probability 0.001.
#[test]
fn agrees_in_distribution_with_rand_distr() {
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    let n = 50_000;
    let mut ours = noise(3, 1, 2, n);
    let mut rng = rand::rngs::ChaCha8Rng::seed_from_u64(5);
    let mut theirs: Vec<f32> = (0..n).map(|_| StandardNormal.sample(&mut rng)).collect();
    ours.sort_by(f32::total_cmp);
    theirs.sort_by(f32::total_cmp);
    let (mut i, mut j, mut largest) = (0, 0, 0.0f64);
    while i < n && j < n {
        if ours[i] <= theirs[j] {
            i += 1;
        } else {
            j += 1;
        }
        largest = largest.max((i as f64 - j as f64).abs() / n as f64);
    }
    assert!(largest < 1.95 * (2.0 / n as f64).sqrt(), "{largest}");
}
