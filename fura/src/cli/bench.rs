//! `fura bench`.

use super::Outcome;
use super::args::{Bench, Common};
use super::session::{BLOCK, Session};
use anyhow::{Result, bail};
use fura::model::{Base, Batch, Engine, KvCache, Model, Plan, Threads, Wanted, Workspace, argmax};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Rows of a pass that reads a prompt.
const ROWS: usize = 256;

/// One thing that is measured.
#[derive(Clone, Copy)]
enum Work {
    /// Reading a prompt of so many tokens; the logits of its last one.
    Prefill(usize),
    /// Generating so many tokens in each of several sequences, from an empty context.
    Decode { tokens: usize, sequences: usize },
}

struct Case {
    name: String,
    work: Work,
    threads: usize,
    rates: Vec<f64>,
}

pub(crate) fn run(args: &Bench, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let model = session.model(&args.model, BLOCK)?;
    let (prompt, tokens, sequences) = (args.prompt as usize, args.generate as usize, args.batch as usize);
    let context = model.config().context;
    if prompt > context || tokens > context {
        bail!("--prompt and --generate: at most {context} (the model's context)");
    }
    let mut cases = Vec::new();
    let mut counts = vec![1, session.threads()];
    counts.dedup();
    for threads in counts {
        let mut case = |name: String, work| cases.push(Case { name, work, threads, rates: Vec::new() });
        case(format!("pp{prompt}"), Work::Prefill(prompt));
        case(format!("tg{tokens}"), Work::Decode { tokens, sequences: 1 });
        if sequences > 1 {
            case(format!("tg{tokens}x{sequences}"), Work::Decode { tokens, sequences });
        }
    }
    let mut buffers = Buffers::new(&model, prompt, tokens, sequences);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    // Rounds are interleaved, so that what else the machine does falls on all of them; the first warms up.
    for round in 0..=args.rounds {
        for case in &mut cases {
            if cancel.load(Ordering::Relaxed) {
                return Ok(Outcome::Interrupted);
            }
            let pool = if case.threads == 1 { &one } else { &session.pool };
            let engine = Engine::new(&model, session.isa, Threads::Pool);
            let rate = pool.install(|| buffers.measure(&engine, case.work))?;
            if round > 0 {
                case.rates.push(rate);
            }
        }
    }
    report(&cases, session.isa.tier().name(), args, common);
    Ok(Outcome::Done)
}

struct Buffers {
    ws: Workspace,
    cache: KvCache,
    batch: Batch,
    logits: Vec<f32>,
    tokens: Vec<u32>,
    next: Vec<u32>,
}

impl Buffers {
    fn new(model: &Model, prompt: usize, tokens: usize, sequences: usize) -> Self {
        let c = model.config();
        let plan = Plan { rows: ROWS.max(sequences), sequences, positions: prompt.max(tokens) };
        // Any tokens will do: the work does not depend on which.
        let spread = |i: usize| (i * 7919 + 13) % c.vocab;
        Self {
            ws: Workspace::new(model, plan),
            cache: KvCache::new(c, prompt.max(tokens * sequences)),
            batch: Batch::with_capacity(plan.rows, sequences),
            logits: vec![0.0; sequences * c.vocab],
            tokens: (0..prompt).map(|i| spread(i) as u32).collect(),
            next: (0..sequences).map(|i| spread(i) as u32).collect(),
        }
    }

    /// Tokens per second.
    fn measure(&mut self, engine: &Engine<'_>, work: Work) -> Result<f64> {
        let vocab = engine.model().config().vocab;
        let start = Instant::now();
        let n = match work {
            Work::Prefill(n) => {
                let mut past = 0;
                for chunk in self.tokens.chunks(ROWS) {
                    self.batch.clear();
                    self.batch.push(0, chunk, past, 0);
                    engine.forward(&Base, &self.batch, Wanted::Last, &mut self.cache, &mut self.ws)?;
                    past += chunk.len();
                }
                engine.logits(&mut self.ws, 0, &mut self.logits[..vocab]);
                n
            }
            Work::Decode { tokens, sequences } => {
                let rows: Vec<usize> = (0..sequences).collect();
                for past in 0..tokens {
                    self.batch.clear();
                    for (i, token) in self.next[..sequences].iter().enumerate() {
                        self.batch.push(0, &[*token], past, i * tokens);
                    }
                    engine.forward(&Base, &self.batch, Wanted::Last, &mut self.cache, &mut self.ws)?;
                    let logits = &mut self.logits[..sequences * vocab];
                    engine.logits_of_rows(&mut self.ws, &rows, logits);
                    for (next, logits) in self.next.iter_mut().zip(logits.chunks_exact(vocab)) {
                        *next = argmax(logits) as u32;
                    }
                }
                tokens * sequences
            }
        };
        Ok(n as f64 / start.elapsed().as_secs_f64())
    }
}

fn report(cases: &[Case], tier: &str, args: &Bench, common: &Common) {
    let mut lines = Vec::new();
    if !common.json {
        println!("kernels     {tier}, {} rounds, tokens per second", args.rounds);
        println!("{:<12}{:>8}{:>10}{:>10}{:>10}", "", "threads", "median", "lowest", "highest");
    }
    for case in cases {
        let mut rates = case.rates.clone();
        rates.sort_by(f64::total_cmp);
        let (low, high) = (rates[0], rates[rates.len() - 1]); // at least one round
        let median = (rates[(rates.len() - 1) / 2] + rates[rates.len() / 2]) / 2.0;
        if common.json {
            lines.push(json!({
                "name": case.name, "threads": case.threads, "median": median, "low": low, "high": high,
            }));
        } else {
            println!("{:<12}{:>8}{median:>10.1}{low:>10.1}{high:>10.1}", case.name, case.threads);
        }
    }
    if common.json {
        let model = args.model.display().to_string();
        println!("{}", json!({"model": model, "cpu": tier, "rounds": args.rounds, "cases": lines}));
    }
}
