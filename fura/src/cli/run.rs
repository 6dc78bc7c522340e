//! `fura run`.

use super::Outcome;
use super::args::{Common, Run};
use super::session::{Session, block_of, specialist};
use anyhow::{Result, bail};
use fura::model::tokenizer::Specials;
use fura::model::{Base, Engine, KvCache, Members, Plan, Threads, Workspace};
use serde_json::json;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(crate) fn run(args: &Run, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let model = session.model(&args.model, block_of(args.specialist.as_deref())?)?;
    let members: Box<dyn Members> = match &args.specialist {
        Some(path) => Box::new(specialist(&session, path, &model)?),
        None => Box::new(Base),
    };
    let tokenizer = model.tokenizer();
    let mut prompt = Vec::new();
    if tokenizer.add_bos() {
        prompt.extend(tokenizer.bos());
    }
    tokenizer.encode_into(&args.prompt, Specials::Ignore, &mut prompt)?;
    let context = model.config().context;
    if prompt.is_empty() || prompt.len() > context {
        bail!("PROMPT: {} tokens, expected 1 to {context} (the model's context)", prompt.len());
    }
    let positions = (prompt.len() + args.max_tokens).min(context);
    let mut ws = Workspace::new(&model, Plan { rows: prompt.len().min(256), sequences: 1, positions });
    let mut cache = KvCache::new(model.config(), positions);
    let engine = Engine::new(&model, session.isa, Threads::Pool);

    let start = Instant::now();
    let mut first = None;
    let mut stream = tokenizer.stream();
    let mut text = String::new();
    let mut emit = |piece: &str| {
        text.push_str(piece);
        if !common.json {
            print!("{piece}");
            // A closed pipe shows at the end; until then there is nothing better to do with the text.
            let _ = std::io::stdout().flush();
        }
    };
    let (tokens, finish) = session.pool.install(|| {
        engine.greedy(
            members.as_ref(),
            &prompt,
            args.max_tokens,
            &mut cache,
            &mut ws,
            |token| {
                first.get_or_insert_with(Instant::now);
                emit(stream.push(token));
            },
            |_| cancel.load(Ordering::Relaxed),
        )
    })?;
    emit(stream.finish());
    let interrupted = cancel.load(Ordering::Relaxed);
    let end = Instant::now();
    let first = first.unwrap_or(end);
    let decode = (end - first).as_secs_f64();
    let finish = if interrupted { "cancelled" } else { finish.name() };
    if common.json {
        println!(
            "{}",
            json!({
                "text": text,
                "tokens": tokens,
                "finish": finish,
                "prompt_tokens": prompt.len(),
                "prefill_seconds": (first - start).as_secs_f64(),
                "decode_seconds": decode,
            })
        );
    } else {
        println!();
        eprintln!(
            "{} prompt tokens in {:.2} s, {} tokens in {:.2} s, finish: {finish}",
            prompt.len(),
            (first - start).as_secs_f64(),
            tokens.len(),
            decode
        );
    }
    Ok(if interrupted { Outcome::Interrupted } else { Outcome::Done })
}
