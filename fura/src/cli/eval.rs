//! `fura eval`.

use super::Outcome;
use super::args::{Common, Eval};
use super::report;
use super::session::{Session, answers, block_of, judge, specialist, tasks};
use anyhow::Result;
use fura::answerer::Answerer;
use fura::episodes::{Decoding, EpisodeSuccess, play};
use fura::evaluation::{Evaluation, HeldOut};
use fura::model::{Base, Members};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::tasks::TaskSource;
use fura::tasks::phone::PhoneSplit;
use fura::trainer::Answers;
use fura::writer::Writer;
use serde_json::json;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: &Eval, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let source = tasks(&args.tasks, 0)?;
    let model = session.model(&args.model, block_of(args.specialist.as_deref())?, cancel)?;
    let (name, members): (&str, Box<dyn Members>) = match &args.specialist {
        Some(path) => ("specialist", Box::new(specialist(&session, path, &model)?)),
        None => ("base", Box::new(Base)),
    };
    let answers = answers(&args.answer, &source);
    let result = match answers {
        Answers::Scored => {
            let scorer = Scorer::new(&model, session.isa, session.threads(), WAVE_ROWS);
            evaluate(scorer, &session, &source, members.as_ref(), args, cancel)?
        }
        Answers::Written { temperature } => {
            let judge = judge(&args.answer)?;
            let writer = Writer::new(&model, session.isa, session.threads(), judge, temperature);
            evaluate(writer, &session, &source, members.as_ref(), args, cancel)?
        }
    };
    let Some(result) = result else { return Ok(Outcome::Interrupted) };
    let mut whole = Vec::new();
    if let (TaskSource::Phone(phone), Answers::Scored) = (&source, answers) {
        let mut scorer = Scorer::new(&model, session.isa, session.threads(), WAVE_ROWS);
        for split in PhoneSplit::ALL.into_iter().filter(|split| *split != PhoneSplit::Train) {
            let tasks = phone.whole(split, args.eval as usize);
            let played = session
                .pool
                .install(|| play(&mut scorer, members.as_ref(), &tasks, Decoding::Choice, cancel))?;
            let Some(played) = played else { return Ok(Outcome::Interrupted) };
            whole.push((split.to_string(), EpisodeSuccess::of(&played)));
        }
    }
    if common.json {
        let mut all = json!({"tasks": source.describe(), name: result});
        if !whole.is_empty() {
            all["episodes"] = whole
                .into_iter()
                .map(|(split, s)| (split, json!(s)))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        println!("{all}");
    } else {
        println!("{}", source.describe());
        report::evaluations(&[(name, &result)]);
        if !whole.is_empty() {
            report::episodes(&whole);
        }
    }
    Ok(Outcome::Done)
}

fn evaluate<A: Answerer + Send>(
    mut answerer: A,
    session: &Session,
    source: &TaskSource,
    members: &dyn Members,
    args: &Eval,
    cancel: &AtomicBool,
) -> Result<Option<Evaluation>>
where
    A::Question: Sync,
{
    let held = HeldOut::new(&answerer, source, args.eval as usize)?;
    let result = session.pool.install(|| held.evaluate(&mut answerer, members, cancel))?;
    report::faults(&answerer);
    Ok(result)
}
