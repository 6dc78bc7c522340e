//! What is fuzzed: for each reader of files or text from elsewhere a function of bytes that must not panic, whatever
//! they are, and that asserts what holds of any input.
//!
//! libFuzzer is no part of this: `fuzz_targets` has a program for each function, and `tests/tests/corpora.rs` of the main
//! workspace includes these files and runs the functions on `corpus` with a stable compiler.
#![forbid(unsafe_code)]

mod checksums;
mod files;
mod folders;
mod graders;
mod phone;
mod tasks;
mod texts;

pub use checksums::{check_pack, tag_run_log};
pub use files::{gguf, pack, run_log, specialist};
pub use folders::{Packed, config, safetensors, tokenizer};
pub use graders::{external, grader};
pub use phone::{name, phone};
pub use tasks::{import, task_file};
pub use texts::{chat_template, grammar, tiny_model};

/// Reads bytes, and panics where what holds of any input does not hold.
pub type Target = fn(&[u8]);

/// Every target with the name of its folder in `corpus`.
pub const TARGETS: [(&str, Target); 15] = [
    ("chat_template", chat_template),
    ("config", config),
    ("external", external),
    ("gguf", gguf),
    ("grader", grader),
    ("grammar", grammar),
    ("import", import),
    ("name", name),
    ("pack", pack),
    ("phone", phone),
    ("run_log", run_log),
    ("safetensors", safetensors),
    ("specialist", specialist),
    ("task_file", task_file),
    ("tokenizer", tokenizer),
];

/// The parts of an input between bytes of zero: the first `N - 1`, and all that is left.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut rest = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| rest.next().unwrap_or_default())
}
