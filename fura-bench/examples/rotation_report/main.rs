//! The rotation report: what random changes of equal Frobenius norm do to the weight matrices of a real model. Draws the
//! plots of `docs/src/reports/rotation.md` and prints its tables in Markdown.
//!
//! `cargo run --release -p fura-bench --example rotation_report -- MODEL [FOLDER]`
//!
//! FOLDER, where the plots go, is `docs/src/reports` of the workspace by default. Every number follows from the
//! model and the seeds below.

mod family;
mod measure;
mod svg;

use family::Family;
use fura::core::rotation::RotationError;
use fura::model::Model;
use measure::{Effect, Weights};
use rayon::prelude::*;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use svg::{Axis, Panel, Plot, Series};

/// Norm of every change, relative to the weights'.
const TAU: f64 = 0.05;
const LAYERS: [usize; 5] = [1, 8, 14, 21, 28];
const LINEARS: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
/// The block sizes swept, divisors of the model's 576 channels, on these matrices.
const BLOCKS: [usize; 8] = [1, 8, 24, 36, 72, 144, 288, 576];
const SWEPT: [&str; 4] = ["blk.1.attn_q", "blk.14.attn_q", "blk.14.ffn_up", "blk.28.attn_output"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let model: PathBuf = args.next().ok_or("usage: rotation_report MODEL [FOLDER]")?.into();
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reports");
    let folder = args.next().map_or(pages, PathBuf::from);
    let cache = model.parent().unwrap_or(Path::new(".")).to_owned();
    let model = Model::open(&model, &cache, 32, &mut |_, _| ControlFlow::Continue(()))?;

    let names: Vec<(usize, &str)> = LAYERS.iter().flat_map(|l| LINEARS.map(|name| (*l, name))).collect();
    let rows: Vec<Vec<Effect>> = (names.par_iter())
        .map(|(layer, name)| effects(&Weights::load(&model, &format!("blk.{layer}.{name}"))?))
        .collect::<Result<_, RotationError>>()?;
    families_table(&rows);
    matrices_table(&names, &rows);
    std::fs::write(folder.join("rotation-families.svg"), families_plot(&rows).render())?;
    std::fs::write(folder.join("rotation-layers.svg"), layers_plot(&rows).render())?;

    let sweeps: Vec<Vec<(f64, Effect)>> = (SWEPT.par_iter())
        .map(|name| sweep(&Weights::load(&model, name)?))
        .collect::<Result<_, RotationError>>()?;
    blocks_table(&sweeps);
    std::fs::write(folder.join("rotation-blocks.svg"), blocks_plot(&sweeps).render())?;
    Ok(())
}

/// What each family does to one matrix, in the order of [`Family::ALL`].
fn effects(w: &Weights) -> Result<Vec<Effect>, RotationError> {
    Family::ALL.iter().map(|family| w.effect(family, TAU)).collect()
}

