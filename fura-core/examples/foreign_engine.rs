//! An engine that has never heard of fura, trained by `fura-core` alone.
//!
//! The engine is a classifier of two layers with 4-bit weights in a layout of its own, evaluated by threads of its
//! own. It was made for four sensors of eight channels each; somebody's sensors have other gains, and it
//! misclassifies. Its weights are frozen; what is trained is a specialist of 80 numbers.
//!
//! It shows how to embed the crate and is no evidence of what FuRA-S can learn: the problem was chosen to suit it. With
//! a gain for each channel (2^1.5 up or down) held-out accuracy rose from 0.597 to 0.652, and to 0.662 with more
//! generations; with gains of 2 up or down from 0.708 to 0.740. Only then was one gain for each sensor taken, which is
//! one for each block and can be undone exactly in direction, and the fourth of four settings tried for it is below:
//! 0.611 to 0.765, one seed.
//!
//! `cargo run --release -p fura-core --example foreign_engine`

use std::error::Error;

use fura_core::estimator::{EsConfig, Estimator, Member, Schedule};
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{Layout, Linear};
use fura_core::runlog::{RunHeader, RunLog};
use fura_core::specialist::{Provenance, Specialist};
use fura_core::spectrum::Decomposer;
use fura_core::transform::{Isa, Transform};

const INPUTS: usize = 32;
const HIDDEN: usize = 48;
const CLASSES: usize = 6;
const BLOCK: usize = 8;
/// What the sensors multiply their readings by.
const GAINS: [f32; INPUTS / BLOCK] = [3.0, 1.0, 0.3, 0.8];
const GENERATIONS: u32 = 150;
const BATCH: usize = 96;

/// The engine's matrix: columns of 4-bit codes, two a byte, and a scale for each row.
struct Nibbles {
    rows: usize,
    columns: Vec<Vec<u8>>,
    scales: Vec<f32>,
}

impl Nibbles {
    fn quantize(rows: usize, cols: usize, weight: impl Fn(usize, usize) -> f32) -> Self {
        let largest = |r| (0..cols).map(|c| weight(r, c).abs()).fold(1e-9, f32::max);
        let scales: Vec<f32> = (0..rows).map(|r| largest(r) / 7.0).collect();
        let code = |r: usize, c: usize| (weight(r, c) / scales[r]).round() as i8;
        let byte = |r: usize, c: usize| (code(r + 1, c) + 8) as u8 * 16 + (code(r, c) + 8) as u8;
        let columns = (0..cols).map(|c| (0..rows).step_by(2).map(|r| byte(r, c)).collect()).collect();
        Self { rows, columns, scales }
    }

    fn weight(&self, r: usize, c: usize) -> f32 {
        let byte = self.columns[c][r / 2];
        let code = if r.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
        self.scales[r] * f32::from(code as i8 - 8)
    }

    fn multiply(&self, x: &[f32], y: &mut [f32]) {
        y.fill(0.0);
        for (column, x) in self.columns.iter().zip(x) {
            for (pair, byte) in y.chunks_exact_mut(2).zip(column) {
                pair[0] += f32::from((byte & 15) as i8 - 8) * x;
                pair[1] += f32::from((byte >> 4) as i8 - 8) * x;
            }
        }
        y.iter_mut().zip(&self.scales).for_each(|(y, scale)| *y *= scale);
    }

    /// What fura-core wants to see once: plain rows.
    fn rows(&self) -> Vec<f32> {
        (0..self.rows).flat_map(|r| (0..self.columns.len()).map(move |c| self.weight(r, c))).collect()
    }
}

/// The engine: two matrices and a rectifier.
struct Engine {
    layers: [Nibbles; 2],
}

impl Engine {
    /// Logits of one input. `adapt` is all that fura-core needs: it may change a layer's input.
    fn forward(&self, x: &[f32], mut adapt: impl FnMut(usize, &[f32], &mut [f32])) -> [f32; CLASSES] {
        let (mut input, mut hidden, mut changed) = ([0.0; INPUTS], [0.0; HIDDEN], [0.0; HIDDEN]);
        let mut logits = [0.0; CLASSES];
        adapt(0, x, &mut input);
        self.layers[0].multiply(&input, &mut hidden);
        hidden.iter_mut().for_each(|h| *h = h.max(0.0));
        adapt(1, &hidden, &mut changed);
        self.layers[1].multiply(&changed, &mut logits);
        logits
    }
}

/// The engine's random numbers.
struct Lehmer(u64);

impl Lehmer {
    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(0xda94_2042_e4dd_58b5).wrapping_add(1);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }

    fn bell(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

/// An input as the odd sensors report it, and its class.
type Sample = ([f32; INPUTS], usize);

fn samples(engine: &Engine, count: usize, random: &mut Lehmer) -> Vec<Sample> {
    let gain = |i: usize| GAINS[i / BLOCK];
    let sample = |_| {
        let truth: [f32; INPUTS] = std::array::from_fn(|_| random.bell());
        let logits = engine.forward(&truth, |_, x, y| y[..x.len()].copy_from_slice(x));
        (std::array::from_fn(|i| gain(i) * truth[i]), best(&logits))
    };
    (0..count).map(sample).collect()
}

fn best(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}

/// Log-probability of the right class.
fn log_probability(logits: &[f32], class: usize) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|l| (l - largest).exp()).sum();
    f64::from(logits[class] - largest - sum.ln())
}

/// One member's coordinates, ready to apply: the engine keeps one of these for each of its threads.
struct Adapter<'a> {
    layout: &'a Layout,
    bases: &'a [Vec<f32>],
    transforms: [Transform; 2],
    coordinates: Vec<f32>,
}

