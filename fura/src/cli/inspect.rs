//! `fura inspect`.

use super::Outcome;
use super::args::{Common, Inspect};
use super::session::{BLOCK, Session};
use anyhow::Result;
use fura::model::{Deviation, Model};
use fura::simd::Isa;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: &Inspect, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let available: Vec<&str> = Isa::available().map(|i| i.tier().name()).collect();
    let used = session.isa.tier().name();
    let Some(file) = &args.model else {
        if common.json {
            println!("{}", json!({"cpu": used, "available": available, "threads": session.threads()}));
        } else {
            println!("kernels     {used} (this CPU has: {})", available.join(", "));
            println!("threads     {}", session.threads());
        }
        return Ok(Outcome::Done);
    };
    let model = session.model(file, BLOCK, cancel)?;
    let c = model.config();
    let conversions = conversions(&model);
    let coordinates = model.layout().coordinates();
    let share = coordinates as f64 / model.parameters() as f64;
    let tokenizer = model.tokenizer();
    let stops: Vec<String> = tokenizer.stop_ids().iter().map(|id| tokenizer.decode_lossy(&[*id])).collect();
    if common.json {
        println!(
            "{}",
            json!({
                "file": file.display().to_string(),
                "fingerprint": model.fingerprint().to_string(),
                "parameters": model.parameters(),
                "config": c,
                "weights": conversions.iter().map(|(&(from, to), c)| json!({
                    "type": from, "packed": to, "matrices": c.matrices, "weights": c.weights,
                    "largest_relative_error": c.worst.as_ref().map(|w| w.1.relative),
                })).collect::<Vec<_>>(),
                "bits_per_weight": bits_per_weight(&model),
                "matrices": model.conversions().map(|(name, from, to, error)| json!({
                    "name": name, "type": from.name(), "packed": to.name(), "error": error,
                })).collect::<Vec<_>>(),
                "unused_tensors": model.unused_tensors(),
                "block": BLOCK,
                "coordinates": coordinates,
                "trainable_share": share,
                "pre_tokenizer": tokenizer.pre_tokenizer().map(|pre| pre.name()),
                "stop_tokens": stops,
                "pack_bytes": model.mapped_bytes(),
                "cpu": used,
                "available": available,
                "threads": session.threads(),
            })
        );
        return Ok(Outcome::Done);
    }
    println!("file        {}", file.display());
    println!("fingerprint {}", model.fingerprint());
    println!(
        "shape       {} layers, width {}, MLP {}, {} query and {} key/value heads of {}, vocabulary {}",
        c.layers, c.d_model, c.d_ff, c.heads, c.kv_heads, c.head_dim, c.vocab
    );
    println!("context     {} positions, RoPE base {}", c.context, c.rope_base);
    println!(
        "parameters  {}{}",
        model.parameters(),
        if c.tied { " (head tied to the embedding)" } else { "" }
    );
    for ((from, to), c) in &conversions {
        let error = match &c.worst {
            None => "as it is".to_owned(),
            Some((_, d)) if d.relative == 0.0 => "without loss".to_owned(),
            Some((name, d)) => format!("off by at most {:.2e} of its norm ({name})", d.relative),
        };
        println!(
            "weights     {from}: {} matrices, {} weights; packed as {to}, {error}",
            c.matrices, c.weights
        );
    }
    println!("            {:.2} bits a weight in the pack", bits_per_weight(&model));
    if !model.unused_tensors().is_empty() {
        println!("unused      {} (not part of the language model)", model.unused_tensors().join(" "));
    }
    println!(
        "coordinates {coordinates} at block size {BLOCK} ({:.3} % of the parameters) in all layers",
        100.0 * share
    );
    match tokenizer.pre_tokenizer() {
        Some(pre) => println!("text        byte pairs, cut as {}", pre.name()),
        None => println!("text        SentencePiece"),
    }
    println!("stops at    {}", stops.join(" "));
    println!("pack        {:.1} MB, memory-mapped", model.mapped_bytes() as f64 / 1e6);
    println!("kernels     {used} (this CPU has: {}), {} threads", available.join(", "), session.threads());
    Ok(Outcome::Done)
}

/// Matrices of one type in the file and one format in the pack.
#[derive(Default)]
struct Conversion<'m> {
    matrices: usize,
    weights: usize,
    /// The matrix that moved most, relative to its norm.
    worst: Option<(&'m str, Deviation)>,
}

fn conversions(model: &Model) -> BTreeMap<(&'static str, &'static str), Conversion<'_>> {
    let mut out: BTreeMap<_, Conversion<'_>> = BTreeMap::new();
    for ((name, from, to, deviation), (.., d_out, d_in)) in model.conversions().zip(model.matrices()) {
        let c = out.entry((from.name(), to.name())).or_default();
        c.matrices += 1;
        c.weights += d_out * d_in;
        if let Some(d) = deviation
            && c.worst.as_ref().is_none_or(|(_, worst)| worst.relative < d.relative)
        {
            c.worst = Some((name, d));
        }
    }
    out
}

/// Bits that the pack's matrices take for a weight, scales included.
fn bits_per_weight(model: &Model) -> f64 {
    let (mut bits, mut weights) = (0, 0);
    for (_, format, d_out, d_in) in model.matrices() {
        bits += 8 * d_out * (d_in / format.group()) * format.source_group();
        weights += d_out * d_in;
    }
    bits as f64 / weights as f64
}
