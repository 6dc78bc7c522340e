//! One measurement: a generation of training, or inference at the same batch.

use crate::{BLOCK, Study};
use fura::answerer::Answerer;
use fura::judge::Judge;
use fura::model::{Base, Model, Shared};
use fura::reward::Reward;
use fura::scorer::Scorer;
use fura::simd::Isa;
use fura::tasks::{TaskSet, TaskSource};
use fura::trainer::{Answers, RunPlan, Trainer};
use fura::writer::Writer;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    written: bool,
    training: bool,
}

impl Work {
    /// Everything.
    pub const ALL: [Work; 4] = [
        Work { written: false, training: false },
        Work { written: false, training: true },
        Work { written: true, training: false },
        Work { written: true, training: true },
    ];

    /// A name for the command line.
    pub fn name(self) -> &'static str {
        match (self.written, self.training) {
            (false, false) => "scored-inference",
            (false, true) => "scored-training",
            (true, false) => "written-inference",
            (true, true) => "written-training",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|w| w.name() == name)
    }
}

/// Runs one measurement and prints it.
///
/// # Errors
/// Whatever reading, training or the system's account of memory gives.
pub fn run(study: &Study, file: &Path, work: Work) -> Result<(), Box<dyn Error>> {
    let model = Model::open(file, &study.folder, BLOCK, &mut |_, _| ControlFlow::Continue(()))?;
    let isa = Isa::detect();
    match work.written {
        false => measure(study, work, &model, Scorer::new(&model, isa, study.threads, study.wave_rows)),
        true => measure(study, work, &model, Writer::new(&model, isa, study.threads, Judge::Own, 0.0)),
    }
}

fn measure<A: Answerer + Send>(
    study: &Study,
    work: Work,
    model: &Model,
    mut answerer: A,
) -> Result<(), Box<dyn Error>>
where
    A::Question: Sync,
{
    let pool = rayon::ThreadPoolBuilder::new().num_threads(study.threads).build()?;
    let set = TaskSet::read("prompts.jsonl", tasks(study, model)?.as_bytes())?;
    let source = TaskSource::File { set, seed: 1 };
    let log = tempfile::tempdir()?;
    let log = log.path().join("run.runlog");
    let answers = if work.written { Answers::Written { temperature: 0.0 } } else { Answers::Scored };
    let plan = RunPlan {
        tasks: source.describe(),
        requests: study.requests,
        reward: Reward::Expected,
        answers,
        generations: 1,
    };
    let cancel = AtomicBool::new(false);
    let questions = fura::trainer::training(&answerer, &source, 0, &plan)?;
    let before = private_bytes()?;
    let start = Instant::now();
    let (peak, done) = watched(|| -> Result<(), Box<dyn Error>> {
        if work.training {
            let mut trainer = Trainer::create(model, model.layout_from(0), plan, study.config(), &log)?;
            pool.install(|| trainer.step(&mut answerer, &questions, &cancel))?;
        } else {
            let mut fitness = Vec::new();
            pool.install(|| {
                answerer.fitness(
                    &Base,
                    study.members,
                    Shared::Layers(0),
                    &questions,
                    Reward::Expected,
                    &mut fitness,
                    &cancel,
                )
            })?;
        }
        Ok(())
    })?;
    done?;
    let shape = study.shape(work.written);
    let planned = match work.training {
        true => shape.training_bytes(model.config(), BLOCK, &study.config()),
        false => shape.inference_bytes(model.config(), BLOCK),
    };
    let took = peak.saturating_sub(before);
    println!(
        "{:<18} planned {:.1} MB, took {:.1} MB ({:+.1} %); private in all {:.1} MB, {:.1} MB of it before; {:.0} s",
        work.name(),
        planned as f64 / 1e6,
        took as f64 / 1e6,
        100.0 * (took as f64 / planned as f64 - 1.0),
        peak as f64 / 1e6,
        before as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A task file of so many prompts of exactly so many tokens.
fn tasks(study: &Study, model: &Model) -> Result<String, Box<dyn Error>> {
    let mut out = format!(
        "{{\"fura_tasks\":1,\"defaults\":{{\"grade\":{{\"type\":\"exact\"}},\"choices\":[\"y\",\"n\"],\"max_tokens\":{}}}}}\n",
        study.written
    );
    let letters = "bcdfghjklmnpqrstvwxz";
    for i in 0..study.requests {
        let mut prompt = String::new();
        let mut character = letters.chars().cycle().skip(i);
        while model.tokenizer().encode(&prompt, fura::model::tokenizer::Specials::Ignore)?.len()
            < study.prompt
        {
            prompt.extend(character.next());
        }
        out += &format!("{{\"id\":\"p{i}\",\"prompt\":\"{prompt}\",\"answer\":\"y\"}}\n");
    }
    Ok(out)
}

/// The largest private memory while `f` runs, looked at 200 times a second.
fn watched<T>(f: impl FnOnce() -> T) -> Result<(u64, T), Box<dyn Error>> {
    let (peak, over) = (AtomicU64::new(private_bytes()?), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(private_bytes().unwrap_or_default(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let result = f();
        peak.fetch_max(private_bytes().unwrap_or_default(), Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        result
    });
    Ok((peak.into_inner(), result))
}

/// Anonymous resident memory: what this process alone holds, without the memory-mapped model.
fn private_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|l| l.strip_prefix("RssAnon:")).ok_or("no RssAnon in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}
