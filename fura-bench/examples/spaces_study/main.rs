//! Spaces beside each other on the real model: FuRA-S, its controls (random bases, channel scaling, one block), LoRA, every
//! weight, and QES on the integer codes, searched by the same estimator with the same questions, members and generations;
//! a table in Markdown.
//!
//! `cargo run --release -p fura-bench --example spaces_study -- MODEL [NAME=VALUE ...]`
//!
//! Names and defaults: `user=101` of the habits, `users=1` how many, `spaces=fura,random,channels,lora,lora_b,full,qes`
//! (and `svf`, which takes minutes a generation: its transforms are as wide as the linears),
//! `sigma=` a list (by default a grid for each space), `qes_alpha=0.001`, `generations=100`, `pairs=32`, `requests=24`, `questions=200` held-out
//! ones of each kind, `seed=0` of the perturbations, `block=32`.
//!
//! What is searched is the last layer after attention (four linears), computed in f32 on the dequantized INT4 weights, so
//! that spaces that perturb weights and those that transform inputs are computed alike; the layers below are the base's.
//! The step size is half of sigma, times the root of a sixteenth of the pairs, as by default in `fura train`; QES has one
//! of its own.

mod layer;
mod prepared;
mod spaces;

use fura::core::space::Population;
use fura::model::Model;
use fura::question::Question;
use fura::simd::Isa;
use fura::tasks::{Habits, TaskSource};
use layer::TopLayer;
use prepared::{Answers, Prepared};
use rayon::prelude::*;
use spaces::{Kind, Settings};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Fitness and success of the point where a search stands.
fn measure(layer: &TopLayer, population: &(dyn Population + Sync), set: &Prepared) -> Answers {
    layer.answers(population, None, set, &mut Default::default())
}

/// Trains on the generations' questions, one after another.
fn train(layer: &TopLayer, population: &mut (dyn Population + Sync), generations: &[Prepared]) -> Result<()> {
    for questions in generations {
        let members: Vec<_> = population.ask().members().collect();
        let shared = &*population;
        let rewards: Vec<f64> = members
            .par_iter()
            .map_init(layer::Buffers::default, |buffers, member| {
                layer.answers(shared, Some(*member), questions, buffers).fitness
            })
            .collect();
        population.tell(&rewards)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path: PathBuf = args.next().ok_or("usage: spaces_study MODEL [NAME=VALUE ...]")?.into();
    let mut given: Vec<(String, String)> = args
        .map(|a| a.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned())).ok_or(a))
        .collect::<std::result::Result<_, _>>()?;
    let mut text = |name: &str, default: &str| -> String {
        let at = given.iter().position(|(n, _)| n == name);
        at.map_or(default.to_owned(), |at| given.swap_remove(at).1)
    };
    let (first, users): (u64, u64) = (text("user", "101").parse()?, text("users", "1").parse()?);
    let spaces = text("spaces", "fura,random,channels,lora,lora_b,full,qes");
    let kinds: Vec<Kind> = spaces.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
    let sigma = text("sigma", "");
    let sigmas: Vec<f32> =
        sigma.split(',').filter(|s| !s.is_empty()).map(str::parse).collect::<std::result::Result<_, _>>()?;
    let settings = Settings {
        generations: text("generations", "100").parse()?,
        pairs: text("pairs", "32").parse()?,
        seed: text("seed", "0").parse()?,
        block: text("block", "32").parse()?,
        qes_alpha: text("qes_alpha", "0.001").parse()?,
    };
    let (requests, n): (usize, usize) = (text("requests", "24").parse()?, text("questions", "200").parse()?);
    if let Some((name, _)) = given.first() {
        return Err(format!("unknown setting '{name}'").into());
    }

    let model = Model::open(&path, path.parent().unwrap_or(Path::new(".")), 32, &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    let layer = TopLayer::load(&model, &path)?;
    let isa = Isa::detect();
    println!(
        "Last layer after attention, {} generations of {} pairs, {requests} requests each.\n",
        settings.generations, settings.pairs
    );
    println!("| user | space | coordinates | sigma | fitness | held out | phrasings | seconds |");
    println!("|---|---|---|---|---|---|---|---|");
    for user in first..first + users {
        let source = TaskSource::Habits(Habits::new(user));
        let prepared = |tasks: &[fura::tasks::Task]| -> Result<Prepared> {
            Prepared::new(&model, isa, &layer, Question::all(&model, tasks)?)
        };
        let generations: Vec<Prepared> =
            (0..settings.generations).map(|g| prepared(&source.train(g, requests))).collect::<Result<_>>()?;
        let (heldout, phrasings) = (prepared(&source.heldout(n))?, prepared(&source.phrasings(n))?);
        let row = |name: &str,
                   coordinates: String,
                   sigma: String,
                   p: &(dyn Population + Sync),
                   seconds: f64| {
            let (h, f) = (measure(&layer, p, &heldout), measure(&layer, p, &phrasings));
            println!(
                "| {user} | {name} | {coordinates} | {sigma} | {:.3} | {:.1} % | {:.1} % | {seconds:.0} |",
                h.fitness,
                100.0 * h.success,
                100.0 * f.success
            );
        };
        let mut base_is_shown = false;
        for kind in &kinds {
            for sigma in if sigmas.is_empty() { kind.grid() } else { &sigmas } {
                let (mut population, coordinates) = kind.search(&layer, *sigma, &settings)?;
                // Every search begins at the base.
                if !std::mem::replace(&mut base_is_shown, true) {
                    row("base", String::new(), String::new(), &*population, 0.0);
                }
                let start = Instant::now();
                train(&layer, &mut *population, &generations)?;
                let seconds = start.elapsed().as_secs_f64();
                row(kind.name(), coordinates.to_string(), sigma.to_string(), &*population, seconds);
            }
        }
    }
    Ok(())
}
