//! What is measured.

use crate::cli::args::Bench;
use crate::cli::session::Session;
use anyhow::Result;
use fura::core::estimator::{EsConfig, Estimator};
use fura::core::layout::Layout;
use fura::model::{
    Base, Batch, ChoiceTree, Engine, KvCache, Members, Model, Plan, Population, Precision, Shared, Threads,
    Wanted, Workspace, argmax,
};
use fura::question::Question;
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::simd::Isa;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Rows of a pass that reads prompts.
const ROWS: usize = 256;
/// Scored questions, their tokens, and the answers among which each chooses: a generation of habits.
pub(super) const QUESTIONS: usize = 24;
pub(super) const QUESTION_TOKENS: usize = 30;
pub(super) const ANSWERS: [&str; 6] = [" A", " B", " C", " D", " E", " F"];

/// One thing that is measured.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// Reading a prompt of so many tokens; the logits of its last one.
    Prompt(usize),
    /// Generating so many tokens from an empty context.
    Generate(usize),
    /// Reading a prompt of `pp` tokens in each of several sequences, then generating `tg` in each, side by side.
    Batched { pp: usize, tg: usize, sequences: usize, perturbed: bool },
    /// Scoring questions for every member.
    Score { perturbed: bool },
}

impl Work {
    /// Sequences side by side, and the most tokens of each.
    fn size(self) -> (usize, usize) {
        match self {
            Work::Prompt(n) | Work::Generate(n) => (1, n),
            Work::Batched { pp, tg, sequences, .. } => (sequences, pp + tg),
            Work::Score { .. } => (1, 1),
        }
    }
}

/// A population: members that are the base plus noise in the layers from `from_layer` on.
pub(super) struct Crowd {
    members: usize,
    from_layer: usize,
    layout: Layout,
    estimator: Estimator,
}

impl Crowd {
    pub(super) fn new(model: &Model, isa: Isa, args: &Bench) -> Result<Self> {
        let (members, from_layer) = (args.members, args.from_layer);
        let layout = model.layout_from(from_layer).with_form(args.form);
        let config = EsConfig { pairs: members.div_ceil(2), sigma: 0.1, ..EsConfig::default() };
        let estimator = Estimator::new(config, &layout)?.on(isa);
        Ok(Self { members: members as usize, from_layer, layout, estimator })
    }
}

/// Everything that measuring needs, allocated once.
pub(super) struct Buffers<'m> {
    engine: Engine<'m>,
    crowd: Option<Crowd>,
    scorer: Scorer<'m>,
    questions: Vec<Question>,
    ws: Workspace,
    cache: KvCache,
    batch: Batch,
    logits: Vec<f32>,
    rows: Vec<usize>,
    tokens: Vec<u32>,
    next: Vec<u32>,
}

impl<'m> Buffers<'m> {
    pub(super) fn new(
        session: &Session,
        model: &'m Model,
        works: impl Iterator<Item = Work>,
        crowd: Option<Crowd>,
        kv: Precision,
    ) -> Result<Self> {
        let c = model.config();
        let (mut sequences, mut positions, mut cached) = (1, 1, 1);
        for (n, tokens) in works.map(Work::size) {
            sequences = sequences.max(n);
            positions = positions.max(tokens);
            cached = cached.max(n * tokens);
        }
        let plan = Plan { rows: ROWS.max(sequences), sequences, positions };
        // Any tokens will do: the work does not depend on which.
        let spread = |i: usize| ((i * 7919 + 13) % c.vocab) as u32;
        let tree = ChoiceTree::new(model.tokenizer(), &ANSWERS)?;
        let question = |i: usize| Question {
            prompt: (0..QUESTION_TOKENS).map(|j| spread(i * QUESTION_TOKENS + j)).collect(),
            tree: tree.clone(),
            rewards: vec![0.0; ANSWERS.len()],
        };
        let questions = if crowd.is_some() { (0..QUESTIONS).map(question).collect() } else { Vec::new() };
        Ok(Self {
            engine: Engine::new(model, session.isa, Threads::Pool),
            crowd,
            scorer: Scorer::new(model, session.isa, session.threads(), WAVE_ROWS),
            questions,
            ws: Workspace::new(model, plan),
            cache: KvCache::with_precision(c, cached, kv),
            batch: Batch::with_capacity(plan.rows, sequences),
            logits: vec![0.0; sequences * c.vocab],
            rows: (0..sequences).collect(),
            tokens: (0..positions).map(spread).collect(),
            next: (0..sequences).map(spread).collect(),
        })
    }

