//! Perplexity of a text by the rule of llama.cpp's llama-perplexity: contexts of `--context` tokens (512), of each the
//! second half scored.
//!
//! `cargo run --release -p fura-bench --example perplexity -- MODEL.gguf TEXT [--kv f16] [--context N]`
#![forbid(unsafe_code)]

use fura::model::tokenizer::Specials;
use fura::model::{Base, Batch, Engine, KvCache, Model, Plan, Precision, Threads, Wanted, Workspace};
use fura::simd::{Isa, softmax::log_sum_exp};
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

const USAGE: &str = "usage: perplexity MODEL TEXT [--kv f32|f16] [--context N] [--packs FOLDER]";

fn main() -> Result<(), Box<dyn Error>> {
    let (mut files, mut precision, mut context) = (Vec::new(), Precision::Single, 512);
    let mut packs = "models-cache".to_owned();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--kv" => {
                precision = match args.next().as_deref() {
                    Some("f32") => Precision::Single,
                    Some("f16") => Precision::Half,
                    _ => return Err(USAGE.into()),
                }
            }
            "--context" => {
                context = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 3).ok_or(USAGE)?
            }
            "--packs" => packs = args.next().ok_or(USAGE)?,
            _ => files.push(arg),
        }
    }
    let [model, text] = &files[..] else { return Err(USAGE.into()) };
    let model = Model::open(Path::new(model), Path::new(&packs), 32, &mut |_, _| ControlFlow::Continue(()))?;
    let tokens = model.tokenizer().encode(&std::fs::read_to_string(text)?, Specials::Ignore)?;
    let vocab = model.config().vocab;
    let engine = Engine::new(&model, Isa::detect(), Threads::Pool);
    let mut ws = Workspace::new(&model, Plan { rows: context, sequences: 1, positions: context });
    let mut cache = KvCache::with_precision(model.config(), context, precision);
    let mut batch = Batch::with_capacity(context, 1);
    let mut logits = vec![0.0; vocab];
    let (mut sum, mut n) = (0.0, 0u32);
    for chunk in tokens.chunks_exact(context) {
        batch.clear();
        batch.push(0, chunk, 0, 0);
        engine.forward(&Base, &batch, Wanted::All, &mut cache, &mut ws)?;
        for at in context / 2..context - 1 {
            engine.logits(&mut ws, at, &mut logits);
            sum += log_sum_exp(engine.isa(), &logits) - f64::from(logits[chunk[at + 1] as usize]);
            n += 1;
        }
    }
    if n == 0 {
        return Err(
            format!("the text has {} tokens, fewer than one context of {context}", tokens.len()).into()
        );
    }
    println!("perplexity {:.4} over {n} tokens", (sum / f64::from(n)).exp());
    Ok(())
}
