//! `fura train`.

use super::args::{Common, Train};
use super::memory::{Peak, private_bytes};
use super::progress::Progress;
use super::session::{Session, answers, judge, tasks};
use super::{Outcome, picture, report};
use anyhow::{Context, Result, bail};
use fura::answerer::Answerer;
use fura::core::estimator::{EsConfig, Schedule};
use fura::core::runlog::{RunHistory, RunLog};
use fura::core::specialist::Specialist;
use fura::defaults::Defaults;
use fura::evaluation::{Evaluation, HeldOut};
use fura::generation_shape::GenerationShape;
use fura::guard::{Diverged, Guard};
use fura::model::{Adapted, Base, Model};
use fura::scorer::{Scorer, WAVE_ROWS};
use fura::tasks::TaskSource;
use fura::trainer::{Answers, RunPlan, Trainer, training};
use fura::writer::Writer;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub(crate) fn run(args: &Train, common: &Common, cancel: &AtomicBool) -> Result<Outcome> {
    let session = Session::new(common)?;
    let log = with_suffix(&args.out, ".runlog");
    check_paths(args, &log)?;
    let resumed = if args.resume { Some(resumed(&log)?) } else { None };
    let (block, seed) = resumed.map_or((usize::from(args.block), args.seed), |r| (r.block, r.seed));
    let source = tasks(&args.tasks, seed)?;
    let model = session.model(&args.model, block, cancel)?;
    let run =
        Run { args, session: &session, source: &source, model: &model, log: &log, cancel, json: common.json };
    match resumed.map_or_else(|| answers(&args.answer, &source), |r| r.answers) {
        Answers::Scored => {
            run.train(Scorer::new(&model, session.isa, session.threads(), WAVE_ROWS), Answers::Scored)
        }
        written @ Answers::Written { temperature } => {
            let judge = judge(&args.answer)?;
            run.train(Writer::new(&model, session.isa, session.threads(), judge, temperature), written)
        }
    }
}

/// What a run is made of, whichever way its members answer.
struct Run<'a> {
    args: &'a Train,
    session: &'a Session,
    source: &'a TaskSource,
    model: &'a Model,
    log: &'a Path,
    cancel: &'a AtomicBool,
    json: bool,
}

