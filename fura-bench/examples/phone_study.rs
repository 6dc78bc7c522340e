//! The phone study: trains a specialist for each of several users of a phone and measures whole tasks of every
//! split and level, for the base and the specialist; tables in Markdown.
//!
//! `cargo run --release -p fura-bench --example phone_study -- MODEL [NAME=VALUE ...]`
//!
//! `user=11` the first user, `users=5` how many, `level=2` the highest level trained on, `tasks=200` whole tasks of each split; `specialists=DIR` keeps specialists and run logs there, and takes a specialist
//! that is there already instead of training. Settings of the run, by default those of `fura train`: `from`, `turns`,
//! `generations`, `requests`, `sigma`, `alpha`, `final`, and `scope` (everywhere or answer). `splits=values,phrasings`
//! measures some splits only (by default all but `train`); `templates=1` also lists success by template.

use fura::core::estimator::{EsConfig, Schedule};
use fura::core::specialist::Specialist;
use fura::defaults::Defaults;
use fura::episodes::{Decoding, EpisodeSuccess, Played, play};
use fura::model::{Adapted, Base, Members, Model};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::simd::Isa;
use fura::tasks::TaskSource;
use fura::tasks::phone::{Decisions, PhoneSplit};
use fura::trainer::{Answers, RunPlan, Trainer};
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Takes the value of a setting out of the list.
fn take(settings: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let at = settings.iter().position(|(n, _)| n == name)?;
    Some(settings.swap_remove(at).1)
}

fn parsed<T: std::str::FromStr<Err: Error + 'static>>(text: Option<String>, default: T) -> Result<T> {
    Ok(text.map_or(Ok(default), |v| v.parse())?)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path: PathBuf = args.next().ok_or("usage: phone_study MODEL [NAME=VALUE ...]")?.into();
    let split = |a: String| a.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned())).ok_or(a);
    let mut settings: Vec<(String, String)> = args.map(split).collect::<std::result::Result<_, _>>()?;
    let mut text = |name| take(&mut settings, name);
    let first: u64 = parsed(text("user"), 11)?;
    let users: u64 = parsed(text("users"), 5)?;
    let level: u8 = parsed(text("level"), 2)?;
    let n: usize = parsed(text("tasks"), 200)?;
    let splits: Vec<String> = text("splits")
        .unwrap_or("values,phrasings,layouts,templates,apps".into())
        .split(',')
        .map(str::to_owned)
        .collect();
    if let Some(other) = splits.iter().find(|s| PhoneSplit::ALL.iter().all(|split| split.to_string() != **s))
    {
        return Err(format!("splits: {other} is none").into());
    }
    let by_template = parsed(text("templates"), 0u8)? == 1;
    let kept = text("specialists").map(PathBuf::from);
    let model = Model::open(&path, path.parent().unwrap_or(Path::new(".")), 32, &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    let scope = text("scope").map(|s| s.parse()).transpose()?;
    let d = Defaults::new(model.config(), Answers::Scored, scope);
    let from_layer = parsed(text("from"), d.from_layer)?;
    let turns = match text("turns") {
        Some(turns) => turns.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?,
        None => d.turns_from(from_layer, model.config().layers),
    };
    let generations = parsed(text("generations"), d.generations)?;
    let requests = parsed(text("requests"), d.requests)?;
    let config = EsConfig {
        pairs: d.pairs,
        sigma: parsed(text("sigma"), d.sigma)?,
        alpha: parsed(text("alpha"), d.alpha)?,
        schedule: Schedule::Linear { fraction: parsed(text("final"), d.final_alpha)?, generations },
        turns: turns.iter().map(|t| t.linears(&model, from_layer)).collect::<std::result::Result<_, _>>()?,
        ..EsConfig::default()
    };
    if let Some((name, _)) = settings.first() {
        return Err(format!("unknown setting '{name}'").into());
    }

    let pool = rayon::ThreadPoolBuilder::new().build()?;
    let mut scorer = Scorer::new(&model, Isa::detect(), pool.current_num_threads(), WAVE_ROWS);
    let cancel = AtomicBool::new(false);
    let temporary = std::env::temp_dir().join(format!("fura-phone-study-{}", std::process::id()));
    let folder = kept.clone().unwrap_or_else(|| temporary.clone());
    std::fs::create_dir_all(&folder)?;
    for user in first..first + users {
        let phone: Decisions = format!("phone:{user}/{level}").parse()?;
        let source = TaskSource::Phone(phone.clone());
        let file = folder.join(format!("phone-{user}-{level}.fura"));
        if !file.exists() {
            let plan = RunPlan {
                tasks: source.describe(),
                requests,
                reward: d.reward,
                answers: Answers::Scored,
                generations,
            };
            let log = file.with_extension("runlog");
            let mut trainer = match log.exists() {
                true => Trainer::resume(&model, &source, &log)?.0,
                false => Trainer::create(
                    &model,
                    model.layout_from(from_layer).with_scope(d.scope),
                    plan,
                    config.clone(),
                    &log,
                )?,
            };
            let start = Instant::now();
            while !trainer.is_done() {
                let questions = trainer.questions(&scorer, &source)?;
                pool.install(|| trainer.step(&mut scorer, &questions, &cancel))?.ok_or("cancelled")?;
            }
            trainer.specialist()?.save(&file)?;
            eprintln!("user {user}: {:.1} minutes", start.elapsed().as_secs_f64() / 60.0);
        }
        let specialist = Specialist::load(&file)?;
        let own = Adapted::new(&model, Isa::detect(), specialist.coordinates(), specialist.layout());
        println!("\nUser {user}:\n\n| | base | specialist |\n|---|---|---|");
        for split in PhoneSplit::ALL.into_iter().filter(|s| splits.contains(&s.to_string())) {
            let tasks = phone.whole(split, n);
            let [base, own] = both(&own, |m| {
                Ok(pool
                    .install(|| play(&mut scorer, m, &tasks, Decoding::Choice, &cancel))?
                    .ok_or("cancelled")?)
            })?;
            for level in 1..=level {
                whole(&format!("{split}, level {level}"), &base, &own, |p| {
                    p.episode.task().level().get() == level
                });
            }
            if by_template {
                let templates: BTreeMap<&str, ()> =
                    own.iter().map(|p| (p.episode.task().template(), ())).collect();
                for template in templates.keys() {
                    whole(&format!("{split}, {template}"), &base, &own, |p| {
                        p.episode.task().template() == *template
                    });
                }
            }
            whole(&format!("{split}, all"), &base, &own, |_| true);
        }
    }
    if kept.is_none() {
        std::fs::remove_dir_all(&temporary)?;
    }
    Ok(())
}

/// The same of the base and of the specialist.
fn both<T>(own: &Adapted, mut of: impl FnMut(&dyn Members) -> Result<T>) -> Result<[T; 2]> {
    Ok([of(&Base)?, of(own)?])
}

/// A row about the whole tasks that are wanted.
fn whole(name: &str, base: &[Played], own: &[Played], wanted: impl Fn(&Played) -> bool) {
    let of = |played: &[Played]| EpisodeSuccess::of(played.iter().filter(|p| wanted(p)));
    let (base, own) = (of(base), of(own));
    println!(
        "| {name} ({}) | {:.1} % | **{:.1} %** ({:.1} - {:.1}) |",
        own.n,
        100.0 * base.success,
        100.0 * own.success,
        100.0 * own.low,
        100.0 * own.high
    );
}
