use super::*;

fn logits(n: usize, salt: u64) -> Vec<f32> {
    (0..n as u64).map(|i| (uniform(salt, i) * 16.0 - 8.0) as f32).collect()
}

fn candidates(logits: &[f32]) -> impl Iterator<Item = (u32, f32)> {
    (0..).zip(logits.iter().copied())
}

fn kept(sampling: &Sampling, logits: &[f32]) -> Vec<u32> {
    let mut sampler = Sampler::default();
    sampler.choose(Isa::detect(), sampling, 0, candidates(logits));
    let mut tokens: Vec<u32> = sampler.candidates.iter().map(|c| c.token).collect();
    tokens.sort_unstable();
    tokens
}

/// The same rules, one after the other in f64 on whole sorted lists, as their papers state them.
fn plain(sampling: &Sampling, logits: &[f32]) -> Vec<u32> {
    let softmax = |list: &mut Vec<(u32, f64, f64)>| {
        let top = list.iter().map(|c| c.1).fold(f64::MIN, f64::max);
        let sum: f64 = list.iter().map(|c| (c.1 - top).exp()).sum();
        list.iter_mut().for_each(|c| c.2 = (c.1 - top).exp() / sum);
    };
    let temperature = f64::from(sampling.temperature);
    let mut list: Vec<(u32, f64, f64)> =
        (0..).zip(logits).map(|(i, l)| (i, f64::from(*l) / temperature, 0.0)).collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    if sampling.top_k > 0 {
        list.truncate(sampling.top_k);
    }
    softmax(&mut list);
    let mut before = 0.0;
    let mut n = 0;
    for c in &list {
        if n > 0 && sampling.top_p < 1.0 && before >= f64::from(sampling.top_p) {
            break;
        }
        before += c.2;
        n += 1;
    }
    list.truncate(n);
    softmax(&mut list);
    let top = list[0].2;
    list.retain(|c| c.2 >= f64::from(sampling.min_p) * top);
    let mut tokens: Vec<u32> = list.iter().map(|c| c.0).collect();
    tokens.sort_unstable();
    tokens
}

#[test]
fn what_is_kept_is_what_the_rules_say() {
    let mut sizes = std::collections::BTreeSet::new();
    for salt in 0..12 {
        let logits = logits(500, salt);
        for temperature in [0.3, 1.0, 2.5] {
            for top_k in [0, 1, 7, 499, 500, 1000] {
                for top_p in [0.0, 0.25, 0.9, 1.0] {
                    for min_p in [0.0, 0.1, 0.7] {
                        let s = Sampling { temperature, top_k, top_p, min_p, seed: 3 };
                        let got = kept(&s, &logits);
                        assert_eq!(got, plain(&s, &logits), "{s:?}");
                        sizes.insert(got.len());
                    }
                }
            }
        }
    }
    assert!(sizes.contains(&1) && sizes.contains(&7) && sizes.contains(&500) && sizes.len() > 40);
}

#[test]
fn draws_have_the_distribution_they_should() {
    let logits = [0.0f32, 1.0, 2.0, -1.0, 0.5, 1.5];
    let (temperature, n) = (0.8f32, 40_000u64);
    let s = Sampling { temperature, seed: 11, ..Sampling::default() };
    let mut sampler = Sampler::default();
    let mut counts = [0u64; 6];
    for step in 0..n {
        let token = sampler.choose(Isa::detect(), &s, step, candidates(&logits)).unwrap();
        counts[token as usize] += 1;
    }
    let weights = logits.map(|l| (f64::from(l) / f64::from(temperature)).exp());
    let sum: f64 = weights.iter().sum();
    let chi: f64 = weights
        .iter()
        .zip(counts)
        .map(|(w, c)| {
            let expected = w / sum * n as f64;
            (c as f64 - expected).powi(2) / expected
        })
        .sum();
    // Five degrees of freedom: 0.1 % of fair draws are beyond 20.5.
    assert!(chi < 20.5, "{chi}, {counts:?}");
    // A wrong temperature would show by far.
    let flat = n as f64 / 6.0;
    assert!(counts.iter().map(|c| (*c as f64 - flat).powi(2) / flat).sum::<f64>() > 1000.0);
}