impl Run<'_> {
    fn train<A: Answerer + Send>(&self, mut answerer: A, answers: Answers) -> Result<Outcome>
    where
        A::Question: Sync,
    {
        let Run { args, session, source, model, log, cancel, json } = *self;
        let settings = settings(args, model, answers)?;
        let config = config(args, &settings, model)?;
        config.validate()?;
        let held = HeldOut::new(&answerer, source, args.eval as usize)?;
        let (mut finished, mut diverged) = (false, None);
        let mut earlier = Vec::new();
        let mut trainer = if args.resume {
            let (trainer, history) = Trainer::resume(model, source, log)?;
            if history.torn_bytes > 0 {
                eprintln!("{}: cut off {} bytes of an unfinished record", log.display(), history.torn_bytes);
            }
            (finished, diverged) = (history.finished, Diverged::of(&history));
            earlier = history.generations;
            trainer
        } else {
            let plan = plan(&settings, source, answers);
            // Before the log is made, so that tasks that cannot be trained on leave nothing behind.
            training(&answerer, source, 0, &plan)?;
            let layout =
                model.layout_from(settings.from_layer).with_scope(settings.scope).with_form(args.form);
            Trainer::create(model, layout, plan, config, log)?
        }
        .on(session.isa);

        let planned = self.print_memory(&answerer, &trainer, &held)?;
        let mut peak = Peak::default();
        // Sized by the first batch of a generation, so that inference and training are compared at the same one.
        let Some(base) = session.pool.install(|| held.evaluate(&mut answerer, &Base, cancel))? else {
            return interrupted(args, &trainer);
        };
        let questions = trainer.questions(&answerer, source)?;
        let members = trainer.estimator().ask().len();
        let shared = trainer.shared();
        session.pool.install(|| answerer.fill(members, shared, &questions, cancel))?;
        peak.sample();
        let inference_private = peak.bytes();
        if json {
            println!("{}", json!({"event": "base", "base": base}));
        } else {
            report::evaluations(&[("base", &base)]);
        }
        let guard = session
            .pool
            .install(|| Guard::new(&mut answerer, &held, base.heldout, trainer.plan(), cancel))?;
        let Some(mut guard) = guard else { return interrupted(args, &trainer) };
        // Each but the last was measured when it was due, if it was.
        let mut suspicious = earlier.iter().fold(false, |_, fitness| guard.suspects(fitness));

        let rows = answerer.rows();
        let start = Instant::now();
        let total = u64::from(trainer.plan().generations);
        let bar = Progress::new("training", total, json);
        bar.start_at(u64::from(trainer.generation()));
        while diverged.is_none() && !finished {
            if suspicious {
                let measured = session
                    .pool
                    .install(|| guard.measure(&trainer, &mut answerer, &held, session.isa, cancel))?;
                let Some(now) = measured else {
                    bar.clear();
                    return interrupted(args, &trainer);
                };
                if guard.is_lost(&now) {
                    break;
                }
            }
            if trainer.is_done() {
                break;
            }
            let questions = trainer.questions(&answerer, source)?;
            let step = session.pool.install(|| trainer.step(&mut answerer, &questions, cancel));
            let Some(step) = step.inspect_err(|_| bar.clear())? else {
                bar.clear();
                return interrupted(args, &trainer);
            };
            suspicious = guard.suspects(trainer.fitness());
            peak.sample();
            if json {
                println!("{}", json!({"event": "generation", "report": step}));
            }
            let flat = if step.flat { ", flat: nothing learnt" } else { "" };
            let message = format!("reward {:.3}, spread {:.3}{flat}", step.mean, step.spread);
            bar.set(u64::from(trainer.generation()), &message);
        }
        bar.clear();
        let seconds = start.elapsed().as_secs_f64();
        let tokens = answerer.rows() - rows;

        let mut specialist = if diverged.is_some() { kept(log)? } else { trainer.specialist()? };
        specialist.save(&args.out)?;
        let Some(mut trained) = self.evaluate(&specialist, &mut answerer, &held)? else {
            return interrupted(args, &trainer);
        };
        if diverged.is_none() && !finished && guard.is_lost(&trained.heldout) {
            let history = read(log)?;
            let best =
                session.pool.install(|| guard.best(&history, &mut answerer, &held, session.isa, cancel))?;
            let Some(best) = best else { return interrupted(args, &trainer) };
            trainer.log_mut().append_note(&best.note())?;
            specialist = kept(log)?;
            specialist.save(&args.out)?;
            report::lost(best, &trained.heldout, json);
            diverged = Some(best);
            let Some(evaluation) = self.evaluate(&specialist, &mut answerer, &held)? else {
                return interrupted(args, &trainer);
            };
            trained = evaluation;
        }
        report::faults(&answerer);
        if !finished {
            trainer.log_mut().append_note(&json!({"base": base, "specialist": trained}))?;
            trainer.log_mut().finish()?;
        }
        let picture = with_suffix(&args.out, ".svg");
        let history = read(log)?;
        std::fs::write(&picture, picture::svg(&history, model, &specialist))
            .with_context(|| picture.display().to_string())?;
        let bytes = std::fs::metadata(&args.out).map(|m| m.len()).unwrap_or_default();
        let summary = Summary {
            base,
            trained,
            diverged,
            seconds,
            tokens,
            bytes,
            inference_private,
            peak: peak.bytes(),
            planned,
        };
        summary.print(json, model, &trainer, &args.out, log, &picture);
        Ok(Outcome::Done)
    }

    /// Says what the run will hold, and returns that of training with what is held already, where the system tells that.
    fn print_memory<A: Answerer>(
        &self,
        answerer: &A,
        trainer: &Trainer<'_>,
        held: &HeldOut<A::Question>,
    ) -> Result<Option<u64>> {
        let config = self.model.config();
        let es = trainer.estimator().config();
        let first = trainer.questions(answerer, self.source)?;
        // Those of later generations are as the held-out ones.
        let (prompt, answer) = answerer.shape(&first.iter().chain(held.questions()).collect::<Vec<_>>());
        let shape = GenerationShape {
            members: 2 * es.most_pairs() as usize,
            requests: first.len(),
            prompt,
            answer,
            from_layer: trainer.from_layer(),
            scope: trainer.layout().scope(),
            form: trainer.layout().form(),
            shared: trainer.from_layer(),
            threads: self.session.threads(),
        };
        let block = self.model.layout().block();
        let training = shape.training_bytes(config, block, es);
        let evaluation = shape.evaluation_bytes(config, block, es);
        let inference = shape.inference_bytes(config, block);
        let held = private_bytes();
        if self.json {
            println!(
                "{}",
                json!({
                    "event": "memory",
                    "inference_bytes": inference,
                    "training_bytes": training,
                    "evaluation_bytes": evaluation,
                    "private_bytes": held,
                })
            );
        } else {
            let beside =
                held.map_or(String::new(), |h| format!(", beside {:.0} MB held now", h as f64 / 1e6));
            println!(
                "memory planned: {:.0} MB for training, {:.0} MB for evaluation{beside}",
                training as f64 / 1e6,
                evaluation as f64 / 1e6
            );
        }
        Ok(held.map(|h| h + training))
    }

    fn evaluate<A: Answerer + Send>(
        &self,
        specialist: &Specialist,
        answerer: &mut A,
        held: &HeldOut<A::Question>,
    ) -> Result<Option<Evaluation>>
    where
        A::Question: Sync,
    {
        let isa = self.session.isa;
        let transforms = Adapted::new(self.model, isa, specialist.coordinates(), specialist.layout());
        Ok(self.session.pool.install(|| held.evaluate(answerer, &transforms, self.cancel))?)
    }
}

