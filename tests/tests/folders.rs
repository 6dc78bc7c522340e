//! Models in the folder layout of transformers: its logits, ids of its tokenizers, and damaged files.

use fura_model::tokenizer::{Specials, Tokenizer};
use fura_model::{Model, ModelError, Threads};
use fura_quant::Format;
use fura_simd::Isa;
use fura_tests::forward::{logits, rms};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const MODELS: [&str; 8] = ["llama", "mistral", "smollm3", "qwen2", "qwen3", "phi3", "gemma2", "gemma3"];
const TOKENIZERS: [&str; 9] =
    ["gpt2", "smollm", "llama3", "qwen2", "tekken", "gpt4o", "llama", "mistral", "gemma"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn open(folder: &Path) -> Result<Model, ModelError> {
    let cache = tempfile::tempdir().unwrap();
    Model::open(folder, cache.path(), 32, &mut |_, _| ControlFlow::Continue(()))
}

/// A copy of a model's folder that may be damaged.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(golden("folders").join(name)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    folder
}

fn change(folder: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

/// The message of the refusal: one line that names the file.
fn refused(folder: &Path, file: &str) -> String {
    let message = open(folder).expect_err("must be refused").to_string();
    assert!(message.contains(&format!("{file}: ")) && !message.contains('\n'), "{message}");
    message
}

/// As in `architectures.rs`, where the bound is explained. The weights are such that the pack has their values.
#[test]
fn logits_are_those_of_transformers() {
    for name in MODELS {
        let model = open(&golden("folders").join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let facts = std::fs::read(golden("folders").join(format!("{name}.json"))).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        let tokens: Vec<u32> =
            facts["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect();
        let bytes = std::fs::read(golden("folders").join(format!("{name}.logits"))).unwrap();
        let all: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (exact, int8) = all.split_at(all.len() / 2);
        let ours = logits(&model, Isa::detect(), Threads::Serial, &tokens, tokens.len());
        let c = model.config();
        let roundings = (8 * c.layers * c.d_ff.max(c.d_model)) as f64;
        let bound = rms(exact, &vec![0.0; exact.len()]) * roundings * 2f64.powi(-24);
        let off = rms(&ours, int8);
        println!("{name}: off by {off:.2e}, bound {bound:.2e}, int8 {:.2e}", rms(int8, exact));
        assert!(off < bound, "{name}: {off} from the logits with int8 inputs, more than rounding, {bound}");
        let linears = 7 * c.layers;
        for (i, (matrix, _, format, deviation)) in model.conversions().enumerate() {
            let q4 = Format::from_name("q4").unwrap();
            assert_eq!(format, if i < linears { q4 } else { Format::Q8 }, "{name} {matrix}");
            assert_eq!(deviation.map(|d| d.max), Some(0.0), "{name} {matrix}");
        }
    }
}

#[test]
fn what_the_files_beside_the_weights_say_is_used() {
    let model = open(&golden("folders/llama")).unwrap();
    let tokenizer = model.tokenizer();
    assert_eq!(tokenizer.eos(), Some(95));
    assert!(!tokenizer.add_bos());
    assert_eq!(tokenizer.encode("ab<|end|>", Specials::Parse).unwrap(), [93, 95]);
    assert!(!tokenizer.encode("ab<|end|>", Specials::Ignore).unwrap().contains(&95));
    assert!(model.chat_template().unwrap().source().contains("m.content"));
    // An end token that no list of known ones has.
    let folder = copy("llama");
    change(folder.path(), "tokenizer.json", |t| t["added_tokens"][0]["content"] = json!("<fin>"));
    change(folder.path(), "tokenizer.json", |t| {
        t["model"]["vocab"].as_object_mut().unwrap().remove("<|end|>");
    });
    change(folder.path(), "tokenizer_config.json", |t| t["eos_token"] = Value::Null);
    change(folder.path(), "generation_config.json", |c| c["eos_token_id"] = json!([95]));
    change(folder.path(), "config.json", |c| c["eos_token_id"] = Value::Null);
    let stops = |folder: &Path| open(folder).unwrap().tokenizer().stop_ids().to_vec();
    assert_eq!(stops(folder.path()), [95]);
    change(folder.path(), "config.json", |c| c["eos_token_id"] = json!(95));
    std::fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    assert_eq!(stops(folder.path()), [95]);
    change(folder.path(), "config.json", |c| c["eos_token_id"] = Value::Null);
    assert!(stops(folder.path()).is_empty());
    change(folder.path(), "config.json", |c| c["eos_token_id"] = json!(96));
    assert!(refused(folder.path(), "config.json").contains("eos_token_id"));
}

#[test]
fn both_spellings_of_the_kind_of_rotary_scaling_are_one_model() {
    let fingerprint = |folder: &Path| open(folder).unwrap().fingerprint();
    let folder = copy("llama");
    let found = fingerprint(folder.path());
    change(folder.path(), "config.json", |c| {
        let mut older = c.as_object_mut().unwrap().remove("rope_parameters").unwrap();
        let fields = older.as_object_mut().unwrap();
        let (kind, base) = (fields.remove("rope_type").unwrap(), fields.remove("rope_theta").unwrap());
        fields.insert("type".to_owned(), kind);
        c["rope_scaling"] = older;
        c["rope_theta"] = base;
    });
    assert_eq!(fingerprint(folder.path()), found);
    change(folder.path(), "config.json", |c| c["rope_scaling"]["type"] = json!("default"));
    assert!(refused(folder.path(), "config.json").contains("factor"));
    change(folder.path(), "config.json", |c| c["rope_scaling"]["type"] = json!("spiral"));
    assert!(refused(folder.path(), "config.json").contains("spiral"));
}

/// More rows than tokens are padding that no text reaches.
#[test]
fn a_tokenizer_may_be_smaller_than_the_embedding_but_not_larger() {
    let folder = copy("llama");
    change(folder.path(), "tokenizer.json", |t| {
        t["added_tokens"] = json!([]);
        t["model"]["vocab"].as_object_mut().unwrap().remove("<|end|>");
    });
    change(folder.path(), "tokenizer_config.json", |t| t["eos_token"] = Value::Null);
    for file in ["config.json", "generation_config.json"] {
        change(folder.path(), file, |c| c["eos_token_id"] = Value::Null);
    }
    let model = open(folder.path()).unwrap();
    assert_eq!(model.tokenizer().vocabulary_size(), 96);
    assert_eq!(model.tokenizer().encode("[PAD95]", Specials::Parse).unwrap().len(), 7);
    change(folder.path(), "tokenizer.json", |t| t["model"]["vocab"]["extra"] = json!(96));
    assert!(refused(folder.path(), "tokenizer.json").contains("id 96"));
}

#[test]
fn ids_are_those_of_the_tokenizers_library() {
    let ids =
        |v: &Value| v.as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect::<Vec<_>>();
    for name in TOKENIZERS {
        let tokenizer =
            Tokenizer::from_folder(&golden("tokenizers").join(name)).unwrap_or_else(|e| panic!("{e}"));
        let cases = std::fs::read(golden("tokenizers").join(format!("{name}.json"))).unwrap();
        let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
        assert!(cases.len() > 140);
        let mut with_specials = 0;
        for case in &cases {
            let text = case[0].as_str().unwrap();
            let (parsed, ignored) = (ids(&case[1]), ids(&case[2]));
            assert_eq!(tokenizer.encode(text, Specials::Parse).unwrap(), parsed, "{name} {text:?}");
            assert_eq!(
                tokenizer.encode(text, Specials::Ignore).unwrap(),
                ignored,
                "{name} {text:?}, ignored"
            );
            with_specials += usize::from(parsed != ignored);
        }
        assert!(with_specials > 20, "{name}");
    }
}
