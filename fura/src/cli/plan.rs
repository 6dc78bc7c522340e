//! `fura plan`.

use super::Outcome;
use super::args::{Common, PlanArgs};
use super::session::BLOCK;
use anyhow::{Result, bail};
use fura::core::estimator::EsConfig;
use fura::defaults::Defaults;
use fura::generation_shape::{AnswerShape, GenerationShape};
use fura::model::{Adapted, GenerationPlan, Model, ModelConfig, Precision};
use fura::scorer::WAVE_ROWS;
use fura::trainer::Answers;
use serde_json::json;

/// Context to plan for when a model's own is longer.
const CONTEXT: usize = 4096;

pub(crate) fn run(args: &PlanArgs, common: &Common) -> Result<Outcome> {
    let config = Model::read_config(&args.model)?;
    if let Some(members) = args.members {
        return training(members, args, common, &config);
    }
    let context = args.context.unwrap_or(config.context.min(CONTEXT));
    if context == 0 || context > config.context {
        bail!("--context is {context}, expected 1 to {} (the model's context)", config.context);
    }
    let precision: Precision = args.kv.into();
    let Some(plan) = GenerationPlan::fit(&config, BLOCK, args.memory, context, precision, threads(common))
    else {
        let least = GenerationPlan::new(1, context, precision, threads(common)).bytes(&config, BLOCK);
        bail!(
            "--memory {}: one sequence of {context} tokens needs {}; give more memory, a shorter --context or --kv f16",
            megabytes(args.memory),
            megabytes(least)
        );
    };
    let (total, cache) = (plan.bytes(&config, BLOCK), plan.cache_bytes(&config));
    let specialist = Adapted::bytes(&config, BLOCK, args.form) as u64;
    let specialists = (args.memory - total) / specialist;
    let sequences = plan.pass.sequences;
    if common.json {
        println!(
            "{}",
            json!({
                "memory": args.memory,
                "context": context,
                "sequences": sequences,
                "rows": plan.pass.rows,
                "cache_bytes": cache,
                "workspace_bytes": total - cache,
                "total_bytes": total,
                "specialist_bytes": specialist,
                "specialists": specialists,
            })
        );
        return Ok(Outcome::Done);
    }
    println!("memory      {} beside the memory-mapped model and its tokenizer", megabytes(args.memory));
    println!("batch       {sequences} sequences of {context} tokens, {} tokens a pass", plan.pass.rows);
    println!("cache       {} of keys and values", megabytes(cache));
    println!("workspace   {}", megabytes(total - cache));
    println!(
        "left        {}: {specialists} specialists more, {} each",
        megabytes(args.memory - total),
        megabytes(specialist)
    );
    println!("members     any number in training: none is stored");
    Ok(Outcome::Done)
}

/// Threads that a command would use.
fn threads(common: &Common) -> usize {
    common.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// A generation of training.
fn training(members: u32, args: &PlanArgs, common: &Common, config: &ModelConfig) -> Result<Outcome> {
    let tokens = args.tokens as usize;
    let answers = match args.written {
        true => Answers::Written { temperature: 0.0 },
        false => Answers::Scored,
    };
    let d = Defaults::new(config, answers, args.scope);
    let (from_layer, scope) = (args.from_layer.unwrap_or(d.from_layer), d.scope);
    if from_layer >= config.layers {
        bail!("--from-layer is {from_layer}, expected 0 to {}, the model's last layer", config.layers - 1);
    }
    if args.prompt as usize + tokens > config.context {
        let context = config.context;
        bail!("--prompt {} and --tokens {tokens} are more than the model's context, {context}", args.prompt);
    }
    let shape = GenerationShape {
        members: members as usize,
        requests: args.requests.map_or(d.requests, |n| n as usize),
        prompt: args.prompt as usize,
        answer: match args.written {
            true => AnswerShape::Written { tokens },
            false => AnswerShape::Scored { answers: args.answers as usize, tokens, wave_rows: WAVE_ROWS },
        },
        from_layer,
        scope,
        form: args.form,
        shared: from_layer,
        threads: threads(common),
    };
    let es = EsConfig { pairs: members.div_ceil(2), ..EsConfig::default() };
    let (inference, training) =
        (shape.inference_bytes(config, BLOCK), shape.training_bytes(config, BLOCK, &es));
    let evaluation = shape.evaluation_bytes(config, BLOCK, &es);
    if common.json {
        println!(
            "{}",
            json!({
                "members": shape.members,
                "requests": shape.requests,
                "threads": shape.threads,
                "from_layer": from_layer,
                "scope": scope,
                "form": args.form,
                "coordinates": shape.coordinates(config),
                "inference_bytes": inference,
                "training_bytes": training,
                "evaluation_bytes": evaluation,
            })
        );
        return Ok(Outcome::Done);
    }
    println!(
        "generation  {} members, {} requests each, layers {from_layer} to {}, {} threads",
        shape.members,
        shape.requests,
        config.layers - 1,
        shape.threads
    );
    println!(
        "inference   {} at the same batch, beside the memory-mapped model and its tokenizer",
        megabytes(inference)
    );
    println!("training    {}: {} coordinates more", megabytes(training), shape.coordinates(config));
    println!("evaluation  {}: a specialist's transforms and free answers more", megabytes(evaluation));
    Ok(Outcome::Done)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A number of bytes such as 500M, 2G, 1.5GiB or 1000000.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let unit = match text[end..].to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "KIB" => 1024.0,
        "MIB" => 1024.0 * 1024.0,
        "GIB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err("expected a size such as 500M or 2G".to_owned()),
    };
    match text[..end].parse::<f64>() {
        Ok(n) if n > 0.0 && n * unit < 1e15 => Ok((n * unit) as u64),
        _ => Err("expected a size such as 500M or 2G".to_owned()),
    }
}