/// The specialist of a run that was stopped.
fn kept(log: &Path) -> Result<Specialist> {
    Ok(Specialist::from_run_log(&Diverged::cut(read(log)?))?)
}

struct Summary {
    base: Evaluation,
    trained: Evaluation,
    diverged: Option<Diverged>,
    seconds: f64,
    tokens: u64,
    bytes: u64,
    inference_private: Option<u64>,
    peak: Option<u64>,
    planned: Option<u64>,
}

impl Summary {
    fn print(
        &self,
        json: bool,
        model: &Model,
        trainer: &Trainer<'_>,
        out: &Path,
        log: &Path,
        picture: &Path,
    ) {
        let share = trainer.layout().coordinates() as f64 / model.parameters() as f64;
        let generations = trainer.generation();
        if json {
            println!(
                "{}",
                json!({
                    "base": self.base,
                    "specialist": self.trained,
                    "generations": generations,
                    "diverged": self.diverged,
                    "tokens": self.tokens,
                    "seconds": self.seconds,
                    "specialist_bytes": self.bytes,
                    "trainable_share": share,
                    "peak_private_bytes": self.peak,
                    "inference_private_bytes": self.inference_private,
                    "planned_private_bytes": self.planned,
                    "picture": picture.display().to_string(),
                })
            );
            return;
        }
        report::evaluations(&[("base", &self.base), ("specialist", &self.trained)]);
        println!(
            "{generations} generations, {:.2} million tokens here, {:.1} minutes",
            self.tokens as f64 / 1e6,
            self.seconds / 60.0
        );
        println!(
            "{} ({:.2} MB, {:.3} % of the parameters), run log {}, picture {}",
            out.display(),
            self.bytes as f64 / 1e6,
            100.0 * share,
            log.display(),
            picture.display()
        );
        if let (Some(peak), Some(inference), Some(planned)) =
            (self.peak, self.inference_private, self.planned)
        {
            println!(
                "private memory: {:.0} MB at the peak of training, {:.0} planned; {:.0} MB of inference at the same batch",
                peak as f64 / 1e6,
                planned as f64 / 1e6,
                inference as f64 / 1e6
            );
        }
    }
}

