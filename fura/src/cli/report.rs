//! Tables for people.

use fura::answerer::Answerer;
use fura::episodes::EpisodeSuccess;
use fura::evaluation::{Evaluation, Success};

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
