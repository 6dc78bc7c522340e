//! External graders: the example, and every way to misbehave. Needs `python3`; without it the
//! tests say so and pass.

use fura_tasks::{Environment, External, ExternalError, ExternalSpec, Grade, Label, Request, Task, TaskSet};

fn python() -> bool {
    let found =
        std::process::Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: python3 is not on the PATH");
    }
    found
}

fn tasks(count: usize) -> Vec<Task> {
    let lines: Vec<String> = (0..count)
        .map(|i| format!(r#"{{"id":"t{i}","prompt":"Q:","answer":"abc{i}","grade":{{"type":"exact"}}}}"#))
        .collect();
    TaskSet::read("t.jsonl", lines.join("\n").as_bytes()).unwrap().tasks().to_vec()
}

/// Limits long enough for a slow machine, where the outcome does not depend on them.
fn spec(program: &str) -> ExternalSpec {
    ExternalSpec::new(["python3", "-c", program].map(str::to_owned).to_vec())
}

fn grade(external: &mut External, count: usize) -> Vec<Grade> {
    let tasks = tasks(count);
    let requests: Vec<_> = tasks.iter().map(|task| Request { task, output: "x" }).collect();
    external.grade(&requests)
}

fn labels(grades: &[Grade]) -> Vec<Label> {
    grades.iter().map(Grade::label).collect()
}

/// A program that reads requests and runs `body` for each `request`.
fn program(body: &str) -> String {
    format!(
        "import json, os, sys, time\ndef say(d): print(json.dumps(d), flush=True)\nn = 0\nfor line in sys.stdin:\n    r = json.loads(line); n += 1\n    {body}\n"
    )
}

fn run(body: &str, count: usize) -> Vec<Grade> {
    let mut external = External::start(&spec(&program(body))).unwrap();
    let grades = grade(&mut external, count);
    assert_eq!(grades.len(), count);
    grades
}

/// Every grade is a fault with this label: not one is a number.
fn assert_faults(grades: &[Grade], want: Label) {
    for grade in grades {
        assert!(matches!(grade, Grade::Fault { label, .. } if *label == want), "{want}: {grade:?}");
        assert_eq!(grade.value(), None);
    }
}

#[test]
fn the_example_grades_batches() {
    if !python() {
        return;
    }
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/grader.py");
    assert!(std::fs::read_to_string(example).unwrap().lines().count() <= 10);
    let mut external =
        External::start(&ExternalSpec::new(vec!["python3".to_owned(), example.to_owned()])).unwrap();
    let tasks = tasks(50);
    for _ in 0..3 {
        let outputs: Vec<String> =
            (0..50).map(|i| if i % 2 == 0 { format!("{i}cba") } else { "abc".to_owned() }).collect();
        let requests: Vec<_> =
            tasks.iter().zip(&outputs).map(|(task, output)| Request { task, output }).collect();
        // Two digits are reversed too, so that only palindromes of them are right.
        let right = |i: usize| i.is_multiple_of(2) && (i < 10 || i.is_multiple_of(11));
        for (i, grade) in external.grade(&requests).iter().enumerate() {
            let want =
                if right(i) { Grade::score(1.0, Label::Right) } else { Grade::score(0.0, Label::Wrong) };
            assert_eq!(*grade, want, "{i}");
        }
    }
    assert_eq!(external.grade(&[]), []);
}

#[test]
fn answers_are_joined_by_id_and_may_abstain() {
    if !python() {
        return;
    }
    let body = r#"
    a = globals().setdefault("a", []); a.append(r["id"])
    if n == 4:
        for i in reversed(a): say({"id": i, "score": None if i.endswith("3") else int(i[-1]) / 4})"#;
    let grades = run(body, 4);
    assert_eq!(grades[0], Grade::score(0.0, Label::Wrong));
    assert_eq!(grades[1], Grade::score(0.25, Label::Partial));
    assert_eq!(grades[2], Grade::score(0.5, Label::Partial));
    assert_eq!(grades[3], Grade::Abstain { label: Label::NotApplicable });
}

#[test]
fn silence_is_a_timeout_and_never_a_zero() {
    if !python() {
        return;
    }
    let mut spec = spec(&program("if n != 2: say({\"id\": r[\"id\"], \"score\": 1})"));
    spec.item_seconds = 3.0;
    let mut external = External::start(&spec).unwrap();
    let grades = grade(&mut external, 3);
    assert_faults(&grades[1..2], Label::TimedOut);
    // A slow machine may make the others time out too; a number is only ever the right one.
    assert!([0, 2].iter().all(|&i| grades[i].value().is_none_or(|score| score == 1.0)));
}

#[test]
fn a_command_that_neither_reads_nor_writes_is_given_up() {
    if !python() {
        return;
    }
    let mut spec = spec("import time\ntime.sleep(1000)");
    spec.item_seconds = 0.5;
    spec.restarts = 0;
    let mut external = External::start(&spec).unwrap();
    // More than a pipe holds.
    let tasks = tasks(1);
    let output = "x".repeat(1 << 20);
    let requests = [Request { task: &tasks[0], output: &output }; 4];
    assert_faults(&external.grade(&requests), Label::TimedOut);
    assert_faults(&external.grade(&requests), Label::Crashed);
}

#[test]
fn a_crash_is_a_fault_of_what_was_not_answered() {
    if !python() {
        return;
    }
    let grades = run("say({\"id\": r[\"id\"], \"score\": 1}); n == 2 and os._exit(3)", 4);
    assert_eq!(labels(&grades[..2]), [Label::Right; 2]);
    assert_faults(&grades[2..], Label::Crashed);
}

#[test]
fn a_command_is_started_anew_a_limited_number_of_times() {
    if !python() {
        return;
    }
    let mut spec =
        spec(&program("os._exit(0) if r[\"output\"] == \"x\" else say({\"id\": r[\"id\"], \"score\": 1})"));
    spec.restarts = 1;
    let mut external = External::start(&spec).unwrap();
    let tasks = tasks(1);
    assert_faults(&grade(&mut external, 1), Label::Crashed);
    let other = external.grade(&[Request { task: &tasks[0], output: "y" }]);
    assert_eq!(labels(&other), [Label::Right]);
    assert_faults(&grade(&mut external, 1), Label::Crashed);
    let other = external.grade(&[Request { task: &tasks[0], output: "y" }]);
    assert_faults(&other, Label::Crashed);
}

#[test]
fn wrong_ids_garbage_and_floods_are_faults() {
    if !python() {
        return;
    }
    for (body, want) in [
        ("say({\"id\": \"9.9\", \"score\": 1})", Label::BadReply),
        ("say({\"id\": r[\"task\"][\"id\"], \"score\": 1})", Label::BadReply),
        ("print(\"debug\", flush=True)", Label::BadReply),
        ("say({\"id\": r[\"id\"]})", Label::BadReply),
        ("say({\"id\": r[\"id\"], \"score\": float(\"nan\")})", Label::BadReply),
        ("say({\"id\": r[\"id\"], \"score\": 1, \"label\": \"fine\"})", Label::BadReply),
        ("sys.stdout.buffer.write(b\"\\xff\\n\"); sys.stdout.flush()", Label::BadReply),
        ("sys.stdout.write(\"x\" * (1 << 22)); sys.stdout.flush()", Label::Flooded),
        ("say({\"id\": r[\"id\"], \"score\": 2})", Label::BadScore),
        ("say({\"id\": r[\"id\"], \"score\": -0.001})", Label::BadScore),
    ] {
        let grades = run(body, 3);
        assert_faults(&grades, want);
    }
    // Endless answers to the first request, while the second waits.
    let grades = run("\n    while n == 1: say({\"id\": r[\"id\"], \"score\": 1})", 2);
    assert_faults(&grades[..1], Label::Duplicate);
    assert_faults(&grades[1..], Label::Flooded);
}

#[test]
fn a_second_answer_takes_the_first_back() {
    if !python() {
        return;
    }
    let body = "say({\"id\": r[\"id\"], \"score\": 1}); n == 1 and say({\"id\": r[\"id\"], \"score\": 1})";
    let grades = run(body, 3);
    assert_faults(&grades[..1], Label::Duplicate);
    assert_eq!(labels(&grades[1..]), [Label::Right; 2]);
}

#[test]
fn an_answer_after_its_batch_changes_nothing() {
    if !python() {
        return;
    }
    let body = "say({\"id\": r[\"id\"], \"score\": 1}); n == 1 and (time.sleep(0.2), say({\"id\": r[\"id\"], \"score\": 0}))";
    let mut external = External::start(&spec(&program(body))).unwrap();
    assert_eq!(labels(&grade(&mut external, 1)), [Label::Right]);
    assert_eq!(labels(&grade(&mut external, 1)), [Label::Right]);
    assert_eq!(external.late(), 1);
}

#[cfg(unix)]
#[test]
fn the_environment_is_empty_and_the_process_group_its_own() {
    if !python() {
        return;
    }
    // Cargo sets the first for tests, and a person has the second. A `python3` that is a script may
    // set variables of its own, so that not all are compared.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let body = "say({\"id\": r[\"id\"], \"score\": 0 if {\"CARGO_MANIFEST_DIR\", \"HOME\"} & set(os.environ) or os.getpgrp() == int(os.environ[\"GROUP\"]) else 1})";
    let mut spec = spec(&program(body));
    let group = rustix::process::getpgrp().as_raw_nonzero();
    spec.env.insert("GROUP".to_owned(), group.to_string());
    assert_eq!(labels(&grade(&mut External::start(&spec).unwrap(), 1)), [Label::Right]);
}

/// The whole process group goes, not only its leader.
#[cfg(target_os = "linux")]
#[test]
fn children_of_the_command_are_killed_with_it() {
    if !python() {
        return;
    }
    let body = "p = __import__(\"subprocess\").Popen([\"sleep\", \"1000\"]); open(os.environ[\"PIDS\"], \"w\").write(str(p.pid)); say({\"id\": r[\"id\"], \"score\": 1})";
    let file = std::env::temp_dir().join(format!("fura-external-{}", std::process::id()));
    let mut spec = spec(&program(body));
    spec.env.insert("PIDS".to_owned(), file.display().to_string());
    let mut external = External::start(&spec).unwrap();
    assert_eq!(labels(&grade(&mut external, 1)), [Label::Right]);
    let pid: u32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    std::fs::remove_file(&file).unwrap();
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Gone, or dead and not yet waited for by whoever inherited it.
        !stat.is_empty() && !stat.contains(") Z")
    };
    assert!(runs());
    drop(external);
    let begin = std::time::Instant::now();
    while runs() && begin.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!runs());
}

