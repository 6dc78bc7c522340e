//! `fura bench`: the workloads of llama-bench and llama-batched-bench, and those of a population.

mod report;
mod workload;

use super::Outcome;
use super::args::{Bench, Common};
use super::session::{BLOCK, Session};
use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use workload::{Buffers, Crowd, Work};

/// Something that is measured once a round: seconds of its parts (prompts, then generation; or one of them).
struct Case {
    work: Work,
    samples: Vec<[f64; 2]>,
}

pub(crate) fn run(args: &Bench, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let model = session.model(&args.model, BLOCK, cancel)?;
    let context = model.config().context;
    let (prompt, generate) = (args.prompt as usize, args.generate as usize);
    let (pp, tg) = (args.batched_prompt as usize, args.batched_generate as usize);
    if prompt > context || generate > context || pp + tg > context {
        bail!("tokens of a sequence: at most {context} (the model's context)");
    }
    let layers = model.config().layers;
    if args.from_layer >= layers {
        bail!("--from-layer {}: the model has layers 0 to {}", args.from_layer, layers - 1);
    }
    let crowd = match args.members {
        0 => None,
        _ => Some(Crowd::new(&model, session.isa, args)?),
    };
    let mut works = Vec::new();
    works.extend((prompt > 0).then_some(Work::Prompt(prompt)));
    works.extend((generate > 0).then_some(Work::Generate(generate)));
    for &sequences in args.sequences.iter().filter(|n| **n > 0) {
        let sequences = sequences as usize;
        works.push(Work::Batched { pp, tg, sequences, perturbed: false });
        if crowd.is_some() {
            works.push(Work::Batched { pp, tg, sequences, perturbed: true });
        }
    }
    if crowd.is_some() {
        works.extend([Work::Score { perturbed: false }, Work::Score { perturbed: true }]);
    }
    if works.is_empty() {
        bail!("nothing to measure: --prompt, --generate, --sequences and --members are all 0");
    }
    let mut cases: Vec<Case> = works.into_iter().map(|work| Case { work, samples: Vec::new() }).collect();
    let works = cases.iter().map(|case| case.work);
    let mut buffers = Buffers::new(&session, &model, works, crowd, args.kv.into())?;
    session.pool.install(|| buffers.warm_up())?;
    // Rounds are interleaved, so that what else the machine does falls on all of them.
    for _ in 0..args.rounds {
        for case in &mut cases {
            if cancel.load(Ordering::Relaxed) {
                return Ok(Outcome::Interrupted);
            }
            case.samples.push(session.pool.install(|| buffers.measure(case.work, cancel))?);
        }
    }
    let setting = report::Setting { args, cpu: session.isa.tier().name(), threads: session.threads() };
    setting.print(&cases, common.json);
    Ok(Outcome::Done)
}
