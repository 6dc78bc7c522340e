//! `fura run`.

use super::Outcome;
use super::args::{Common, Run};
use super::session::{Session, block_of, specialist};
use anyhow::{Context, Result, bail};
use fura::model::chat::{Message, Role};
use fura::model::tokenizer::Specials;
use fura::model::{
    Base, Constraint, Engine, Event, Generator, Members, Model, Plan, Request, Sampling, Threads,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Prompts that are worked on side by side.
const SEQUENCES: usize = 16;
/// Most bytes that are read as prompts.
const MAX_INPUT: u64 = 64 << 20;

/// What came of one prompt.
#[derive(Default)]
struct Answer {
    prompt_tokens: usize,
    tokens: Vec<u32>,
    text: String,
    first: Option<Instant>,
    end: Option<(Instant, &'static str)>,
}

pub(crate) fn run(args: &Run, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let prompts = prompts(args)?;
    let model = session.model(&args.model, block_of(args.specialist.as_deref())?, cancel)?;
    let members: Box<dyn Members> = match &args.specialist {
        Some(path) => Box::new(specialist(&session, path, &model)?),
        None => Box::new(Base),
    };
    let requests = requests(args, &model, &prompts)?;
    let context = model.config().context;
    let mut positions = 1;
    for (i, r) in requests.iter().enumerate() {
        if r.prompt.is_empty() || r.prompt.len() > context {
            let n = r.prompt.len();
            bail!("PROMPT{}: {n} tokens, expected 1 to {context} (the model's context)", place(args, i));
        }
        positions = positions.max(r.prompt.len().saturating_add(r.max_tokens).min(context));
    }
    let sequences = requests.len().clamp(1, SEQUENCES);
    let longest = requests.iter().map(|r| r.prompt.len()).max().unwrap_or(1);
    let plan = Plan { rows: (longest + sequences).min(256), sequences, positions };
    let mut generator = Generator::new(&model, plan, sequences * positions, args.kv.into());
    let engine = Engine::new(&model, session.isa, Threads::Pool);

    let mut answers: Vec<Answer> =
        requests.iter().map(|r| Answer { prompt_tokens: r.prompt.len(), ..Answer::default() }).collect();
    // A single answer is shown as it comes; those of a batch come side by side.
    let shown = requests.len() == 1 && args.prompt != "-" && !common.json;
    let start = Instant::now();
    for request in requests {
        generator.submit(request)?;
    }
    session.pool.install(|| -> Result<()> {
        let mut report = |event: Event<'_>| {
            let piece = match event {
                Event::Token { request, token, text } => {
                    let a = &mut answers[request];
                    a.first.get_or_insert_with(Instant::now);
                    a.tokens.push(token);
                    a.text.push_str(text);
                    text
                }
                Event::Done { request, text, completion } => {
                    let a = &mut answers[request];
                    a.text.push_str(text);
                    a.end = Some((Instant::now(), completion.finish.name()));
                    text
                }
            };
            if shown {
                print!("{piece}");
                // A closed pipe shows at the end; until then there is nothing better to do with the text.
                let _ = std::io::stdout().flush();
            }
        };
        while !cancel.load(Ordering::Relaxed) && generator.step(&engine, members.as_ref(), &mut report)? {}
        Ok(())
    })?;
    let interrupted = answers.iter().any(|a| a.end.is_none());
    print(args, common, &answers, start, shown);
    Ok(if interrupted { Outcome::Interrupted } else { Outcome::Done })
}

/// The prompt given, or the lines of standard input.
fn prompts(args: &Run) -> Result<Vec<String>> {
    if args.prompt != "-" {
        return Ok(vec![args.prompt.clone()]);
    }
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_INPUT + 1).read_to_string(&mut text).context("standard input")?;
    if text.len() as u64 > MAX_INPUT {
        bail!("standard input: more than {} MiB of prompts; run them in parts", MAX_INPUT >> 20);
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        bail!("standard input: no prompt; write one a line");
    }
    Ok(lines)
}