#[test]
fn numbers_are_uniform_and_neither_seeds_nor_steps_share_them() {
    let mut bins = [0u32; 64];
    let mut seen = std::collections::HashSet::new();
    for seed in 0..20 {
        for step in 0..1000 {
            let u = uniform(seed, step);
            assert!((0.0..1.0).contains(&u));
            bins[(u * 64.0) as usize] += 1;
            assert!(seen.insert(u.to_bits()));
        }
    }
    let expected = 20_000.0 / 64.0;
    let chi: f64 = bins.iter().map(|b| (f64::from(*b) - expected).powi(2) / expected).sum();
    // 63 degrees of freedom: 0.1 % are beyond 103.4.
    assert!(chi < 103.4, "{chi}");
}

#[test]
fn one_candidate_is_the_greedy_choice_whatever_says_so() {
    let isa = Isa::detect();
    let mut sampler = Sampler::default();
    for salt in 0..50 {
        let mut logits = logits(300, salt);
        // Ties, and a rival one step away that a softmax in f32 cannot tell from the best.
        logits[200] = 9.0;
        logits[100] = if salt % 2 == 0 { 9.0 } else { 9.0f32.next_down() };
        let greedy = sampler.choose(isa, &Sampling::default(), salt, candidates(&logits));
        assert_eq!(greedy, Some(if salt % 2 == 0 { 100 } else { 200 }));
        let hot = Sampling { temperature: 5.0, seed: salt, ..Sampling::default() };
        for s in [
            Sampling { top_k: 1, ..hot },
            Sampling { top_p: 0.0, ..hot },
            Sampling { temperature: 1e-37, top_k: 1, ..hot },
        ] {
            assert_eq!(sampler.choose(isa, &s, salt, candidates(&logits)), greedy, "{s:?}");
        }
    }
}

#[test]
fn strange_logits_and_settings_give_a_candidate_or_an_error() {
    let isa = Isa::detect();
    let mut sampler = Sampler::default();
    let hot = Sampling { temperature: 1.0, ..Sampling::default() };
    for s in [Sampling::default(), hot, Sampling { top_p: 0.5, min_p: 1.0, ..hot }] {
        assert_eq!(sampler.choose(isa, &s, 0, std::iter::empty()), None);
        assert_eq!(sampler.choose(isa, &s, 0, candidates(&[f32::NAN; 3])), None);
        assert_eq!(sampler.choose(isa, &s, 0, candidates(&[f32::NAN, f32::NEG_INFINITY])), Some(1));
        assert_eq!(sampler.choose(isa, &s, 0, candidates(&[1.0, f32::INFINITY, f32::NAN])), Some(1));
        assert_eq!(sampler.choose(isa, &s, 0, [(7, 0.0)].into_iter()), Some(7));
    }
    for bad in [f32::NAN, f32::INFINITY, -0.1] {
        assert!(Sampling { temperature: bad, ..hot }.check().is_err());
        assert!(Sampling { top_p: bad, ..hot }.check().is_err());
        assert!(Sampling { min_p: bad, ..hot }.check().is_err());
    }
    assert!(Sampling { top_p: 1.1, ..hot }.check().unwrap_err().to_string().contains("top_p"));
    assert!(hot.check().is_ok());
}

#[test]
fn every_instruction_set_chooses_the_same() {
    let logits = logits(4096, 5);
    let mut sampler = Sampler::default();
    for (top_k, top_p, min_p) in [(0, 1.0, 0.0), (40, 0.95, 0.0), (0, 0.9, 0.05), (0, 1.0, 0.01)] {
        let s = Sampling { temperature: 0.9, top_k, top_p, min_p, seed: 1 };
        let mut run = |isa| -> Vec<Option<u32>> {
            (0..50).map(|step| sampler.choose(isa, &s, step, candidates(&logits))).collect()
        };
        let reference = run(Isa::scalar());
        for isa in Isa::available() {
            assert_eq!(run(isa), reference, "{isa:?}");
        }
        assert!(reference.iter().collect::<std::collections::HashSet<_>>().len() > 5);
    }
}
