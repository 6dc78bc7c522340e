//! The fuzz targets on a stable compiler: every input of `fuzz/corpus`, which a fuzzer found worth keeping or which once
//! broke a reader, and changes of them at random. proptest chooses the changes, so that a failure is reduced to a small
//! one and can be repeated. How to fuzz: `fuzz/README.md`.

#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

use fura_core::estimator::EsConfig;
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{Layout, Linear};
use fura_core::runlog::{RunHeader, RunLog};
use fura_core::specialist::Specialist;
use fura_tasks::{TaskSet, stress};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::error::Error;
use std::path::Path;

/// The inputs of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn every_input_of_the_corpora_is_read_or_refused() {
    for (name, target) in fuzz::TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name}");
        for (i, input) in inputs.iter().enumerate() {
            // Shown when a target panics.
            println!("{name}: input {i} in the order of names");
            target(input);
        }
    }
}

#[test]
fn every_task_of_the_corpus_can_be_attacked() {
    let sets = corpus("task_file");
    let sets: Vec<_> =
        sets.iter().filter_map(|bytes| TaskSet::read("corpus.jsonl", &bytes[..]).ok()).collect();
    assert!(sets.len() > 4, "{} task files", sets.len());
    for task in sets.iter().flat_map(TaskSet::tasks) {
        assert!(stress(task).unwrap().tried > 10);
    }
}

/// A change of bytes; positions are shares of the length.
#[derive(Debug, Clone)]
enum Change {
    Set(f64, u8),
    Insert(f64, &'static str),
    Remove(f64, usize),
    Repeat(f64, usize, usize),
    Cut(f64),
    /// Everything from a place on is that of another input.
    Splice(f64, usize, f64),
}

/// What readers look for.
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

fn changed(inputs: &[Vec<u8>], seed: usize, changes: &[Change]) -> Vec<u8> {
    let mut bytes = inputs[seed % inputs.len()].clone();
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
                let other = &inputs[other % inputs.len()];
                bytes.truncate(place(at, length));
                bytes.extend_from_slice(&other[place(from, other.len())..]);
            }
        }
    }
    bytes
}

#[test]
fn changed_inputs_are_read_or_refused() {
    for (name, target) in fuzz::TARGETS {
        let inputs = corpus(name);
        let changes = (any::<usize>(), prop::collection::vec(change(), 1..6));
        // 256 for each target, or as many as the environment's PROPTEST_CASES says.
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = TestRunner::new(config);
        let result = runner.run(&changes, |(seed, changes)| {
            target(&changed(&inputs, seed, &changes));
            Ok(())
        });
        if let Err(error) = result {
            panic!("{name}: {error}");
        }
    }
}

/// Writes whole small files of our own binary formats to begin with, and golden files of others: after a change of format
/// run it with `--ignored`.
#[test]
#[ignore = "writes into fuzz/corpus"]
fn inputs_to_begin_with() -> Result<(), Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let put = |target: &str, name: &str, bytes: &[u8]| {
        std::fs::create_dir_all(corpus.join(target))?;
        std::fs::write(corpus.join(target).join(name), bytes)
    };
    put("gguf", "tiny", &fuzz::tiny_model())?;
    put("pack", "tiny", &fuzz::Packed::new().bytes())?;
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let read = |folder: &str, file: &str| std::fs::read(golden.join(folder).join(file));
    // The first byte chooses the folder in which the file is replaced.
    let chosen = |byte: u8, bytes: Vec<u8>| [vec![byte], bytes].concat();
    for (i, folder) in
        ["folders/llama", "grouped/awq", "grouped/gptq", "grouped/mlx", "folders/gemma3"].iter().enumerate()
    {
        let name = folder.rsplit('/').next().unwrap_or(folder);
        put("config", name, &chosen(i as u8, read(folder, "config.json")?))?;
        // The others are larger than what a fuzzer makes.
        if ["llama", "awq", "mlx"].contains(&name) {
            put("safetensors", name, &chosen(i as u8, read(folder, "model.safetensors")?))?;
        }
    }
    for name in ["phi3", "mistral", "qwen2", "qwen3", "smollm3", "gemma2"] {
        put("config", name, &chosen(0, read(&format!("folders/{name}"), "config.json")?))?;
    }
    for name in ["gemma", "llama"] {
        put("gguf", name, &read("sentencepiece", &format!("{name}.gguf"))?)?;
    }
    for name in ["gpt2", "gpt4o", "llama3", "tekken", "mistral"] {
        put("tokenizer", name, &chosen(0, read(&format!("tokenizers/{name}"), "tokenizer.json")?))?;
    }
    put("tokenizer", "llama", &chosen(0, read("folders/llama", "tokenizer.json")?))?;
    put("tokenizer", "config", &chosen(1, read("folders/llama", "tokenizer_config.json")?))?;
    let layout = Layout::new(4, [Linear::new("w", 8, 8)])?;
    let config = EsConfig { pairs: 1, ..EsConfig::default() };
    let header = RunHeader::new(Fingerprint::of(b"model"), layout, config, "seed");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.runlog");
    let mut log = RunLog::create(&path, &header)?;
    log.append_generation(&[1.0, 0.0])?;
    log.append_note(&"a note")?;
    log.append_generation(&[0.5, f64::NAN])?;
    log.finish()?;
    let bytes = std::fs::read(&path)?;
    put("run_log", "two", &bytes)?;
    put("specialist", "two", &Specialist::from_run_log(&RunLog::read(&bytes, &path)?)?.to_bytes())?;
    Ok(())
}
