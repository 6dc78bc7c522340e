//! Runs that destroy the model: they are stopped, and the best of them is kept.

use fura::core::estimator::EsConfig;
use fura::core::layout::Scope;
use fura::core::runlog::{RunHeader, RunHistory, replay};
use fura::evaluation::{HeldOut, Success};
use fura::guard::{Diverged, Guard};
use fura::model::{Adapted, Base, Members, Model, Shared};
use fura::question::Question;
use fura::reward::{Reward, best};
use fura::scorer::Scorer;
use fura::simd::Isa;
use fura::tasks::{TaskSet, TaskSource};
use fura::trainer::{Answers, RunPlan};
use fura_tests::tiny;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

const CHOICES: [&str; 6] = [" a", " b", " c", " d", " e", " f"];

/// Scorers are for a pool of one thread here, and this is one.
fn on_one_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

/// Tasks of which `members` answer every one right.
fn tasks_that_suit(model: &Model, members: &dyn Members) -> String {
    let prompts: Vec<String> = (0..160).map(|i| format!("item {i} is")).collect();
    let choices = CHOICES.map(str::to_owned);
    let questions: Vec<Question> =
        prompts.iter().map(|p| Question::of(model, p, &choices, vec![0.0; 6]).unwrap()).collect();
    let mut scorer = Scorer::new(model, Isa::detect(), 1, 256);
    let cancel = AtomicBool::new(false);
    let mut answers = || {
        let scores = scorer.score(members, 1, Shared::Layers(0), &questions, &cancel).unwrap().unwrap();
        (0..prompts.len()).map(|i| best(scores.answers(0, i))).collect::<Vec<usize>>()
    };
    let answers = on_one_thread(&mut answers);
    let lines = prompts.iter().zip(answers).enumerate().map(|(i, (prompt, answer))| {
        let line = serde_json::json!({
            "id": format!("t{i}"), "prompt": prompt, "answer": CHOICES[answer], "choices": CHOICES,
            "grade": {"type": "choice"}, "split": if i < 60 { "train" } else { "heldout" },
        });
        format!("{line}\n")
    });
    lines.collect()
}

fn command(folder: &Path, line: &str) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_fura"));
    c.current_dir(folder).args(["--cache", "packs"]).args(line.split_whitespace());
    c.env_remove("FURA_CPU").stdin(Stdio::null()).output().unwrap()
}

/// The last line of what a run printed, and what it said on standard error.
fn train(folder: &Path, line: &str) -> (Value, String) {
    let out = command(folder, &format!("train tiny.gguf --tasks tasks.jsonl --json {line}"));
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{line}: {error}");
    let text = String::from_utf8(out.stdout).unwrap();
    (serde_json::from_str(text.lines().last().unwrap()).unwrap(), error)
}

/// A base that answers everything, and steps or perturbations a hundred times too large.
#[test]
fn a_run_that_falls_far_below_the_base_is_stopped_and_the_best_is_kept() {
    let (model, folder) = tiny::open(1, 32);
    let folder = folder.path();
    std::fs::write(folder.join("tasks.jsonl"), tasks_that_suit(&model, &Base)).unwrap();
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let shape = "--generations 60 --pairs 4 --requests 8 --from-layer 0 --scope everywhere --final-alpha 1";
    let success = |last: &Value, who: &str| last[who]["heldout"]["success"].as_f64().unwrap();

    let (healthy, _) = train(folder, &format!("{shape} --sigma 0.05 --alpha 0.01 --out healthy.fura"));
    assert_eq!((&healthy["diverged"], &healthy["generations"]), (&Value::Null, &Value::from(60)));
    assert_eq!(success(&healthy, "base"), 1.0);

    // However large a perturbation is, a step has its length: the members are lost, the specialist need not be. If it is,
    // the run stops.
    let (wide, _) = train(folder, &format!("{shape} --sigma 20 --out wide.fura"));
    assert!(success(&wide, "specialist") > 0.5, "{wide}");

    let lost = format!("{shape} --sigma 20 --alpha 10");
    let (last, error) = train(folder, &format!("{lost} --out lost.fura"));
    let (at, kept) = (last["diverged"]["at"].as_u64().unwrap(), last["diverged"]["kept"].as_u64().unwrap());
    assert!(at < 15 && kept < at, "{last}");
    assert!(
        error.contains(&format!("stopped after {at} generations")) && error.contains("--alpha"),
        "{error}"
    );
    assert_eq!(success(&last, "specialist"), 1.0, "nothing is better than a base that answers everything");
    assert_eq!(kept, 0);

    // The log says the same, and so does a run that ended at any of its records.
    let (whole, log) = (bytes("lost.fura"), bytes("lost.fura.runlog"));
    assert!(command(folder, "rebuild lost.fura.runlog --out rebuilt.fura").status.success());
    assert_eq!(bytes("rebuilt.fura"), whole);
    let (again, _) = train(folder, &format!("{lost} --resume --out lost.fura"));
    assert_eq!((&again["diverged"], bytes("lost.fura")), (&last["diverged"], whole.clone()));
    assert_eq!(bytes("lost.fura.runlog"), log, "a finished run is left as it is");
    for (k, end) in [log.len() - 1, log.len() - 20, log.len() / 2, log.len() * 3 / 4].into_iter().enumerate()
    {
        let name = format!("cut{k}.fura");
        std::fs::write(folder.join(format!("{name}.runlog")), &log[..end]).unwrap();
        let (resumed, _) = train(folder, &format!("{lost} --resume --out {name}"));
        assert_eq!((&resumed["diverged"], bytes(&name)), (&last["diverged"], whole.clone()), "cut at {end}");
    }
}

