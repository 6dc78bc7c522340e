//! `fura rebuild`.

use super::Outcome;
use super::args::{Common, Rebuild};
use anyhow::{Context, Result};
use fura::core::runlog::RunLog;
use fura::core::specialist::Specialist;
use fura::guard::Diverged;
use serde_json::json;

pub(crate) fn run(args: &Rebuild, common: &Common) -> Result<Outcome> {
    let bytes = std::fs::read(&args.log).with_context(|| args.log.display().to_string())?;
    let history = Diverged::cut(RunLog::read(&bytes, &args.log)?);
    let specialist = Specialist::from_run_log(&history)?;
    specialist.save(&args.out)?;
    let generations = history.generations.len();
    if common.json {
        println!("{}", json!({"generations": generations, "specialist": args.out.display().to_string()}));
    } else {
        println!("{}: rebuilt from {generations} generations", args.out.display());
    }
    Ok(Outcome::Done)
}
