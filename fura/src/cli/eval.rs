//! `fura eval`.

use super::Outcome;
use super::args::{Common, Eval};
use super::report;
use super::session::{Session, block_of, specialist, tasks};
use anyhow::Result;
use fura::episodes::play;
use fura::evaluation::HeldOut;
use fura::model::{Base, Members};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::tasks::TaskSource;
use fura::tasks::phone::PhoneSplit;
use serde_json::json;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: &Eval, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let source = tasks(&args.tasks, 0)?;
    let model = session.model(&args.model, block_of(args.specialist.as_deref())?)?;
    let (name, members): (&str, Box<dyn Members>) = match &args.specialist {
        Some(path) => ("specialist", Box::new(specialist(&session, path, &model)?)),
        None => ("base", Box::new(Base)),
    };
    let held = HeldOut::new(&model, &source, args.eval as usize)?;
    let mut scorer = Scorer::new(&model, session.isa, session.threads(), WAVE_ROWS);
    let result = session.pool.install(|| held.evaluate(&mut scorer, members.as_ref(), cancel))?;
    let Some(result) = result else { return Ok(Outcome::Interrupted) };
    let mut whole = Vec::new();
    if let TaskSource::Phone(phone) = &source {
        for split in PhoneSplit::ALL.into_iter().filter(|split| *split != PhoneSplit::Train) {
            let tasks = phone.whole(split, args.eval as usize);
            let played = session.pool.install(|| play(&mut scorer, members.as_ref(), &tasks, cancel))?;
            let Some(played) = played else { return Ok(Outcome::Interrupted) };
            whole.push((split.to_string(), played));
        }
    }
    if common.json {
        let mut all = json!({"tasks": source.describe(), name: result});
        if !whole.is_empty() {
            all["episodes"] = whole
                .into_iter()
                .map(|(split, s)| (split, json!(s)))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        println!("{all}");
    } else {
        println!("{}", source.describe());
        report::evaluations(&[(name, &result)]);
        if !whole.is_empty() {
            report::episodes(&whole);
        }
    }
    Ok(Outcome::Done)
}