impl<'a> Adapter<'a> {
    fn new(layout: &'a Layout, bases: &'a [Vec<f32>]) -> Self {
        let transforms = [Transform::for_layout(layout), Transform::for_layout(layout)];
        Self { layout, bases, transforms, coordinates: vec![0.0; HIDDEN] }
    }

    /// Takes the coordinates that `read` writes for each layer.
    fn load(&mut self, read: impl Fn(std::ops::Range<usize>, &mut [f32])) {
        for (l, transform) in self.transforms.iter_mut().enumerate() {
            let range = self.layout.range(l);
            let c = &mut self.coordinates[..range.len()];
            read(range, c);
            transform.materialize(Isa::detect(), &self.bases[l], c, BLOCK);
        }
    }

    fn logits(&self, engine: &Engine, x: &[f32]) -> [f32; CLASSES] {
        engine.forward(x, |layer, x, y| self.transforms[layer].apply(Isa::detect(), x, y))
    }

    fn accuracy(&self, engine: &Engine, samples: &[Sample]) -> f64 {
        let right = samples.iter().filter(|(x, class)| best(&self.logits(engine, x)) == *class).count();
        right as f64 / samples.len() as f64
    }
}

/// Every member's mean log-probability, members shared out to the engine's own threads.
fn evaluate(
    engine: &Engine,
    layout: &Layout,
    bases: &[Vec<f32>],
    estimator: &Estimator,
    batch: &[Sample],
) -> Vec<f64> {
    let members: Vec<Member> = estimator.ask().members().collect();
    let mut rewards = vec![0.0; members.len()];
    let share = members.len().div_ceil(2);
    std::thread::scope(|scope| {
        for (members, rewards) in members.chunks(share).zip(rewards.chunks_mut(share)) {
            scope.spawn(move || {
                let mut adapter = Adapter::new(layout, bases);
                for (&member, reward) in members.iter().zip(rewards) {
                    adapter.load(|range, c| estimator.member_coordinates(member, range, c));
                    let sum: f64 = batch
                        .iter()
                        .map(|(x, class)| log_probability(&adapter.logits(engine, x), *class))
                        .sum();
                    *reward = sum / batch.len() as f64;
                }
            });
        }
    });
    rewards
}

/// Trains; returns the accuracy on held-out inputs before and after.
pub fn train() -> Result<(f64, f64), Box<dyn Error>> {
    let mut random = Lehmer(1);
    let mut matrix = |rows: usize, cols: usize| {
        let dense: Vec<f32> = (0..rows * cols).map(|_| random.bell() / (cols as f32).sqrt()).collect();
        Nibbles::quantize(rows, cols, |r, c| dense[r * cols + c])
    };
    let engine = Engine { layers: [matrix(HIDDEN, INPUTS), matrix(CLASSES, HIDDEN)] };
    let heldout = samples(&engine, 2000, &mut Lehmer(2));

    // At load: where coordinates live, and the base model's block spectra.
    let layout =
        Layout::new(BLOCK, [Linear::new("hidden", HIDDEN, INPUTS), Linear::new("classes", CLASSES, HIDDEN)])?;
    let mut decomposer = Decomposer::default();
    let mut bases = Vec::new();
    let mut fingerprint = String::new();
    for (layer, linear) in engine.layers.iter().zip(layout.linears()) {
        let rows = layer.rows();
        bases.push(decomposer.decompose_linear(&rows, linear.d_out, linear.d_in, BLOCK)?.v().to_vec());
        let bytes: Vec<u8> = rows.iter().flat_map(|w| w.to_le_bytes()).collect();
        fingerprint += &Fingerprint::of(&bytes).to_string();
    }
    let base = Fingerprint::of_description("foreign engine v1", &fingerprint);
    let mut adapter = Adapter::new(&layout, &bases);
    adapter.load(|_, c| c.fill(0.0));
    let before = adapter.accuracy(&engine, &heldout);

    // Training: ask, evaluate, log, tell.
    let schedule = Schedule::Linear { fraction: 0.1, generations: GENERATIONS };
    let config = EsConfig { seed: 5, pairs: 8, sigma: 0.1, alpha: 0.1, schedule, ..EsConfig::default() };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.furalog");
    let mut log =
        RunLog::create(&path, &RunHeader::new(base, layout.clone(), config.clone(), "odd sensors"))?;
    let mut estimator = Estimator::new(config, &layout)?;
    for generation in 0..GENERATIONS {
        let batch = samples(&engine, BATCH, &mut Lehmer(100 + u64::from(generation)));
        let rewards = evaluate(&engine, &layout, &bases, &estimator, &batch);
        log.append_generation(&rewards)?;
        let report = estimator.tell(&rewards)?;
        if generation.is_multiple_of(30) {
            println!("generation {generation:3}: mean log-probability {:.3}", report.mean);
        }
    }
    log.finish()?;

    // Shipping: the coordinates as a file, or the log alone; both are the same specialist.
    let rebuilt = Specialist::from_run_log(&RunLog::read(&std::fs::read(&path)?, &path)?)?;
    let file = folder.path().join("sensors.safetensors");
    let provenance = Provenance { name: "odd sensors".into(), ..Provenance::default() };
    Specialist::new(base, layout.clone(), estimator.final_coordinates(), provenance)?.save(&file)?;

    // Running it: check that it belongs to this model, then transform every layer's input.
    let specialist = Specialist::load(&file)?;
    specialist.check_base(&base, &layout)?;
    assert_eq!(specialist.coordinates(), rebuilt.coordinates());
    adapter.load(|range, c| c.copy_from_slice(&specialist.coordinates()[range]));
    Ok((before, adapter.accuracy(&engine, &heldout)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (before, after) = train()?;
    println!("accuracy on 2000 held-out inputs: base {before:.3}, specialist {after:.3}");
    Ok(())
}
