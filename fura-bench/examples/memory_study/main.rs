//! Private memory of training a model with the shapes of Llama 3.1 8B, beside what was planned and beside inference at
//! the same batch.
//!
//! `cargo run --release -p fura-bench --example memory_study -- FOLDER [--layers N] [--members N] [--requests N]
//! [--prompt N] [--written N] [--threads N] [--wave-rows N]`
//!
//! The model is made in FOLDER first: random weights, 4.5 GB, then its pack, 4.7 GB. Both can be deleted afterwards. Every
//! measurement is a process of its own.
#![forbid(unsafe_code)]

mod measure;
mod synthetic;

use fura::core::estimator::EsConfig;
use fura::core::layout::{Form, Scope};
use fura::generation_shape::{AnswerShape, GenerationShape};
use fura::model::{Model, ModelConfig};
use measure::Work;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const BLOCK: usize = 32;
const USAGE: &str = "usage: memory_study FOLDER [--layers N] [--members N] [--requests N] [--prompt N] [--written N] \
                     [--threads N] [--wave-rows N]";

/// What is measured.
#[derive(Clone, Debug)]
struct Study {
    folder: PathBuf,
    layers: usize,
    members: usize,
    requests: usize,
    /// Tokens of a prompt.
    prompt: usize,
    /// Tokens of a written answer.
    written: usize,
    threads: usize,
    wave_rows: usize,
}

impl Study {
    /// The sizes of a generation whose answers are scored, or written.
    fn shape(&self, written: bool) -> GenerationShape {
        let answer = match written {
            true => AnswerShape::Written { tokens: self.written },
            false => AnswerShape::Scored { answers: 2, tokens: 1, wave_rows: self.wave_rows },
        };
        GenerationShape {
            members: self.members,
            requests: self.requests,
            prompt: self.prompt,
            answer,
            from_layer: 0,
            scope: Scope::Everywhere,
            form: Form::Materialized,
            shared: 0,
            threads: self.threads,
        }
    }

    fn config(&self) -> EsConfig {
        EsConfig { pairs: self.members as u32 / 2, ..EsConfig::default() }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (study, work) = parse(&args)?;
    let file = synthetic::make(&study.folder, study.layers)?;
    if let Some(work) = work {
        return measure::run(&study, &file, work);
    }
    let config = Model::read_config(&file)?;
    print_plan(&study, &config);
    // The pack, so that making it counts for nothing below.
    let start = std::time::Instant::now();
    let model = Model::open(&file, &study.folder, BLOCK, &mut |done, all| {
        eprint!("\r{done} of {all} matrices");
        ControlFlow::Continue(())
    })?;
    eprintln!();
    println!(
        "mapped      {:.2} GB, opened in {:.0} s",
        model.mapped_bytes() as f64 / 1e9,
        start.elapsed().as_secs_f64()
    );
    drop(model);
    for work in Work::ALL {
        let status = Command::new(std::env::current_exe()?)
            .args(&args)
            .args(["--work", work.name()])
            .stdin(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("{}: {status}", work.name()).into());
        }
    }
    Ok(())
}

fn print_plan(study: &Study, config: &ModelConfig) {
    for (name, written) in [("scored", false), ("written", true)] {
        let shape = study.shape(written);
        println!(
            "plan        {name}: inference {:.1} MB, training {:.1} MB",
            shape.inference_bytes(config, BLOCK) as f64 / 1e6,
            shape.training_bytes(config, BLOCK, &study.config()) as f64 / 1e6
        );
    }
}

fn parse(args: &[String]) -> Result<(Study, Option<Work>), Box<dyn Error>> {
    let [folder, options @ ..] = args else { return Err(USAGE.into()) };
    let mut study = Study {
        folder: folder.into(),
        layers: 32,
        members: 8,
        requests: 8,
        prompt: 12,
        written: 8,
        threads: 2,
        wave_rows: fura::scorer::WAVE_ROWS,
    };
    let mut work = None;
    for pair in options.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.into()) };
        let number = || value.parse::<usize>().ok().filter(|n| *n > 0).ok_or(USAGE);
        match name.as_str() {
            "--layers" => study.layers = number()?,
            "--members" => study.members = number()?,
            "--requests" => study.requests = number()?,
            "--prompt" => study.prompt = number()?,
            "--written" => study.written = number()?,
            "--threads" => study.threads = number()?,
            "--wave-rows" => study.wave_rows = number()?,
            "--work" => work = Some(Work::named(value).ok_or(USAGE)?),
            _ => return Err(USAGE.into()),
        }
    }
    Ok((study, work))
}