/// Expected drift over tau, and the effect of one change, for each block size.
fn sweep(w: &Weights) -> Result<Vec<(f64, Effect)>, RotationError> {
    (BLOCKS.iter())
        .map(|block| Ok((w.expected_drift(*block)?, w.effect(&Family::Blocks(*block), TAU)?)))
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

fn families_table(rows: &[Vec<Effect>]) {
    println!("Median (smallest to largest) of {} matrices, changes of {TAU} |W|:\n", rows.len());
    println!("| change | drift | left residual | top 8 turn, left | right | tail | largest grows |");
    println!("|---|---|---|---|---|---|---|");
    for (f, family) in Family::ALL.iter().enumerate() {
        let cell = |value: fn(&Effect) -> f64, scale: f64, digits: usize| {
            let values = || rows.iter().map(|row| scale * value(&row[f]));
            let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
            format!("{:.digits$} ({low:.digits$} to {high:.digits$})", median(values()))
        };
        let angles = |value| match family.keeps_frames() {
            true => "none".to_owned(),
            false => cell(value, 1.0, 1) + "°",
        };
        println!(
            "| {} | {} % | {} | {} | {} | {} % | {} % |",
            family.name(),
            cell(|e| e.drift, 100.0, 2),
            cell(|e| e.residual, 1.0, 4),
            angles(|e| e.left_angle),
            angles(|e| e.right_angle),
            cell(|e| e.tail, 100.0, 1),
            cell(|e| e.growth, 100.0, 1),
        );
    }
}

fn matrices_table(names: &[(usize, &str)], rows: &[Vec<Effect>]) {
    let columns = [Family::Blocks(32), Family::Dense, Family::LowRank(16)];
    println!(
        "\n| matrix | drift: {0} | {1} | {2} | top 8 turn: {0} | {1} | {2} |",
        columns[0].name(),
        columns[1].name(),
        columns[2].name()
    );
    println!("|---|---|---|---|---|---|---|");
    for ((layer, name), row) in names.iter().zip(rows) {
        // Every column is one of the families measured.
        let of = |family: &Family| Family::ALL.iter().position(|f| f == family).map(|f| &row[f]);
        let effects = || columns.iter().filter_map(of);
        let drifts: String = effects().map(|e| format!(" {:.2} % |", 100.0 * e.drift)).collect();
        let angles: String = effects().map(|e| format!(" {:.1}° |", e.left_angle)).collect();
        println!("| {layer} {name} |{drifts}{angles}");
    }
}

fn blocks_table(sweeps: &[Vec<(f64, Effect)>]) {
    println!("\n| matrix | | {} |", BLOCKS.map(|b| format!("b = {b}")).join(" | "));
    println!("|---|---|{}", "---|".repeat(BLOCKS.len()));
    for (name, sweep) in SWEPT.iter().zip(sweeps) {
        let drifts: Vec<String> = sweep.iter().map(|(drift, _)| format!("{drift:.3}")).collect();
        let residuals: Vec<String> = sweep.iter().map(|(_, e)| format!("{:.4}", e.residual)).collect();
        println!("| {name} | drift / tau | {} |", drifts.join(" | "));
        println!("| | left residual | {} |", residuals.join(" | "));
    }
}

/// One point for each matrix and family: rotation against drift.
fn families_plot(rows: &[Vec<Effect>]) -> Plot {
    let shown = |family: &&(usize, &Family)| !matches!(family.1, Family::LowRank(1));
    let families: Vec<(usize, &Family)> = Family::ALL.iter().enumerate().filter(|f| shown(&f)).collect();
    let series = |value: fn(&Effect) -> f64, keep: fn(&Family) -> bool| -> Vec<Series> {
        (families.iter().filter(|(_, family)| keep(family)))
            .map(|(f, family)| Series {
                label: family.name(),
                points: rows.iter().map(|row| (100.0 * row[*f].drift, value(&row[*f]))).collect(),
                joined: false,
            })
            .collect()
    };
    let drift = || Axis::log("drift: change of the spectrum, %", 0.1, 5.0);
    Plot {
        panels: vec![
            Panel {
                x: drift(),
                y: Axis::linear("rotation: left residual", 0.0, 0.09),
                series: series(|e| e.residual, |_| true),
            },
            Panel {
                x: drift(),
                y: Axis::log("turn of the top 8 left vectors, degrees", 1.0, 90.0),
                series: series(|e| e.left_angle, |family| !family.keeps_frames()),
            },
        ],
    }
}

/// Medians over the seven linears of each layer.
fn layers_plot(rows: &[Vec<Effect>]) -> Plot {
    let lines = |value: fn(&Effect) -> f64, keep: fn(&Family) -> bool| -> Vec<Series> {
        (Family::ALL.iter().enumerate().filter(|(_, family)| keep(family)))
            .map(|(f, family)| Series {
                label: family.name(),
                points: (LAYERS.iter().zip(rows.chunks(LINEARS.len())))
                    .map(|(layer, rows)| (*layer as f64, median(rows.iter().map(|row| value(&row[f])))))
                    .collect(),
                joined: true,
            })
            .collect()
    };
    let layer = || Axis::linear("layer", 0.0, 30.0);
    let turning = |family: &Family| !family.keeps_frames();
    Plot {
        panels: vec![
            Panel {
                x: layer(),
                y: Axis::log("drift, %", 0.1, 5.0),
                series: lines(|e| 100.0 * e.drift, |_| true),
            },
            Panel {
                x: layer(),
                y: Axis::log("turn of the top 8 left vectors, degrees", 1.0, 90.0),
                series: lines(|e| e.left_angle, turning),
            },
        ],
    }
}

/// Drift and rotation over block size; the last size is one block, SVF.
fn blocks_plot(sweeps: &[Vec<(f64, Effect)>]) -> Plot {
    let lines = |value: fn(&(f64, Effect)) -> f64| -> Vec<Series> {
        (SWEPT.iter().zip(sweeps))
            .map(|(name, sweep)| Series {
                label: (*name).to_owned(),
                points: BLOCKS.iter().zip(sweep).map(|(b, e)| (*b as f64, value(e))).collect(),
                joined: true,
            })
            .collect()
    };
    let block = || Axis::log("block size", 1.0, 1000.0);
    Plot {
        panels: vec![
            Panel { x: block(), y: Axis::log("expected drift / tau", 0.05, 1.0), series: lines(|e| e.0) },
            Panel {
                x: block(),
                y: Axis::linear("rotation: left residual", 0.0, 0.09),
                series: lines(|e| e.1.residual),
            },
        ],
    }
}
