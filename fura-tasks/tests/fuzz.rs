//! Mutated inputs for every parser of the crate, on stable Rust.
//!
//! A target is a function of bytes that must not panic, whatever they are, and asserts what holds
//! of any input. The bytes are inputs of `tests/corpus/TARGET.txt`, changed at random: proptest chooses
//! the changes, so that a failure is reduced to a small one and can be repeated.

use fura_tasks::external::ExternalSpec;
use fura_tasks::grader::Schema;
use fura_tasks::import::{self, Imported, OpenAiGrader};
use fura_tasks::phone::{Action, Decisions, Episode, PhoneSplit, User};
use fura_tasks::{Generated, GraderSpec, Habits, TaskFileError, TaskSet, TaskSource, stress};
use proptest::prelude::*;

/// A change of bytes; positions are shares of the length.
#[derive(Debug, Clone)]
enum Change {
    Set(f64, u8),
    Insert(f64, &'static str),
    Remove(f64, usize),
    Repeat(f64, usize, usize),
    Cut(f64),
    /// Everything from a place on is that of another file of the corpus.
    Splice(f64, usize, f64),
}

/// What parsers look for.
const TOKENS: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    "null",
    "true",
    "-",
    "0",
    "1e9",
    "1e999",
    "9999999999999999999",
    "\n",
    "\r\n",
    "\u{feff}",
    "\u{661}",
    "\\ud800",
    "\\u0000",
    "(",
    ")",
    "*",
    "/",
    "####",
    "<a>",
    "\"type\":\"all\",\"of\":[",
    "(?u:",
    "{1,999}",
];

fn change() -> impl Strategy<Value = Change> {
    let at = 0.0..1.0f64;
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at.clone(), prop::sample::select(TOKENS.to_vec())).prop_map(|(at, token)| Change::Insert(at, token)),
        (at.clone(), 1usize..20).prop_map(|(at, length)| Change::Remove(at, length)),
        (at.clone(), 1usize..20, 1usize..200)
            .prop_map(|(at, length, times)| Change::Repeat(at, length, times)),
        at.clone().prop_map(Change::Cut),
        (at.clone(), any::<usize>(), at).prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ]
}

fn changed(corpus: &[Vec<u8>], seed: usize, changes: &[Change]) -> Vec<u8> {
    let mut bytes = corpus[seed % corpus.len()].clone();
    for change in changes {
        let place = |at: f64, length: usize| ((at * length as f64) as usize).min(length);
        let length = bytes.len();
        match *change {
            Change::Set(at, byte) => {
                if let Some(old) = bytes.get_mut(place(at, length)) {
                    *old = byte;
                }
            }
            Change::Insert(at, token) => {
                drop(bytes.splice(place(at, length)..place(at, length), token.bytes()))
            }
            Change::Remove(at, count) => {
                let from = place(at, length);
                bytes.drain(from..(from + count).min(length));
            }
            Change::Repeat(at, count, times) => {
                let from = place(at, length);
                let part = bytes[from..(from + count).min(length)].repeat(times);
                bytes.splice(from..from, part);
            }
            Change::Cut(at) => bytes.truncate(place(at, length)),
            Change::Splice(at, other, from) => {
                let other = &corpus[other % corpus.len()];
                bytes.truncate(place(at, length));
                bytes.extend_from_slice(&other[place(from, other.len())..]);
            }
        }
    }
    bytes
}

/// The inputs of a target: the parts of its file between lines of `%%`.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let text = std::fs::read_to_string(folder.join(format!("{target}.txt"))).unwrap();
    let files: Vec<Vec<u8>> = text.split("\n%%\n").map(|part| part.trim_end().as_bytes().to_vec()).collect();
    assert!(files.len() > 2, "{target}");
    files
}

/// Runs a target on its corpus and on changes of it.
fn fuzz(target: &str, run: fn(&[u8])) {
    let corpus = corpus(target);
    corpus.iter().for_each(|bytes| run(bytes));
    let changes = (any::<usize>(), prop::collection::vec(change(), 1..6));
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 500, ..ProptestConfig::default() });
    let result = runner.run(&changes, |(seed, changes)| {
        run(&changed(&corpus, seed, &changes));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{target}: {error}");
    }
}

