//! Every kernel beside its limit, both measured in one run by turns, as a table of shares.
//!
//! `cargo run --release -p fura-bench --bin shares -- [--json] [--rounds N] [WORD]...`
//!
//! Without words everything is measured; with words only what has all of them in its name, for example
//! `shares gemv avx2 threads1`. A name is `gemm/q4/4096x4096/rows16/avx2/threads1`, for the transform
//! `apply/b32/576/rows256/avx2/threads1`, `apply-in-pieces/...` (as a forward pass does it) or `apply-in-place/...`. The table goes to standard output, with `--json` a result file instead;
//! progress goes to standard error.
#![forbid(unsafe_code)]

use fura_bench::input::Input;
use fura_bench::product::{HEAD, Product, Weights, shapes};
use fura_bench::sample::{Share, interleaved};
use fura_bench::{limits, machine};
use fura_quant::Format;
use fura_simd::Isa;
use rayon::ThreadPool;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::error::Error;
use std::fmt::Write;

const USAGE: &str = "usage: shares [--json] [--rounds N] [WORD]...";

/// Rows of activations, from decoding one stream to scoring a population.
const ROWS: [usize; 5] = [1, 4, 16, 64, 256];

fn main() -> Result<(), Box<dyn Error>> {
    let (mut json, mut rounds, mut words) = (false, 7, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => json = true,
            "--rounds" => {
                rounds = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0).ok_or(USAGE)?
            }
            option if option.starts_with('-') => return Err(USAGE.into()),
            word => words.push(word.to_owned()),
        }
    }
    let mut report = Report { rounds, words, rows: Vec::new() };
    for threads in [1, 2] {
        products(&rayon::ThreadPoolBuilder::new().num_threads(threads).build()?, &mut report);
    }
    transforms(&mut report);
    if report.rows.is_empty() {
        return Err("nothing has all these words in its name".into());
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&report.file())?);
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

/// One row of activations beside reading the same weights, more of them beside integer arithmetic.
fn products(pool: &ThreadPool, report: &mut Report) {
    let threads = pool.current_num_threads();
    for format in Format::ALL {
        for (d_out, d_in) in shapes(format).chain([HEAD]) {
            let mut weights = None;
            // The scalar tier has no limit of its own.
            for isa in Isa::available().filter(|isa| limits::integer(*isa).is_some()) {
                let tier = isa.tier().name();
                for rows in ROWS {
                    let kernel = if rows == 1 { "gemv" } else { "gemm" };
                    let name = format!(
                        "{kernel}/{}/{d_out}x{d_in}/rows{rows}/{tier}/threads{threads}",
                        format.name()
                    );
                    // The head is there for its size: it is larger than caches.
                    if !report.wants(&name) || (rows > 1 && (d_out, d_in) == HEAD) {
                        continue;
                    }
                    let weights = weights.get_or_insert_with(|| Weights::new(format, d_out, d_in));
                    let mut product = Product::<i8>::new(isa, weights, rows, threads);
                    if rows == 1 {
                        let bytes = weights.bytes();
                        let kernel = || {
                            product.run(pool);
                            bytes.len()
                        };
                        report.add(name, "GB/s", threads, kernel, || read(pool, isa, bytes));
                    } else {
                        let kernel = || {
                            product.run(pool);
                            2 * rows * weights.macs()
                        };
                        report.add(name, "GOP/s", threads, kernel, || 2 * integer(pool, isa));
                    }
                }
            }
        }
    }
}

/// The input transform beside f32 arithmetic, on one thread.
fn transforms(report: &mut Report) {
    const ROWS: usize = 256;
    for b in [32, 64] {
        for d_in in [576, 4096] {
            for isa in Isa::available() {
                if limits::float(isa).is_none() {
                    continue;
                }
                let limit = || 2 * limits::float(isa).unwrap_or_default();
                let tier = isa.tier().name();
                let mut input = Input::new(isa, d_in, b, ROWS);
                let name = format!("materialize/b{b}/{d_in}/rows{ROWS}/{tier}/threads1");
                if report.wants(&name) {
                    let kernel = || {
                        input.materialize();
                        input.materialize_flops()
                    };
                    report.add(name, "GFLOP/s", 1, kernel, limit);
                }
                let applied: [(_, fn(&mut Input)); 3] = [
                    ("apply", Input::apply),
                    ("apply-in-pieces", Input::apply_in_pieces),
                    ("apply-in-place", Input::apply_in_place),
                ];
                for (way, apply) in applied {
                    let name = format!("{way}/b{b}/{d_in}/rows{ROWS}/{tier}/threads1");
                    if report.wants(&name) {
                        let kernel = || {
                            apply(&mut input);
                            input.apply_flops()
                        };
                        report.add(name, "GFLOP/s", 1, kernel, limit);
                    }
                }
            }
        }
    }
}

/// Reads `bytes` once, every thread its part, and returns how many were read.
fn read(pool: &ThreadPool, isa: Isa, bytes: &[u8]) -> usize {
    match pool.current_num_threads() {
        1 => limits::read(isa, bytes),
        n => {
            let parts = bytes.par_chunks(bytes.len().div_ceil(n));
            pool.install(|| parts.map(|part| limits::read(isa, part)).sum())
        }
    }
}

/// Multiplies and adds on every thread and returns how many products were summed.
fn integer(pool: &ThreadPool, isa: Isa) -> usize {
    match pool.current_num_threads() {
        1 => limits::integer(isa).unwrap_or_default(),
        _ => pool.broadcast(|_| limits::integer(isa).unwrap_or_default()).iter().sum(),
    }
}

/// What was asked for and what was measured.
struct Report {
    rounds: usize,
    words: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    unit: &'static str,
    share: Share,
}

impl Report {
    fn wants(&self, name: &str) -> bool {
        self.words.iter().all(|word| name.contains(word))
    }

    /// Measures one row; rates are in billions of what `kernel` and `limit` return.
    fn add(
        &mut self,
        name: String,
        unit: &'static str,
        threads: usize,
        kernel: impl FnMut() -> usize,
        limit: impl FnMut() -> usize,
    ) {
        let share = interleaved(self.rounds, threads, kernel, limit);
        eprintln!("{name}: {:.1} % of {:.1} {unit}", 100.0 * share.share, share.limit / 1e9);
        self.rows.push(Row { name, unit, share });
    }

    fn table(&self) -> String {
        let mut table = String::from("| kernel | rate | limit | unit | share |\n|---|--:|--:|---|--:|\n");
        for Row { name, unit, share } in &self.rows {
            let (rate, limit) = (share.rate / 1e9, share.limit / 1e9);
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "| {name} | {rate:.1} | {limit:.1} | {unit} | {:.0} % |",
                100.0 * share.share
            );
        }
        table
    }

    fn file(&self) -> Value {
        let rows = self.rows.iter().map(|Row { name, unit, share }| {
            json!({"name": name, "unit": unit, "rate": share.rate / 1e9, "limit": share.limit / 1e9, "share": share.share})
        });
        json!({"machine": machine::describe(), "rounds": self.rounds, "rows": rows.collect::<Vec<_>>()})
    }
}