fn place(args: &Run, i: usize) -> String {
    if args.prompt == "-" { format!(" on line {}", i + 1) } else { String::new() }
}

/// Encodes the prompts and says how to continue them.
fn requests(args: &Run, model: &Model, prompts: &[String]) -> Result<Vec<Request>> {
    let tokenizer = model.tokenizer();
    let template = model.chat_template().filter(|_| !args.raw);
    if args.system.is_some() && template.is_none() {
        bail!("--system: {} brings no chat template; put it into the prompt", model.file().display());
    }
    if args.stop.iter().any(String::is_empty) {
        bail!("--stop: an empty text would end every answer at once");
    }
    let constraint = match &args.grammar {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{}: check the path", file.display()))?;
            Some(Constraint::grammar(tokenizer, &text).with_context(|| file.display().to_string())?)
        }
        None if args.choices.is_empty() => None,
        None => Some(Constraint::answers(tokenizer, &args.choices).context("--choices")?),
    };
    let s = &args.sampling;
    let sampling =
        Sampling { temperature: s.temperature, top_k: s.top_k, top_p: s.top_p, min_p: s.min_p, seed: s.seed };
    sampling.check()?;
    let mut requests = Vec::with_capacity(prompts.len());
    for (i, text) in prompts.iter().enumerate() {
        let prompt = match template {
            Some(template) => {
                let system = args.system.as_deref().map(|content| Message { role: Role::System, content });
                let user = Message { role: Role::User, content: text };
                let messages: Vec<Message<'_>> = system.into_iter().chain([user]).collect();
                template
                    .encode(tokenizer, &messages, true)
                    .with_context(|| format!("PROMPT{}; or use --raw", place(args, i)))?
            }
            None => tokenizer.encode_beginning(text, Specials::Ignore)?,
        };
        requests.push(Request {
            sampling: Sampling { seed: sampling.seed.wrapping_add(i as u64), ..sampling },
            stop: args.stop.clone(),
            constraint: constraint.clone(),
            ..Request::new(prompt, args.max_tokens)
        });
    }
    Ok(requests)
}

fn print(args: &Run, common: &Common, answers: &[Answer], start: Instant, shown: bool) {
    let now = Instant::now();
    let batch = args.prompt == "-";
    for (i, a) in answers.iter().enumerate() {
        let (end, finish) = a.end.unwrap_or((now, "cancelled"));
        let first = a.first.unwrap_or(end);
        let (prefill, decode) = ((first - start).as_secs_f64(), (end - first).as_secs_f64());
        if common.json {
            let mut line = json!({
                "text": a.text,
                "tokens": a.tokens,
                "finish": finish,
                "prompt_tokens": a.prompt_tokens,
                "prefill_seconds": prefill,
                "decode_seconds": decode,
            });
            if batch {
                line["index"] = Value::from(i);
            }
            println!("{line}");
        } else if batch {
            println!("{}", a.text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r"));
        } else {
            if shown {
                println!();
            }
            eprintln!(
                "{} prompt tokens in {prefill:.2} s, {} tokens in {decode:.2} s, finish: {finish}",
                a.prompt_tokens,
                a.tokens.len(),
            );
        }
    }
    if !batch {
        return;
    }
    let seconds = (now - start).as_secs_f64();
    let prompt_tokens: usize = answers.iter().map(|a| a.prompt_tokens).sum();
    let tokens: usize = answers.iter().map(|a| a.tokens.len()).sum();
    if common.json {
        let n = answers.len();
        println!(
            "{}",
            json!({"prompts": n, "prompt_tokens": prompt_tokens, "tokens": tokens, "seconds": seconds})
        );
    } else {
        eprintln!("{prompt_tokens} prompt tokens and {tokens} tokens in {seconds:.2} s");
    }
}