/// What is kept is what the best generation's members were drawn around.
#[test]
fn the_best_generation_is_kept_if_it_is_better_than_the_base() {
    on_one_thread(keep_the_best);
}

fn keep_the_best() {
    let (model, _folder) = tiny::open(2, 32);
    let isa = Isa::detect();
    let cancel = AtomicBool::new(false);
    let layout = model.layout_from(0).with_scope(Scope::Everywhere);
    let config = EsConfig { seed: 4, pairs: 2, sigma: 0.3, alpha: 0.6, ..EsConfig::default() };
    let generations = vec![vec![1.0, 0.0, 0.5, 0.2], vec![9.0, 7.0, 8.0, 9.0], vec![0.1, 0.2, 0.3, 0.4]];
    let header = RunHeader::new(model.fingerprint(), layout.clone(), config, "toy");
    let after_one = replay(&header, &generations[..1]).unwrap().final_coordinates();
    let notes = Vec::new();
    let history = RunHistory { header, generations, notes, finished: false, torn_bytes: 0 };
    for (suits_the_base, kept) in [(false, 1), (true, 0)] {
        let members: Box<dyn Members> = match suits_the_base {
            true => Box::new(Base),
            false => Box::new(Adapted::new(&model, isa, &after_one, &layout)),
        };
        let tasks = tasks_that_suit(&model, members.as_ref());
        let source = TaskSource::File { set: TaskSet::read("t.jsonl", tasks.as_bytes()).unwrap(), seed: 0 };
        let mut scorer = Scorer::new(&model, isa, 1, 256);
        let held = HeldOut::new(&scorer, &source, 100).unwrap();
        let base = held.evaluate(&mut scorer, &Base, &cancel).unwrap().unwrap().heldout;
        assert_eq!(base.success == 1.0, suits_the_base, "{base:?}");
        let mut guard = Guard::new(&mut scorer, &held, base, &plan(), &cancel).unwrap().unwrap();
        for fitness in &history.generations {
            guard.suspects(fitness);
        }
        let best = guard.best(&history, &mut scorer, &held, isa, &cancel).unwrap().unwrap();
        assert_eq!(best, Diverged { at: 3, kept });
    }
}

/// A run of three generations.
fn plan() -> RunPlan {
    RunPlan {
        tasks: String::new(),
        requests: 1,
        reward: Reward::Expected,
        answers: Answers::Scored,
        generations: 3,
    }
}

/// The guard of a run whose base answers so many of a hundred.
fn guard(of_100: usize) -> Guard {
    let (model, _folder) = tiny::open(1, 32);
    let set = TaskSet::read("t.jsonl", tasks_that_suit(&model, &Base).as_bytes()).unwrap();
    let source = TaskSource::File { set, seed: 0 };
    let mut scorer = Scorer::new(&model, Isa::detect(), 1, 256);
    let held = HeldOut::new(&scorer, &source, 100).unwrap();
    let base = share(of_100);
    on_one_thread(|| Guard::new(&mut scorer, &held, base, &plan(), &AtomicBool::new(false))).unwrap().unwrap()
}

/// So many right of a hundred.
fn share(right: usize) -> Success {
    let interval = fura::tasks::wilson95(right as u64, 100).unwrap();
    let success = right as f64 / 100.0;
    Success { success, n: 100, low: interval.low, high: interval.high, free: success, expected: success }
}

#[test]
fn members_that_do_half_as_well_as_the_base_are_reason_to_measure_at_most_every_tenth_generation() {
    let mut guard = guard(50);
    let nan = f64::NAN;
    assert!(!guard.suspects(&[0.26, 0.25]) && !guard.suspects(&[0.25, 0.25]) && !guard.suspects(&[nan, nan]));
    assert!(!guard.suspects(&[0.3, nan]), "those that were graded count");
    assert!(guard.suspects(&[0.1, nan]));
    let again: Vec<bool> = (0..21).map(|_| guard.suspects(&[0.1, 0.2])).collect();
    let due: Vec<usize> = (0..21).filter(|t| again[*t]).collect();
    assert_eq!(due, [9, 19]);
}

#[test]
fn a_loss_is_half_of_the_base_and_more_than_chance() {
    for (base, now, lost) in [
        (100, 51, false),
        (100, 49, true),
        (100, 0, true),
        (60, 31, false),
        (60, 20, true),
        (30, 14, false),
        (30, 12, true),
        (20, 9, false),
        (20, 2, true),
        // Few that the base solves leave nothing to tell from chance.
        (5, 0, false),
        (0, 0, false),
    ] {
        assert_eq!(guard(base).is_lost(&share(now)), lost, "{now} of 100, the base {base}");
    }
}
