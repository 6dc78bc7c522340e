//! What a model without a specialist does on the phone, by level, split and decoding, beside the random policy and the
//! oracle: the table in docs/src/phone.md.
//!
//! `cargo run --release -p fura-bench --example phone_base -- MODEL [NAME=VALUE ...]`
//!
//! `tasks=40` whole tasks of each level and split: the templates one after the other, each for another user. With
//! `specialist=FILE` it is measured instead. `level=` and `split=` make the rows of one level or split only.

use fura::core::specialist::Specialist;
use fura::episodes::{Decoding, EpisodeSuccess, play};
use fura::model::{Adapted, Base, Members, Model};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::simd::Isa;
use fura::tasks::phone::{Episode, Level, PhoneSplit, PhoneTask, User, play_at_random, solve};
use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Random games for each task.
const GAMES: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path: PathBuf = args.next().ok_or("usage: phone_base MODEL [NAME=VALUE ...]")?.into();
    let (mut n, mut specialist, mut only_level, mut only_split) = (40, None, None, None);
    for arg in args {
        match arg.split_once('=') {
            Some(("tasks", value)) => n = value.parse()?,
            Some(("specialist", file)) => specialist = Some(file.to_owned()),
            Some(("level", value)) => only_level = Some(value.parse::<u8>()?),
            Some(("split", value)) => only_split = Some(value.to_owned()),
            _ => return Err(format!("unknown setting '{arg}'").into()),
        }
    }
    let model = Model::open(&path, path.parent().unwrap_or(Path::new(".")), 32, &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    let isa = Isa::detect();
    let members: Box<dyn Members> = match specialist {
        Some(file) => {
            let own = Specialist::load(file)?;
            Box::new(Adapted::new(&model, isa, own.coordinates(), own.layout()))
        }
        None => Box::new(Base),
    };
    let pool = rayon::ThreadPoolBuilder::new().build()?;
    let mut scorer = Scorer::new(&model, isa, pool.current_num_threads(), WAVE_ROWS);
    let cancel = AtomicBool::new(false);
    println!("| level | split | tasks | scored choice | grammar | free text | random | oracle |");
    println!("|---|---|---|---|---|---|---|---|");
    for level in Level::ALL.into_iter().filter(|l| only_level.is_none_or(|only| only == l.get())) {
        for split in PhoneSplit::ALL {
            if only_split.as_ref().is_some_and(|only| *only != split.to_string()) {
                continue;
            }
            let tasks = tasks(level, split, n);
            let mut cells = Vec::new();
            for decoding in [Decoding::Choice, Decoding::Grammar, Decoding::Free] {
                let played = pool.install(|| play(&mut scorer, &*members, &tasks, decoding, &cancel))?;
                let s = EpisodeSuccess::of(&played.ok_or("cancelled")?);
                cells.push(format!(
                    "{:.1} % ({:.1}-{:.1})",
                    100.0 * s.success,
                    100.0 * s.low,
                    100.0 * s.high
                ));
            }
            let (random, solved) = limits(&tasks);
            println!(
                "| {} | {split} | {} | {} | {:.1} % | {:.0} % |",
                level.get(),
                tasks.len(),
                cells.join(" | "),
                100.0 * random,
                100.0 * solved
            );
        }
    }
    Ok(())
}

/// `n` tasks, as evenly over the templates as they come.
fn tasks(level: Level, split: PhoneSplit, n: usize) -> Vec<PhoneTask> {
    let templates = User::templates(split, level);
    // Some users have no task of a template and split; a thousand have one of each.
    let all = (0..1000u64).flat_map(|user| templates.iter().map(move |name| (user, name)));
    all.filter_map(|(user, name)| User::new(user).task(name, split, user)).take(n).collect()
}

/// Success of the random policy and of the oracle.
fn limits(tasks: &[PhoneTask]) -> (f64, f64) {
    let (mut won, mut solved) = (0u64, 0);
    for (i, task) in tasks.iter().enumerate() {
        let Some(way) = solve(task, 1_000_000) else { continue };
        solved += 1;
        for game in 0..GAMES {
            let mut episode = Episode::new(task.clone(), Episode::budget(task, way.len()));
            won += u64::from(play_at_random(&mut episode, i as u64 * GAMES + game));
        }
    }
    let n = tasks.len().max(1) as f64;
    (won as f64 / (n * GAMES as f64), f64::from(solved) / n)
}