    /// A short pass of each kind: the weights come into memory, the threads wake up.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        self.batched(self.tokens.len().min(16), 0, 1, false)?;
        self.batched(0, 1, 1, false)?;
        Ok(())
    }

    /// Seconds of reading prompts and of generating; those of scoring count as the former.
    pub(super) fn measure(&mut self, work: Work, cancel: &AtomicBool) -> Result<[f64; 2]> {
        match work {
            Work::Prompt(pp) => self.batched(pp, 0, 1, false),
            Work::Generate(tg) => self.batched(0, tg, 1, false),
            Work::Batched { pp, tg, sequences, perturbed } => self.batched(pp, tg, sequences, perturbed),
            Work::Score { perturbed } => self.score(perturbed, cancel),
        }
    }

    fn batched(&mut self, pp: usize, tg: usize, sequences: usize, perturbed: bool) -> Result<[f64; 2]> {
        let population;
        let (members, count): (&dyn Members, usize) = match &self.crowd {
            Some(crowd) if perturbed => {
                population =
                    Population::new(&crowd.estimator, self.engine.model(), &crowd.layout, crowd.from_layer);
                (&population, crowd.members)
            }
            _ => (&Base, 1),
        };
        // Sequences of one member lie side by side.
        let member = |i: usize| (i * count.min(sequences) / sequences) as u32;
        let vocab = self.engine.model().config().vocab;
        let length = pp + tg;
        let start = Instant::now();
        // Passes hold whole sequences where they fit, and pieces of one where they do not.
        let together = (ROWS / pp.max(1)).max(1);
        let mut first = 0;
        while pp > 0 && first < sequences {
            let n = together.min(sequences - first);
            let mut past = 0;
            for piece in self.tokens[..pp].chunks(ROWS) {
                self.batch.clear();
                for i in first..first + n {
                    self.batch.push(member(i), piece, past, i * length);
                }
                self.engine.forward(members, &self.batch, Wanted::Last, &mut self.cache, &mut self.ws)?;
                past += piece.len();
            }
            self.engine.logits_of_rows(&mut self.ws, &self.rows[..n], &mut self.logits[..n * vocab]);
            first += n;
        }
        let read = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for past in pp..length {
            self.batch.clear();
            for (i, token) in self.next[..sequences].iter().enumerate() {
                self.batch.push(member(i), &[*token], past, i * length);
            }
            self.engine.forward(members, &self.batch, Wanted::Last, &mut self.cache, &mut self.ws)?;
            let logits = &mut self.logits[..sequences * vocab];
            self.engine.logits_of_rows(&mut self.ws, &self.rows[..sequences], logits);
            for (next, logits) in self.next.iter_mut().zip(logits.chunks_exact(vocab)) {
                *next = argmax(logits) as u32;
            }
        }
        Ok([read, start.elapsed().as_secs_f64()])
    }

    fn score(&mut self, perturbed: bool, cancel: &AtomicBool) -> Result<[f64; 2]> {
        let Some(crowd) = &self.crowd else { return Ok([0.0; 2]) };
        let start = Instant::now();
        let (count, shared) = (crowd.members, Shared::Layers(crowd.from_layer));
        if perturbed {
            let members =
                Population::new(&crowd.estimator, self.engine.model(), &crowd.layout, crowd.from_layer);
            self.scorer.score(&members, count, shared, &self.questions, cancel)?;
        } else {
            self.scorer.score(&Base, count, shared, &self.questions, cancel)?;
        }
        Ok([start.elapsed().as_secs_f64(), 0.0])
    }
}
