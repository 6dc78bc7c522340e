//! `fura eval`.

use super::Outcome;
use super::args::{Common, Eval};
use super::report;
use super::session::{Session, block_of, specialist, tasks};
use anyhow::Result;
use fura::evaluation::HeldOut;
use fura::model::{Base, Members};
use fura::scorer::{Scorer, WAVE_ROWS};
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
    if common.json {
        println!("{}", json!({"tasks": source.describe(), name: result}));
    } else {
        println!("{}", source.describe());
        report::evaluations(&[(name, &result)]);
    }
    Ok(Outcome::Done)
}