fn one_line(error: &TaskFileError) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 700, "{text}");
}

/// Task files: a task that is read can be written and read again, and graded.
fn fuzz_task_file(bytes: &[u8]) {
    match TaskSet::read("fuzz.jsonl", bytes) {
        Err(error) => one_line(&error),
        Ok(set) => {
            for task in set.tasks() {
                let again = TaskSet::read("again.jsonl", task.to_line().as_bytes()).unwrap();
                assert_eq!(again.tasks(), std::slice::from_ref(task));
                assert_eq!(task.grade(&task.answer).value(), Some(1.0));
            }
        }
    }
}

/// Graders from options: those that can be made give scores in [0, 1].
fn fuzz_grader_spec(bytes: &[u8]) {
    let Ok(spec) = serde_json::from_slice::<GraderSpec>(bytes) else { return };
    let outputs = ["", "a", "18", "3*7+8", "{\"a\":1}", "f(a=1)", "<a>1</a>", "#### 1", "a,b", "\u{661}"];
    for answer in outputs {
        let Ok(grader) = spec.build(answer, &[]) else { continue };
        for output in outputs {
            let (score, _) = grader.score(output);
            assert!((0.0..=1.0).contains(&score));
            assert_eq!(grader.score(output).0, score);
        }
    }
}