#[test]
fn a_command_that_cannot_start_is_an_error() {
    let error = External::start(&ExternalSpec::new(vec!["no-such-program-here".to_owned()])).unwrap_err();
    assert!(matches!(error, ExternalError::Start { .. }));
    assert!(matches!(External::start(&ExternalSpec::new(vec![])), Err(ExternalError::NoCommand)));
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        let mut spec = ExternalSpec::new(vec!["true".to_owned()]);
        spec.item_seconds = seconds;
        assert!(matches!(External::start(&spec), Err(ExternalError::BadLimit { field: "item_seconds", .. })));
    }
}

fn counter() -> (Environment, Task) {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/environment.py");
    let spec = ExternalSpec::new(vec!["python3".to_owned(), example.to_owned()]);
    let line = r#"{"id":"c","prompt":"Q:","answer":"2","grade":{"type":"exact"}}"#;
    let task = TaskSet::read("t.jsonl", line.as_bytes()).unwrap().tasks()[0].clone();
    (Environment::start(&spec).unwrap(), task)
}

#[test]
fn the_example_environment_plays_episodes() {
    if !python() {
        return;
    }
    let (mut environment, task) = counter();
    let begin = environment.reset(&task, 3).unwrap();
    assert_eq!((begin.text.as_str(), begin.done), ("Count: 0", false));
    assert!(!environment.act("up").unwrap().done);
    assert!(environment.act("up").unwrap().done);
    assert_eq!(environment.end(), Grade::score(1.0, Label::Right));
    // The other member of a pair begins with the same state, and ends elsewhere.
    assert_eq!(environment.reset(&task, 3).unwrap(), begin);
    environment.act("left").unwrap();
    assert_eq!(environment.end(), Grade::score(0.0, Label::Wrong));
    // There is no episode to go on with.
    assert_eq!(environment.act("up").unwrap_err().label, Label::NotApplicable);
    assert_faults(&[environment.end()], Label::NotApplicable);
}

