//! `fura inspect`.

use super::Outcome;
use super::args::{Common, Inspect};
use super::session::{BLOCK, Session};
use anyhow::Result;
use fura::simd::Isa;
use serde_json::json;
use std::collections::BTreeMap;

pub(crate) fn run(args: &Inspect, common: &Common) -> Result<Outcome> {
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
    let model = session.model(file, BLOCK)?;
    let c = model.config();
    let mut mix: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (_, format, d_out, d_in) in model.matrices() {
        let entry = mix.entry(format.name()).or_default();
        entry.0 += 1;
        entry.1 += d_out * d_in;
    }
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
                "formats": mix.iter().map(|(name, (n, weights))| json!({"format": name, "matrices": n, "weights": weights})).collect::<Vec<_>>(),
                "block": BLOCK,
                "coordinates": coordinates,
                "trainable_share": share,
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
    for (name, (n, weights)) in &mix {
        println!("weights     {name}: {n} matrices, {weights} weights");
    }
    println!(
        "coordinates {coordinates} at block size {BLOCK} ({:.3} % of the parameters) in all layers",
        100.0 * share
    );
    println!("stops at    {}", stops.join(" "));
    println!("pack        {:.1} MB, memory-mapped", model.mapped_bytes() as f64 / 1e6);
    println!("kernels     {used} (this CPU has: {}), {} threads", available.join(", "), session.threads());
    Ok(Outcome::Done)
}
