//! The habits study: trains a specialist for each of several users with the command's defaults, evaluates it on its own
//! user and on one whose habits differ in every intent, and prints a table in Markdown.
//!
//! `cargo run --release -p fura-bench --example habits_study -- MODEL [FIRST_USER [USERS]]`

use fura::core::estimator::{EsConfig, Schedule};
use fura::evaluation::{Evaluation, HeldOut, Success};
use fura::model::{Base, Materialized, Model};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::simd::Isa;
use fura::tasks::{Habits, TaskSource};
use fura::trainer::{Defaults, RunPlan, Trainer};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Held-out questions of each kind.
const QUESTIONS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let model: PathBuf = args.next().ok_or("usage: habits_study MODEL [FIRST_USER [USERS]]")?.into();
    let first: u64 = args.next().map_or(Ok(11), |a| a.parse())?;
    let users: u64 = args.next().map_or(Ok(5), |a| a.parse())?;
    let cache = model.parent().unwrap_or(Path::new(".")).to_owned();
    let model = Model::open(&model, &cache, 32, &mut |_, _| ())?;
    let pool = rayon::ThreadPoolBuilder::new().build()?;
    let isa = Isa::detect();
    let mut scorer = Scorer::new(&model, isa, pool.current_num_threads(), WAVE_ROWS);
    let cancel = AtomicBool::new(false);
    let logs = std::env::temp_dir().join(format!("fura-habits-study-{}", std::process::id()));
    std::fs::create_dir_all(&logs)?;

    println!("| user | set | base | specialist | free text | opposite user |");
    println!("|---|---|---|---|---|---|");
    for user in first..first + users {
        let habits = Habits::new(user);
        let source = TaskSource::Habits(habits.clone());
        let defaults = Defaults::for_model(&model);
        let plan = RunPlan {
            tasks: source.describe(),
            requests: defaults.requests,
            reward: defaults.reward,
            generations: defaults.generations,
        };
        let schedule = Schedule::Linear { fraction: defaults.final_alpha, generations: defaults.generations };
        let config = EsConfig {
            pairs: defaults.pairs,
            sigma: defaults.sigma,
            alpha: defaults.alpha,
            schedule,
            ..EsConfig::default()
        };
        let mut trainer =
            Trainer::create(&model, defaults.from_layer, plan, config, &logs.join(format!("{user}.runlog")))?;
        let own = HeldOut::new(&model, &source, QUESTIONS)?;
        let base = pool.install(|| own.evaluate(&mut scorer, &Base, &cancel))?.ok_or("cancelled")?;

        let (start, before) = (Instant::now(), scorer.rows());
        while !trainer.is_done() {
            let questions = trainer.questions(&source)?;
            pool.install(|| trainer.step(&mut scorer, &questions, &cancel))?;
        }
        let (minutes, tokens) = (start.elapsed().as_secs_f64() / 60.0, scorer.rows() - before);

        let specialist = trainer.specialist()?;
        let members = Materialized::new(&model, isa, specialist.coordinates(), trainer.from_layer());
        let mut evaluate = |source: &TaskSource| -> Result<Evaluation, Box<dyn std::error::Error>> {
            let held = HeldOut::new(&model, source, QUESTIONS)?;
            Ok(pool.install(|| held.evaluate(&mut scorer, &members, &cancel))?.ok_or("cancelled")?)
        };
        let trained = evaluate(&source)?;
        // One user in 256 differs in all 8 intents.
        let opposite = (1_000_000u64..).map(Habits::new).find(|o| shared(&habits, o) == 0).ok_or("none")?;
        let opposite = evaluate(&TaskSource::Habits(opposite))?;
        row(&user.to_string(), "held out", &base.heldout, &trained.heldout, &opposite.heldout);
        if let (Some(b), Some(t), Some(o)) = (base.phrasings, trained.phrasings, opposite.phrasings) {
            row("", "phrasings", &b, &t, &o);
        }
        eprintln!(
            "user {user}: {} generations, {:.2} million tokens, {minutes:.1} minutes, {} bytes",
            trainer.generation(),
            tokens as f64 / 1e6,
            specialist.to_bytes().len()
        );
    }
    std::fs::remove_dir_all(&logs)?;
    Ok(())
}

/// Intents for which both users open the same app.
fn shared(a: &Habits, b: &Habits) -> usize {
    a.profile().iter().zip(b.profile()).filter(|(a, b)| a.1 == b.1).count()
}

fn row(user: &str, set: &str, base: &Success, own: &Success, opposite: &Success) {
    println!(
        "| {user} | {set} | {:.1} % | **{:.1} %** ({:.1} - {:.1}) | {:.1} % | {:.1} % |",
        100.0 * base.success,
        100.0 * own.success,
        100.0 * own.low,
        100.0 * own.high,
        100.0 * own.free,
        100.0 * opposite.success
    );
}
