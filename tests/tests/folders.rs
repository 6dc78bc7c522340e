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

fn ids(v: &Value) -> Vec<u32> {
    v.as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect()
}

/// Texts, the library's ids with special tokens found in them, and its ids with those taken for text.
fn library(name: &str) -> Vec<(String, Vec<u32>, Vec<u32>)> {
    let cases = std::fs::read(golden("tokenizers").join(format!("{name}.json"))).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    assert!(cases.len() > 250);
    cases.iter().map(|c| (c[0].as_str().unwrap().to_owned(), ids(&c[1]), ids(&c[2]))).collect()
}

#[test]
fn ids_are_those_of_the_tokenizers_library() {
    for name in TOKENIZERS {
        let tokenizer =
            Tokenizer::from_folder(&golden("tokenizers").join(name)).unwrap_or_else(|e| panic!("{e}"));
        let mut with_specials = 0;
        for (text, parsed, ignored) in library(name) {
            assert_eq!(tokenizer.encode(&text, Specials::Parse).unwrap(), parsed, "{name} {text:?}");
            assert_eq!(
                tokenizer.encode(&text, Specials::Ignore).unwrap(),
                ignored,
                "{name} {text:?}, ignored"
            );
            with_specials += usize::from(parsed != ignored);
        }
        assert!(with_specials > 20, "{name}");
    }
}

/// The texts tell the families apart: the vocabularies are one, so another cutting is all that could give other ids.
#[test]
fn no_two_families_cut_the_texts_alike() {
    let families = TOKENIZERS[..6].iter().map(|name| (name, library(name)));
    let families: Vec<_> = families.collect();
    for (i, (one, a)) in families.iter().enumerate() {
        for (other, b) in &families[..i] {
            let differ = a.iter().zip(b).filter(|((.., a), (.., b))| a != b).count();
            assert!(differ > 15, "{one} and {other}: {differ}");
        }
    }
}

/// Qwen2's normalization: text that is not composed has the ids of the composed text there, and others where nothing is
/// normalized; any other normalization of a byte-level vocabulary is refused by name.
#[test]
fn text_is_composed_where_tokenizer_json_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    let source = std::fs::read(golden("tokenizers/qwen2/tokenizer.json")).unwrap();
    let with = |normalizer: Value| {
        let mut definition: Value = serde_json::from_slice(&source).unwrap();
        assert_eq!(definition["normalizer"], json!({"type": "NFC"}));
        definition["normalizer"] = normalizer;
        std::fs::write(&file, definition.to_string()).unwrap();
        Tokenizer::from_folder(folder.path())
    };
    let (apart, composed) = ("cafe\u{301} \u{1112}\u{1161}\u{11ab} \u{212b}", "caf\u{e9} \u{d55c} \u{c5}");
    for (normalizer, composes) in [
        (json!({"type": "NFC"}), true),
        (json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]}), true),
        (json!({"type": "Sequence", "normalizers": []}), false),
        (Value::Null, false),
    ] {
        let tokenizer = with(normalizer.clone()).unwrap();
        let encode = |text| tokenizer.encode(text, Specials::Ignore).unwrap();
        assert_eq!(encode(apart) == encode(composed), composes, "{normalizer}");
        assert_eq!(tokenizer.decode_lossy(&encode(apart)), if composes { composed } else { apart });
    }
    for kind in ["NFKC", "NFD", "Lowercase", "Nonsense"] {
        let error = with(json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": kind}]}));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("tokenizer.json: ") && error.contains("normalizer") && error.contains(kind),
            "{error}"
        );
    }
}