/// The defaults for the model, with what was chosen on the command line.
fn settings(args: &Train, model: &Model, answers: Answers) -> Result<Defaults> {
    let d = Defaults::new(model.config(), answers, args.scope);
    let layers = model.config().layers;
    let from_layer = args.from_layer.unwrap_or(d.from_layer);
    if from_layer >= layers {
        bail!("--from-layer {from_layer}: the model has layers 0 to {}", layers - 1);
    }
    let turns = match (&args.turns, args.pairs) {
        (Some(turns), _) => turns.clone(),
        (None, None) if !d.turns.is_empty() => d.turns_from(from_layer, layers),
        (None, _) => Vec::new(),
    };
    Ok(Defaults {
        from_layer,
        scope: d.scope,
        turns,
        generations: args.generations.unwrap_or(d.generations),
        pairs: args.pairs.unwrap_or(d.pairs),
        requests: args.requests.map_or(d.requests, |n| n as usize),
        sigma: args.sigma.unwrap_or(d.sigma),
        alpha: args.alpha.unwrap_or(d.alpha),
        final_alpha: args.final_alpha.unwrap_or(d.final_alpha),
        reward: args.reward.map_or(d.reward, Into::into),
    })
}

fn plan(s: &Defaults, source: &TaskSource, answers: Answers) -> RunPlan {
    RunPlan {
        tasks: source.describe(),
        requests: s.requests,
        reward: s.reward,
        answers,
        generations: s.generations,
    }
}

fn config(args: &Train, s: &Defaults, model: &Model) -> Result<EsConfig> {
    let schedule = if s.final_alpha == 1.0 {
        Schedule::Constant
    } else {
        Schedule::Linear { fraction: s.final_alpha, generations: s.generations }
    };
    let turns = s.turns.iter().map(|turn| turn.linears(model, s.from_layer));
    Ok(EsConfig {
        seed: args.seed,
        pairs: s.pairs,
        sigma: s.sigma,
        alpha: s.alpha,
        schedule,
        decay: args.decay,
        turns: turns.collect::<Result<_, _>>().context("--turns")?,
        ..EsConfig::default()
    })
}

fn with_suffix(out: &Path, suffix: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses before any work what would fail after it.
fn check_paths(args: &Train, log: &Path) -> Result<()> {
    if args.resume && !log.exists() {
        bail!("{}: no such run log; start the run without --resume", log.display());
    }
    if !args.resume && log.exists() {
        bail!("{}: a run log is there already; go on with --resume, or remove it", log.display());
    }
    if args.out.is_dir() {
        bail!("--out {}: a folder; name a file", args.out.display());
    }
    let folder = args.out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        bail!("--out {}: there is no folder {}", args.out.display(), folder.display());
    }
    Ok(())
}

/// What of a run its log decides before it is taken up.
#[derive(Clone, Copy)]
struct Resumed {
    block: usize,
    seed: u64,
    answers: Answers,
}

fn resumed(log: &Path) -> Result<Resumed> {
    let header = read(log)?.header;
    let answers = RunPlan::of(&header, log)?.answers;
    Ok(Resumed { block: header.layout.block(), seed: header.config.seed, answers })
}

fn read(log: &Path) -> Result<RunHistory> {
    let bytes = std::fs::read(log).with_context(|| log.display().to_string())?;
    Ok(RunLog::read(&bytes, log)?)
}

/// Saves what was learnt and says how to go on.
fn interrupted(args: &Train, trainer: &Trainer<'_>) -> Result<Outcome> {
    trainer.specialist()?.save(&args.out)?;
    eprintln!(
        "saved after {} of {} generations to {}; go on with the same command and --resume",
        trainer.generation(),
        trainer.plan().generations,
        args.out.display()
    );
    Ok(Outcome::Interrupted)
}
