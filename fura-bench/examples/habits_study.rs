//! The habits study: trains a specialist for each of several users, evaluates it on its own user and on one whose habits
//! differ in every intent, and prints a table in Markdown; the learning curve goes to standard error.
//!
//! `cargo run --release -p fura-bench --example habits_study -- MODEL [NAME=VALUE ...]`
//!
//! Names and defaults: `user=11` the first user, `users=5` how many, `questions=200` held-out questions of each kind,
//! `every=0` generations between the points of the curve (0: none), `seed=0` of the perturbations, `block=32`. Settings of
//! the run, by default those of `fura train`: `from` (first trained layer), `turns` (such as `29x192,28x64`;
//! `none` perturbs all trained layers in every generation), `generations`, `pairs`, `requests`, `sigma`,
//! `alpha`, `final` (share of alpha left at the end), `decay`, `momentum`, `average` (first averaged generation), `reward`
//! (`log_expected`, `expected`, `greedy`), `shaping` (`z_score`, `centred_ranks`, `pair_sign`, `none`).

use fura::answerer::Answerer;
use fura::core::estimator::{EsConfig, Schedule, Shaping};
use fura::defaults::Defaults;
use fura::evaluation::{Evaluation, HeldOut, Success};
use fura::model::{Adapted, Base, Model};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::simd::Isa;
use fura::tasks::{Habits, TaskSource};
use fura::trainer::{Answers, RunPlan, Trainer};
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// `NAME=VALUE` arguments; each is used once, and one that nobody asked for is a mistake.
struct Settings(Vec<(String, String)>);

impl Settings {
    fn take<T: FromStr<Err: std::error::Error + 'static>>(&mut self, name: &str, default: T) -> Result<T> {
        Ok(self.text(name).map_or(Ok(default), |v| v.parse())?)
    }

    /// A value that is one of an enum's names.
    fn choice<T: DeserializeOwned>(&mut self, name: &str, default: T) -> Result<T> {
        Ok(self.text(name).map_or(Ok(default), |v| serde_json::from_value(v.into()))?)
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let model: PathBuf = args.next().ok_or("usage: habits_study MODEL [NAME=VALUE ...]")?.into();
    let split = |a: String| a.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned())).ok_or(a);
    let mut settings = Settings(args.map(split).collect::<std::result::Result<_, _>>()?);
    let first: u64 = settings.take("user", 11)?;
    let users: u64 = settings.take("users", 5)?;
    let questions: usize = settings.take("questions", 200)?;
    let every: u32 = settings.take("every", 0)?;
    let block: usize = settings.take("block", 32)?;
    let cache = model.parent().unwrap_or(Path::new(".")).to_owned();
    let model = Model::open(&model, &cache, block, &mut |_, _| ControlFlow::Continue(()))?;
    let scope = settings.text("scope").map(|s| s.parse()).transpose()?;
    let d = Defaults::new(model.config(), Answers::Scored, scope);
    let from_layer = settings.take("from", d.from_layer)?;
    let turns = match settings.text("turns") {
        Some(text) if text == "none" => Vec::new(),
        Some(text) => text.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?,
        None => d.turns_from(from_layer, model.config().layers),
    };
    let d = Defaults {
        from_layer,
        scope: d.scope,
        turns,
        generations: settings.take("generations", d.generations)?,
        pairs: settings.take("pairs", d.pairs)?,
        requests: settings.take("requests", d.requests)?,
        sigma: settings.take("sigma", d.sigma)?,
        alpha: settings.take("alpha", d.alpha)?,
        final_alpha: settings.take("final", d.final_alpha)?,
        reward: settings.choice("reward", d.reward)?,
    };
    let average: u32 = settings.take("average", u32::MAX)?;
    let config = EsConfig {
        seed: settings.take("seed", 0)?,
        pairs: d.pairs,
        sigma: d.sigma,
        alpha: d.alpha,
        schedule: Schedule::Linear { fraction: d.final_alpha, generations: d.generations },
        shaping: settings.choice("shaping", Shaping::ZScore)?,
        decay: settings.take("decay", 0.0)?,
        momentum: settings.take("momentum", 0.0)?,
        turns: d
            .turns
            .iter()
            .map(|turn| turn.linears(&model, d.from_layer))
            .collect::<std::result::Result<_, _>>()?,
        average_from: (average < u32::MAX).then_some(average),
        ..EsConfig::default()
    };
    if let Some((name, _)) = settings.0.first() {
        return Err(format!("unknown setting '{name}'").into());
    }
    eprintln!("{d:?}\n{config:?}");
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
        let plan = RunPlan {
            tasks: source.describe(),
            requests: d.requests,
            reward: d.reward,
            answers: Answers::Scored,
            generations: d.generations,
        };
        let mut trainer = Trainer::create(
            &model,
            model.layout_from(d.from_layer).with_scope(d.scope),
            plan,
            config.clone(),
            &logs.join(format!("{user}.runlog")),
        )?;
        let own = HeldOut::new(&scorer, &source, questions)?;
        let base = pool.install(|| own.evaluate(&mut scorer, &Base, &cancel))?.ok_or("cancelled")?;

        let (mut seconds, mut tokens) = (0.0, 0);
        while !trainer.is_done() {
            let (start, before) = (Instant::now(), scorer.rows());
            let batch = trainer.questions(&scorer, &source)?;
            let step = pool.install(|| trainer.step(&mut scorer, &batch, &cancel))?.ok_or("cancelled")?;
            seconds += start.elapsed().as_secs_f64();
            tokens += scorer.rows() - before;
            let done = trainer.generation();
            if every > 0 && done.is_multiple_of(every) {
                let members =
                    Adapted::new(&model, isa, &trainer.estimator().final_coordinates(), trainer.layout());
                let now =
                    pool.install(|| own.evaluate(&mut scorer, &members, &cancel))?.ok_or("cancelled")?;
                eprintln!(
                    "user {user}: {done} generations, {:.2} million tokens, {seconds:.0} s: held out {:.1} %, phrasings \
                     {:.1} %, reward {:.3}, coordinates rms {:.3}",
                    tokens as f64 / 1e6,
                    100.0 * now.heldout.success,
                    100.0 * now.phrasings.map_or(f64::NAN, |p| p.success),
                    step.mean,
                    step.coordinate_rms
                );
            }
        }

        let specialist = trainer.specialist()?;
        let members = Adapted::new(&model, isa, specialist.coordinates(), specialist.layout());
        let mut evaluate = |source: &TaskSource| -> Result<Evaluation> {
            let held = HeldOut::new(&scorer, source, questions)?;
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
            "user {user}: {} generations, {:.2} million tokens, {:.1} minutes, {} bytes",
            trainer.generation(),
            tokens as f64 / 1e6,
            seconds / 60.0,
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
