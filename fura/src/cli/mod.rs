//! Parses arguments, runs a command, turns its outcome into an exit code.

mod args;
mod bench;
mod eval;
mod grade;
mod inspect;
mod memory;
mod picture;
mod plan;
mod progress;
mod rebuild;
mod report;
mod run;
mod session;
mod train;

use clap::Parser;
use fura::model::ModelError;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something in the input (arguments, files, environment) is wrong; nothing was written.
const INPUT_ERROR: u8 = 2;
/// Interrupted; what was learnt in training is saved and `--resume` goes on.
const INTERRUPTED: u8 = 130;

/// How a command ended when nothing went wrong.
pub(crate) enum Outcome {
    Done,
    Interrupted,
}

pub(crate) fn main() -> ExitCode {
    let args = args::Cli::parse();
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    // A second Ctrl-C ends the process at once; the run log survives that too.
    let handler = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        eprintln!("\ninterrupted: saving (press Ctrl-C again to stop at once)");
    });
    if let Err(e) = handler {
        eprintln!("fura: Ctrl-C cannot be caught ({e}); the run log is still safe to resume from");
    }
    let result = match &args.command {
        args::Command::Inspect(a) => inspect::run(a, &args.common, &cancel),
        args::Command::Run(a) => run::run(a, &args.common, &cancel),
        args::Command::Plan(a) => plan::run(a, &args.common),
        args::Command::Bench(a) => bench::run(a, &args.common, &cancel),
        args::Command::Train(a) => train::run(a, &args.common, &cancel),
        args::Command::Eval(a) => eval::run(a, &args.common, &cancel),
        args::Command::Rebuild(a) => rebuild::run(a, &args.common),
        args::Command::Grade(a) => grade::run(a, &args.common),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(e) => {
            eprintln!("fura: {}", one_line(&e));
            let interrupted = matches!(e.downcast_ref(), Some(ModelError::Interrupted { .. }));
            ExitCode::from(if interrupted { INTERRUPTED } else { INPUT_ERROR })
        }
    }
}

/// The error and its causes, leaving out what an outer message already says.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
    }
    line.replace('\n', " ")
}