#[test]
fn a_broken_environment_is_a_fault_and_begins_anew() {
    if !python() {
        return;
    }
    let (_, task) = counter();
    for (body, want) in [
        ("os._exit(1)", Label::Crashed),
        ("print(1, flush=True)", Label::BadReply),
        ("say({\"id\": \"7\", \"observation\": \"\", \"state_hash\": \"\"})", Label::BadReply),
        ("say({\"id\": r[\"id\"], \"score\": 1})", Label::BadReply),
        ("print(\"x\" * (1 << 21), flush=True)", Label::Flooded),
        ("pass", Label::TimedOut),
    ] {
        let mut spec = spec(&program(body));
        spec.restarts = 1;
        spec.item_seconds = if want == Label::TimedOut { 0.5 } else { 60.0 };
        let mut environment = Environment::start(&spec).unwrap();
        for want in [want, want, Label::Crashed] {
            assert_eq!(environment.reset(&task, 0).unwrap_err().label, want, "{body}");
            assert_faults(&[environment.end()], Label::NotApplicable);
        }
    }
    // A score outside [0, 1] is no outcome.
    let body = "say({\"id\": r[\"id\"], \"score\": 3} if \"end\" in r else {\"id\": r[\"id\"], \"observation\": \"\", \"state_hash\": \"\"})";
    let mut environment = Environment::start(&spec(&program(body))).unwrap();
    environment.reset(&task, 0).unwrap();
    assert_faults(&[environment.end()], Label::BadScore);
}

