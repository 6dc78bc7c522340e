//! Which linears matter: for groups of linears perturbed alone, the spread of the antithetic half-difference of the
//! fitness (sigma |g|) and the mean of the half-sum minus the base's (-sigma^2 tr(H) / 2).
use fura::core::estimator::*;
use fura::model::*;
use fura::question::Question;
use fura::reward::*;
use fura::scorer::*;
use fura::tasks::Habits;
use std::sync::atomic::AtomicBool;

struct Masked<'a>(Population<'a>, Vec<bool>);
impl Members for Masked<'_> {
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        if self.1[linear] { self.0.transform(member, linear, scratch) } else { Transform::Identity }
    }
}

fn main() {
    let isa = fura::simd::Isa::detect();
    let model = Model::open("models-cache/SmolLM2-135M-Instruct.Q4_1.gguf".as_ref(), "models-cache".as_ref(), 32, &mut |_, _| ()).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let habits = Habits::new(1);
    let pairs = 16u32;
    let cancel = AtomicBool::new(false);
    let mut scorer = Scorer::new(&model, isa, 2, 768);
    let qs = Question::all(&model, &habits.train(0, 8)).unwrap();
    let fit = |s: &Scores<'_>, m: usize| qs.iter().enumerate().map(|(i, q)| Reward::LogExpected.of(s.answers(m, i), &q.rewards)).sum::<f64>() / 8.0;
    let base = { let s = pool.install(|| scorer.score_base(&qs, &cancel)).unwrap().unwrap(); fit(&s, 0) };
    println!("base {base:.3}");
    let n = model.layout().linears().len();
    let mut groups: Vec<(String, Vec<bool>)> = vec![];
    for k in 0..7 { groups.push((format!("kind {k}"), (0..n).map(|l| l % 7 == k).collect())); }
    for layer in (0..30).step_by(3) { groups.push((format!("layers {layer}-{}", layer + 2), (0..n).map(|l| (layer..layer + 3).contains(&(l / 7))).collect())); }
    for (name, mask) in groups {
        let sigma = 0.2;
        let es = Estimator::new(EsConfig { seed: 5, pairs, sigma, ..EsConfig::default() }, model.layout()).unwrap();
        let d: usize = (0..n).filter(|l| mask[*l]).map(|l| model.layout().range(l).len()).sum();
        let m = Masked(Population::new(&es, &model), mask);
        let s = pool.install(|| scorer.score(&m, 2 * pairs as usize, &qs, &cancel)).unwrap().unwrap();
        let f: Vec<f64> = (0..2 * pairs as usize).map(|m| fit(&s, m)).collect();
        let g = (f.chunks(2).map(|p| ((p[0] - p[1]) / 2.0).powi(2)).sum::<f64>() / f64::from(pairs)).sqrt() / f64::from(sigma);
        let h = f.chunks(2).map(|p| (p[0] + p[1]) / 2.0 - base).sum::<f64>() / f64::from(pairs) * 2.0 / f64::from(sigma).powi(2);
        let q = (f.chunks(2).map(|p| ((p[0] + p[1]) / 2.0 - base).powi(2)).sum::<f64>() / f64::from(pairs)).sqrt();
        println!("{name:14} d {d:6} |g| {g:.3} trH {h:.2} evenrms {q:.3} g2/d {:.2e} g2/|trH| {:.3}", g * g / d as f64, g * g / h.abs());
    }
}
