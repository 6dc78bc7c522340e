//! Scratch: learning study on habits.
use fura::core::estimator::*;
use fura::model::*;
use fura::question::Question;
use fura::reward::*;
use fura::scorer::*;
use fura::tasks::Habits;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
fn arg(name: &str, d: f64) -> f64 {
    let a: Vec<String> = std::env::args().collect();
    a.iter().position(|x| x == name).map_or(d, |i| a[i + 1].parse().unwrap())
}
fn main() {
    let isa = match std::env::var("FURA_CPU") {
        Ok(n) => fura::simd::Isa::named(&n).unwrap(),
        _ => fura::simd::Isa::detect(),
    };
    let t = Instant::now();
    let model = Model::open(
        "models-cache/SmolLM2-135M-Instruct.Q4_1.gguf".as_ref(),
        "models-cache".as_ref(),
        arg("--block", 32.) as usize,
        &mut |a, b| {
            if a % 30 == 0 {
                eprintln!("pack {a}/{b}")
            }
        },
    )
    .unwrap();
    eprintln!("open {:.2}s", t.elapsed().as_secs_f64());
    let threads = arg("--threads", 2.) as usize;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let user = arg("--user", 1.) as u64;
    let habits = Habits::new(user);
    let n = arg("--requests", 24.) as usize;
    let pairs = arg("--pairs", 16.) as u32;
    let gens = arg("--gens", 40.) as u32;
    let alpha = arg("--alpha", 0.1) as f32;
    let frac = arg("--frac", 1.0) as f32;
    let config = EsConfig {
        seed: arg("--seed", 1.) as u64,
        pairs,
        sigma: arg("--sigma", 0.1) as f32,
        alpha,
        momentum: arg("--momentum", 0.) as f32,
        decay: arg("--decay", 0.) as f32,
        schedule: if frac < 1.0 {
            Schedule::Linear { fraction: frac, generations: gens }
        } else {
            Schedule::Constant
        },
        ..EsConfig::default()
    };
    let from = arg("--from", 24.) as usize;
    let layout = model.layout_from(from);
    println!("{} coordinates", layout.coordinates());
    let mut es = Estimator::new(config, &layout).unwrap();
    let cancel = AtomicBool::new(false);
    let mut scorer = Scorer::new(&model, isa, threads, arg("--wave", 768.) as usize);
    let k = arg("--eval", 160.) as usize;
    let held = Question::all(&model, &habits.heldout(k)).unwrap();
    let phr = Question::all(&model, &habits.phrasings(k)).unwrap();
    let eval = |scorer: &mut Scorer<'_>, es: &Estimator| {
        let m = Materialized::new(&model, isa, es.coordinates(), from);
        let mut r = vec![];
        for qs in [&held, &phr] {
            let s = pool.install(|| scorer.score(&m, 1, 0, qs, &cancel)).unwrap().unwrap();
            let c = qs.iter().enumerate().filter(|(i, q)| q.rewards[best(s.answers(0, *i))] >= 1.0).count();
            r.push(c as f64 / qs.len() as f64);
        }
        r
    };
    println!("{:?}", habits.profile());
    println!("gen 0 {:?}", eval(&mut scorer, &es));
    let every = arg("--every", 10.) as u32;
    let mut secs = 0.0;
    let mut toks = 0;
    for g in 0..gens {
        let t = Instant::now();
        let r0 = scorer.rows();
        let qs = Question::all(&model, &habits.train(g, n)).unwrap();
        let gen_ = es.ask();
        let fit: Vec<f64> = {
            let pop = Population::new(&es, &model, &layout, from);
            let s = pool.install(|| scorer.score(&pop, gen_.len(), from, &qs, &cancel)).unwrap().unwrap();
            (0..gen_.len())
                .map(|m| {
                    qs.iter()
                        .enumerate()
                        .map(|(i, q)| Reward::LogExpected.of(s.answers(m, i), &q.rewards))
                        .sum::<f64>()
                        / n as f64
                })
                .collect()
        };
        let rep = es.tell(&fit).unwrap();
        secs += t.elapsed().as_secs_f64();
        toks += scorer.rows() - r0;
        if (g + 1) % every == 0 || g < 2 {
            println!(
                "gen {} {:?} mean {:.3} spread {:.3} rms {:.3} upd {:.4} | {} tok {:.1}s {:.0} tok/s",
                g + 1,
                eval(&mut scorer, &es),
                rep.mean,
                rep.spread,
                rep.coordinate_rms,
                rep.update_rms,
                toks,
                secs,
                toks as f64 / secs
            );
        }
    }
}
