//! The cost and the errors of the two routes to block spectra, on the linears of one layer of a real model: the Gram matrix
//! (canonical and fast eigensolvers) and the singular value decomposition of the block. Prints the table of
//! `docs/src/theory.md` in Markdown.
//!
//! `cargo run --release -p fura-bench --example spectrum_report -- MODEL [LAYER]`
//!
//! One thread. Times are sums over blocks of the best of three for each block, interleaved: a block is short enough to
//! run undisturbed on a shared machine. Errors are against the singular value decomposition in f64.

use fura::core::rotation::{Matrix, Svd};
use fura::core::spectrum::{BlockSpectrum, Decomposer, Solver};
use fura::model::Model;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

const BLOCKS: [usize; 4] = [1, 32, 64, 128];
const SOLVERS: [(&str, Solver); 3] =
    [("Gram, canonical", Solver::Canonical), ("Gram, fast", Solver::Fast), ("thin SVD", Solver::ThinSvd)];
const LINEARS: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

struct Weights {
    d_out: usize,
    d_in: usize,
    values: Vec<f32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let model: PathBuf = args.next().ok_or("usage: spectrum_report MODEL [LAYER]")?.into();
    let layer: usize = args.next().map_or(Ok(14), |a| a.parse())?;
    let cache = model.parent().unwrap_or(Path::new(".")).to_owned();
    let model = Model::open(&model, &cache, 32, &mut |_, _| ControlFlow::Continue(()))?;
    let linears: Vec<Weights> = LINEARS
        .iter()
        .map(|name| load(&model, &format!("blk.{layer}.{name}")))
        .collect::<Option<_>>()
        .ok_or("the model has no such layer")?;
    let weights: usize = linears.iter().map(|w| w.values.len()).sum();

    println!("| b | route | seconds for 10⁹ weights | largest error of s / s₁ | of V |");
    println!("|---|---|---|---|---|");
    for block in BLOCKS {
        let mut decomposers = SOLVERS.map(|(_, solver)| Decomposer::new(solver));
        let mut seconds = [0.0; SOLVERS.len()];
        let mut errors = [(0.0f64, 0.0f64); SOLVERS.len()];
        for w in &linears {
            for first in (0..w.d_in).step_by(block) {
                let columns = first..(first + block).min(w.d_in);
                let values: Vec<f32> =
                    w.values.chunks_exact(w.d_in).flat_map(|row| &row[columns.clone()]).copied().collect();
                let mut best = [f64::INFINITY; SOLVERS.len()];
                for round in 0..3 {
                    for (k, decomposer) in decomposers.iter_mut().enumerate() {
                        let start = Instant::now();
                        let spectrum = decomposer.decompose_block(&values, w.d_out, columns.len())?;
                        best[k] = best[k].min(start.elapsed().as_secs_f64());
                        if round == 0 {
                            let (s, v) = worst(&values, w.d_out, &spectrum)?;
                            errors[k] = (errors[k].0.max(s), errors[k].1.max(v));
                        }
                    }
                }
                seconds.iter_mut().zip(best).for_each(|(sum, best)| *sum += best);
            }
        }
        for (k, (name, _)) in SOLVERS.into_iter().enumerate() {
            let per_billion = seconds[k] / weights as f64 * 1e9;
            let (s, v) = errors[k];
            println!("| {block} | {name} | {per_billion:.0} | {s:.1e} | {v:.1e} |");
        }
    }
    Ok(())
}

fn load(model: &Model, name: &str) -> Option<Weights> {
    let packed = model.linear(model.layout().find(name)?);
    let (d_out, d_in) = (packed.d_out(), packed.d_in());
    let mut values = vec![0.0; d_out * d_in];
    for (row, out) in values.chunks_exact_mut(d_in).enumerate() {
        packed.decode_row(row, out);
    }
    Some(Weights { d_out, d_in, values })
}

/// The largest error of a singular value relative to `s_1`, and the largest `|W^T W v - s^2 v| / s_1^2`, which does not
/// mind that crowded singular values leave their vectors undetermined.
fn worst(
    values: &[f32],
    d_out: usize,
    spectrum: &BlockSpectrum,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let n = spectrum.s.len();
    let block = Matrix::from_rows(d_out, n, values);
    let exact = Svd::thin(&block)?;
    let v = Matrix::from_fn(n, n, |i, k| f64::from(spectrum.v[k * n + i]));
    let images = &block.transpose() * &(&block * &v);
    let mut worst = (0.0f64, 0.0f64);
    for k in 0..n {
        let found = f64::from(spectrum.s[k]);
        let expected = exact.s().get(k).copied().unwrap_or(0.0);
        let residual: f64 = (0..n).map(|i| (images[(i, k)] - found * found * v[(i, k)]).powi(2)).sum();
        worst.0 = worst.0.max((found - expected).abs() / exact.s()[0]);
        worst.1 = worst.1.max(residual.sqrt() / exact.s()[0].powi(2));
    }
    Ok(worst)
}
