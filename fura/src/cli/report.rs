//! Tables for people.

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
