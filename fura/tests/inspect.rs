//! What the command says of a model's file, and of its text in particular.

use fura::model::gguf::GgufWriter;
use fura_tests::rewrite::rewrite;
use fura_tests::tiny;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Standard output of a command that must succeed, and standard error.
fn ok(folder: &Path, line: &str) -> (String, String) {
    let (code, out, error) = run(folder, line);
    assert_eq!(code, Some(0), "{line}: {error}");
    (out, error)
}

fn run(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let mut c = Command::new(env!("CARGO_BIN_EXE_fura"));
    c.current_dir(folder).args(["--cache", "packs"]).args(line.split_whitespace()).env_remove("FURA_CPU");
    let out = c.stdin(Stdio::null()).output().unwrap();
    let [stdout, stderr] = [out.stdout, out.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (out.status.code(), stdout, stderr)
}

fn json(folder: &Path, line: &str) -> Value {
    serde_json::from_str(ok(folder, &format!("{line} --json")).0.trim()).unwrap()
}

fn write(folder: &Path, writer: &GgufWriter) {
    std::fs::write(folder.join("tiny.gguf"), writer.finish().unwrap()).unwrap();
}

/// The types that a file really mixes, whatever its name says, and the bits that a weight takes.
#[test]
fn the_real_mixture_of_types_and_its_bits_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, &tiny::writer(1));
    let facts = json(folder, "inspect tiny.gguf");
    let of = |kind: &str| {
        let all = facts["weights"].as_array().unwrap();
        let one = all.iter().find(|w| w["type"] == kind).unwrap_or_else(|| panic!("{kind} in {facts}"));
        (one["matrices"].as_u64().unwrap(), one["weights"].as_u64().unwrap())
    };
    let linears = (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96) as u64;
    let embedding = (257 * 64) as u64;
    assert_eq!(of("Q4_1"), (7, linears), "the first layer");
    assert_eq!(of("Q4_0"), (7, linears), "the second");
    assert_eq!(of("Q8_0"), (1, embedding));
    // With a scale of 16 bits, and a minimum of 16 in Q4_1, for 32 weights.
    let bits = linears as f64 * (4.5 + 5.0) + embedding as f64 * 8.5;
    let mean = bits / (2 * linears + embedding) as f64;
    assert!((facts["bits_per_weight"].as_f64().unwrap() - mean).abs() < 1e-9, "{facts}");
    let text = ok(folder, "inspect tiny.gguf").0;
    assert!(text.contains("Q4_1: 7 matrices") && text.contains(&format!("{mean:.2} bits")), "{text}");
}

/// Which pre-tokenizer is used; a file that names none is refused until one is named.
#[test]
fn the_pre_tokenizer_is_shown_and_can_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, &tiny::writer(1));
    assert_eq!(json(folder, "inspect tiny.gguf")["pre_tokenizer"], "smollm");
    assert!(ok(folder, "inspect tiny.gguf").0.contains("cut as smollm"));
    let named = json(folder, "run tiny.gguf abc --max-tokens 5")["tokens"].clone();
    for name in [None, Some("default"), Some("deepseek-v9")] {
        let mut writer = rewrite(&tiny::bytes(1), |key| key != "tokenizer.ggml.pre", |_| true);
        if let Some(name) = name {
            writer.kv("tokenizer.ggml.pre", name);
        }
        write(folder, &writer);
        for command in ["inspect tiny.gguf", "run tiny.gguf abc"] {
            let (code, _, error) = run(folder, command);
            assert_eq!((code, error.trim_end().lines().count()), (Some(2), 1), "{error}");
            assert!(error.contains("tokenizer.ggml.pre") && error.contains("--pre NAME"), "{error}");
            assert!(error.contains(name.unwrap_or("missing")) && error.contains("llama-bpe"), "{error}");
        }
        assert_eq!(json(folder, "inspect tiny.gguf --pre qwen2")["pre_tokenizer"], "qwen2");
        assert_eq!(json(folder, "run tiny.gguf abc --max-tokens 5 --pre smollm")["tokens"], named);
    }
    let (code, _, error) = run(folder, "inspect tiny.gguf --pre nonsense");
    assert!(code == Some(2) && error.contains("expected one of gpt-2"), "{error}");
}

/// Whether the token that begins a sequence is there once is the file's word for raw text and the template's for chats;
/// a template that writes it twice is reported by every command.
#[test]
fn sequences_begin_once_and_a_template_that_begins_twice_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for adds in [false, true] {
        for begins in 0..3 {
            let mut writer = tiny::writer(1);
            let template = format!("{}{{{{ messages[0].content }}}}:", "{{ bos_token }}".repeat(begins));
            writer
                .kv("tokenizer.ggml.bos_token_id", 256_u32)
                .kv("tokenizer.ggml.add_bos_token", adds)
                .kv("tokenizer.chat_template", template.as_str());
            write(folder, &writer);
            let tokens = |line: &str| {
                let (out, error) = ok(folder, &format!("run tiny.gguf abc --max-tokens 1 --json {line}"));
                assert_eq!(error.contains("begin-of-sequence token twice"), begins == 2, "{error}");
                let answer: Value = serde_json::from_str(out.trim()).unwrap();
                answer["prompt_tokens"].as_u64().unwrap() as usize
            };
            assert_eq!(tokens("--raw"), 3 + usize::from(adds), "{adds} {begins}");
            assert_eq!(tokens(""), 4 + begins, "{adds} {begins}");
        }
    }
    assert!(ok(folder, "inspect tiny.gguf").1.contains("begin-of-sequence token twice"));
}