/// Outputs: any text gets a score in [0, 1] from every grader of a corpus of specs.
fn fuzz_grader_output(bytes: &[u8]) {
    let output = String::from_utf8_lossy(bytes);
    for (spec, answer) in [
        (r#"{"type":"set","partial":true}"#, "a,b"),
        (
            r#"{"type":"number","which":"last","thousands":true,"percent":true,"units":{"m":1,"\u20ac":2}}"#,
            "1",
        ),
        (r#"{"type":"number","decimal_comma":true,"thousands":true,"rel":0.1}"#, "1"),
        (r#"{"type":"expr","numbers":[3,7,8],"target":29}"#, ""),
        (r#"{"type":"json","partial":true,"which":"last","extra":"ignore"}"#, "{\"a\":[1,{\"b\":null}]}"),
        (r#"{"type":"call"}"#, "{\"name\":\"f\",\"arguments\":{\"a\":1}}"),
        (r#"{"type":"call","syntax":"python"}"#, "f(a=1)"),
        (
            r#"{"type":"state","partial":true,"want":[{"path":"/a/0","is":1},{"path":"/a","adds":2}],"start":{"a":[1]}}"#,
            "",
        ),
        (r#"{"type":"format","sections":[{"open":"<a>","close":"</a>"}]}"#, ""),
        (r#"{"type":"within","part":"boxed","which":"last","grade":{"type":"number"}}"#, "\\boxed{1}"),
        (r#"{"type":"within","part":"last_line","grade":{"type":"exact"}}"#, "1"),
        (r#"{"type":"regex","pattern":"(\\w+)[ ,]+(?u:(\\w+))","group":"1"}"#, "a b"),
    ] {
        let spec: GraderSpec = serde_json::from_str(spec).unwrap();
        let grader = spec.build(answer, &[]).unwrap();
        let (score, label) = grader.score(&output);
        assert!((0.0..=1.0).contains(&score), "{label}");
        assert_eq!(score == 1.0, label == fura_tasks::Label::Right);
    }
}

/// Imports: what is imported passes its own test.
fn fuzz_import(bytes: &[u8]) {
    let exact: GraderSpec = serde_json::from_str(r#"{"type":"exact"}"#).unwrap();
    let check = r#"{"type":"string_check","operation":"ilike","input":"{{sample.output_text}}","reference":"{{item.answer}}"}"#;
    let grader: OpenAiGrader = serde_json::from_str(check).unwrap();
    let answers = r#"{"id":"q","ground_truth":[{"f":{"n":[1,""],"o":[{"a":["x",""]}]}}]}"#;
    let imports: [Result<Imported, TaskFileError>; 5] = [
        import::gsm8k("f.jsonl", bytes),
        import::columns("f.jsonl", bytes, &exact),
        import::openai("f.jsonl", bytes, &grader),
        import::bfcl(("f.jsonl", bytes), ("a.jsonl", answers.as_bytes())),
        import::bfcl(("f.jsonl", &include_bytes!("data/bfcl_simple_python.jsonl")[..]), ("a.jsonl", bytes)),
    ];
    for imported in imports {
        match imported {
            Err(error) => one_line(&error),
            Ok(imported) => {
                for task in &imported.tasks {
                    assert_eq!(task.grade(&task.answer).value(), Some(1.0));
                }
                for skipped in &imported.skipped {
                    assert!(skipped.line > 0 && !skipped.why.is_empty());
                }
            }
        }
    }
}

/// Names of environments: one that is read is written back as it was, and gives tasks.
fn fuzz_name(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (habits, phone, generated) =
        (text.parse::<Habits>(), text.parse::<Decisions>(), text.parse::<Generated>());
    // At most one of them reads a name.
    assert!(usize::from(habits.is_ok()) + usize::from(phone.is_ok()) + usize::from(generated.is_ok()) <= 1);
    let errors = [
        habits.as_ref().err().map(ToString::to_string),
        phone.as_ref().err().map(ToString::to_string),
        generated.as_ref().err().map(ToString::to_string),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.contains('\n') && error.len() < 1000, "{error}");
    }
    let source = match (habits, phone, generated) {
        (Ok(habits), _, _) => TaskSource::Habits(habits),
        (_, Ok(phone), _) => TaskSource::Phone(phone),
        (_, _, Ok(generated)) => {
            assert!(Generated::is_name(text));
            TaskSource::Generated(generated)
        }
        _ => return,
    };
    let described = source.describe();
    let (name, _) = described.split_once(' ').unwrap();
    // Leading zeros of a seed, and a level or number that is the default, are left out.
    assert!(name.len() <= text.len(), "{text} {name}");
    assert_eq!(source.heldout(1).len(), 1);
}

/// Actions of the phone: what is read is written back as it was; any text leaves an episode as sound as it was.
fn fuzz_action(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let action = text.parse::<Action>();
    match &action {
        Ok(action) => assert_eq!(action.to_string(), text),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    for name in ["message.send/3", "contact.ask/3", "way.quiet/1"] {
        let task = User::new(3).task(name, PhoneSplit::Train, 0).unwrap();
        let mut episode = Episode::new(task, 4);
        let before = episode.state();
        for line in text.lines().take(6) {
            episode.act_text(line);
        }
        if text.lines().all(|line| line.trim().parse::<Action>().is_err()) {
            assert_eq!(episode.state(), before);
        }
        assert!(episode.steps() <= 4);
        assert_eq!(episode.choices().len(), episode.actions().len());
        assert!(episode.screen().lines().count() <= 9);
    }
}

/// Small texts: schemas, graders of others, commands.
fn fuzz_small(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Schema>(bytes);
    let _ = serde_json::from_slice::<OpenAiGrader>(bytes);
    let _ = serde_json::from_slice::<ExternalSpec>(bytes);
}

#[test]
fn task_file() {
    fuzz("task_file", fuzz_task_file);
}

#[test]
fn grader_spec() {
    fuzz("grader_spec", fuzz_grader_spec);
}

#[test]
fn grader_output() {
    fuzz("grader_output", fuzz_grader_output);
}

#[test]
fn import() {
    fuzz("import", fuzz_import);
}

#[test]
fn name() {
    fuzz("name", fuzz_name);
}

#[test]
fn action() {
    fuzz("action", fuzz_action);
}

#[test]
fn small() {
    fuzz("small", fuzz_small);
}

#[test]
fn every_task_of_the_corpus_can_be_attacked() {
    for bytes in corpus("task_file") {
        if let Ok(set) = TaskSet::read("corpus.jsonl", &bytes[..]) {
            for task in set.tasks() {
                assert!(stress(task).unwrap().tried > 10);
            }
        }
    }
}
