//! Tiny models of every architecture against transformers (files and logits written by
//! `scripts/golden/architectures.py`).

use fura_model::{Base, Batch, Engine, KvCache, Model, Plan, Threads, Wanted, Workspace};
use fura_simd::Isa;
use fura_tests::forward::{logits, rms};
use fura_tests::reference::kl;
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const MODELS: [&str; 11] = [
    "llama",
    "llama-linear",
    "llama-3",
    "mistral",
    "smollm3",
    "qwen2",
    "qwen3",
    "phi3",
    "phi3-long",
    "gemma2",
    "gemma3",
];

fn golden(name: &str, extension: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/architectures");
    folder.join(format!("{name}.{extension}"))
}

struct Golden {
    tokens: Vec<u32>,
    /// Logits of transformers in f32, and with int8 inputs of the linears.
    exact: Vec<f32>,
    int8: Vec<f32>,
    /// How far the logits of transformers move without a feature.
    without: Vec<(String, f64)>,
}

fn read(name: &str) -> Golden {
    let facts: Value = serde_json::from_slice(&std::fs::read(golden(name, "json")).unwrap()).unwrap();
    let tokens = facts["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
    let bytes = std::fs::read(golden(name, "logits")).unwrap();
    let all: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let (exact, int8) = all.split_at(all.len() / 2);
    let without = facts["without_it_moves"].as_object().unwrap();
    Golden {
        tokens,
        exact: exact.to_vec(),
        int8: int8.to_vec(),
        without: without.iter().map(|(k, v)| (k.clone(), v.as_f64().unwrap())).collect(),
    }
}

fn open(name: &str) -> (Model, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&golden(name, "gguf"), folder.path(), 32, &mut |_, _| ControlFlow::Continue(()));
    (model.unwrap_or_else(|e| panic!("{e}")), folder)
}

/// With the same int8 inputs the two computations differ in the order of f32 operations only: on a logit's way there
/// are at most eight products and norms a layer, each of at most `d_ff` roundings of `2^-24`. (A code next to a rounding
/// boundary could fall on its other side; with these files none does, and exactness makes that so on every machine.)
/// Any feature of a model is worth far more.
#[test]
fn logits_are_those_of_transformers() {
    for name in MODELS {
        let golden = read(name);
        let (model, _folder) = open(name);
        let ours = logits(&model, Isa::detect(), Threads::Serial, &golden.tokens, golden.tokens.len());
        let (off, int8) = (rms(&ours, &golden.int8), rms(&golden.int8, &golden.exact));
        let vocab = model.config().vocab;
        let rows = golden.exact.chunks_exact(vocab).zip(ours.chunks_exact(vocab));
        let mean_kl = rows.map(|(e, o)| kl(e, o)).sum::<f64>() / golden.tokens.len() as f64;
        println!("{name}: from int8 {off:.2e}, int8 from f32 {int8:.2e}, KL from f32 {mean_kl:.2e}");
        let zeros = vec![0.0; golden.exact.len()];
        let c = model.config();
        let roundings = (8 * c.layers * c.d_ff.max(c.d_model)) as f64;
        let bound = rms(&golden.exact, &zeros) * roundings * 2f64.powi(-24);
        assert!(off < bound, "{name}: {off} from the logits with int8 inputs, more than rounding, {bound}");
        assert!(!golden.without.is_empty(), "{name}: no feature is checked");
        for (feature, moves) in golden.without {
            assert!(off < moves / 20.0, "{name}: {off} off cannot tell '{feature}', worth {moves}");
        }
    }
}

/// Where the long factors of Phi-3's rotary scaling would begin, the context ends: they are not computed.
#[test]
fn a_context_ends_where_the_long_factors_would_begin() {
    let context = |name| open(name).0.config().context;
    assert_eq!(context("phi3-long"), 64, "the file says 256, and 64 before stretching");
    assert_eq!(context("phi3"), 256);
}

#[test]
fn bits_do_not_depend_on_tier_threads_chunks_or_batch() {
    let bits = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    for name in MODELS {
        let tokens = read(name).tokens;
        let (model, _folder) = open(name);
        let reference = logits(&model, Isa::scalar(), Threads::Serial, &tokens, tokens.len());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for isa in Isa::available() {
            for chunk in [1, 7, tokens.len()] {
                let serial = logits(&model, isa, Threads::Serial, &tokens, chunk);
                assert_eq!(bits(&reference), bits(&serial), "{name} {isa:?} chunk {chunk}");
                let pooled = pool.install(|| logits(&model, isa, Threads::Pool, &tokens, chunk));
                assert_eq!(bits(&reference), bits(&pooled), "{name} {isa:?} chunk {chunk} pool");
            }
            // Among others, at another place of the cache.
            let mut ws = Workspace::new(&model, Plan { rows: 160, sequences: 3, positions: 64 });
            let mut cache = KvCache::new(model.config(), 200);
            let mut batch = Batch::default();
            batch.push(1, &tokens[..17], 0, 0);
            batch.push(0, &tokens, 0, 100);
            batch.push(2, &tokens[5..9], 0, 60);
            let engine = Engine::new(&model, isa, Threads::Serial);
            engine.forward(&Base, &batch, Wanted::Last, &mut cache, &mut ws).unwrap();
            let vocab = model.config().vocab;
            let mut last = vec![0.0; vocab];
            engine.logits(&mut ws, 1, &mut last);
            assert_eq!(bits(&reference[reference.len() - vocab..]), bits(&last), "{name} {isa:?} in a batch");
            let ids: Vec<u32> = (0..vocab as u32).rev().step_by(5).collect();
            let mut some = vec![0.0; ids.len()];
            engine.logits_of(&mut ws, 1, &ids, &mut some);
            assert!(ids.iter().zip(&some).all(|(t, l)| l.to_bits() == last[*t as usize].to_bits()), "{name}");
        }
    }
}
