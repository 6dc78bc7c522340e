//! Tables for people.

use fura::answerer::Answerer;
use fura::episodes::EpisodeSuccess;
use fura::evaluation::{Evaluation, Success};
use fura::guard::Diverged;
use serde_json::json;

/// One line for each model and held-out set.
pub(crate) fn evaluations(rows: &[(&str, &Evaluation)]) {
    println!("{:<12} {:<10} {:>9} {:>17} {:>6} {:>10}", "", "", "success", "95 % interval", "n", "free text");
    for (name, e) in rows {
        line(name, "held out", &e.heldout);
        if let Some(p) = &e.phrasings {
            line("", "phrasings", p);
        }
    }
}

fn line(name: &str, set: &str, s: &Success) {
    let interval = format!("{:.1} - {:.1} %", 100.0 * s.low, 100.0 * s.high);
    println!(
        "{name:<12} {set:<10} {:>7.1} % {interval:>17} {:>6} {:>8.1} %",
        100.0 * s.success,
        s.n,
        100.0 * s.free
    );
}

/// One line for each split of whole tasks.
pub(crate) fn episodes(rows: &[(String, EpisodeSuccess)]) {
    println!(
        "{:<12} {:>9} {:>17} {:>6} {:>8} {:>6}",
        "whole tasks", "success", "95 % interval", "n", "shortest", "steps"
    );
    for (split, s) in rows {
        let interval = format!("{:.1} - {:.1} %", 100.0 * s.low, 100.0 * s.high);
        println!(
            "{split:<12} {:>7.1} % {interval:>17} {:>6} {:>8.2} {:>6.2}",
            100.0 * s.success,
            s.n,
            s.optimal,
            s.steps
        );
    }
}

/// Says how many outputs could not be graded, if any.
pub(crate) fn faults<A: Answerer>(answerer: &A) {
    if let (n, Some(why)) = answerer.faults() {
        eprintln!("{n} outputs could not be graded and counted for nothing; the first: {why}");
    }
}

/// Says that a run was stopped, with its success at the end, and what is kept of it.
pub(crate) fn lost(diverged: Diverged, lost: &Success, json: bool) {
    let Diverged { at, kept } = diverged;
    if json {
        println!("{}", json!({"event": "diverged", "at": at, "kept": kept, "lost": lost}));
    }
    let what = if kept == 0 {
        "nothing was better than the base, which".to_owned()
    } else {
        format!("generation {kept}")
    };
    eprintln!(
        "stopped after {at} generations: held-out success fell to {:.1} %, less than half the base's; {what} is kept. Lower \
         --alpha or --sigma, or raise the number of pairs",
        100.0 * lost.success
    );
}
