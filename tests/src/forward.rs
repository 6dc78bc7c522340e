//! Logits of a model, position by position, to compare with another implementation's.

use fura_model::{Base, Batch, Engine, KvCache, Model, Plan, Threads, Wanted, Workspace};
use fura_simd::Isa;

/// Logits of all positions of one sequence, forwarded in chunks.
///
/// # Panics
/// If the model cannot compute them.
pub fn logits(model: &Model, isa: Isa, threads: Threads, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let n = tokens.len();
    let mut ws = Workspace::new(model, Plan { rows: chunk, sequences: 1, positions: n });
    let mut cache = KvCache::new(model.config(), n);
    let engine = Engine::new(model, isa, threads);
    let vocab = model.config().vocab;
    let mut out = vec![0.0; n * vocab];
    for (i, part) in tokens.chunks(chunk).enumerate() {
        let mut batch = Batch::default();
        batch.push(0, part, i * chunk, 0);
        engine.forward(&Base, &batch, Wanted::All, &mut cache, &mut ws).expect("planned");
        for row in 0..part.len() {
            engine.logits(&mut ws, row, &mut out[(i * chunk + row) * vocab..][..vocab]);
        }
    }
    out
}

/// Root of the mean squared difference.
pub fn rms(a: &[f32], b: &[f32]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}