/// Linux limits memory and processor time; elsewhere a spec that asks for it is refused.
#[test]
fn memory_and_processor_time_are_limited() {
    if !python() {
        return;
    }
    let with = |body: &str, memory: Option<u64>, seconds: Option<u64>| {
        let mut spec = spec(&program(body));
        (spec.memory_bytes, spec.cpu_seconds) = (memory, seconds);
        External::start(&spec).map(|mut external| grade(&mut external, 2))
    };
    let large = r#"x = bytearray(1 << 30); say({"id": r["id"], "score": 1})"#;
    let busy = r#"[None for _ in iter(int, 1)]"#;
    if !cfg!(target_os = "linux") {
        assert!(matches!(
            with(large, Some(1), None),
            Err(ExternalError::Resource { field: "memory_bytes", .. })
        ));
        return;
    }
    // A gigabyte under a limit of half of one, and a loop without end under one of a second.
    assert_faults(&with(large, Some(1 << 29), None).unwrap(), Label::Crashed);
    assert_faults(&with(busy, None, Some(1)).unwrap(), Label::Crashed);
    // Below its limits a grader is none the wiser.
    let small = r#"x = bytearray(1 << 20); say({"id": r["id"], "score": 1})"#;
    let grades = with(small, Some(1 << 29), Some(60)).unwrap();
    assert!(grades.iter().all(|grade| grade.value() == Some(1.0)), "{grades:?}");
}
