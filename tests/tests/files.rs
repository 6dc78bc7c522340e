//! Models in files of all shapes: split, padded, with more or less in them than expected.

use fura_model::gguf::{TensorKind, Value};
use fura_model::{Model, ModelError, Threads};
use fura_simd::Isa;
use fura_tests::forward::logits;
use fura_tests::rewrite::{rewrite, split};
use fura_tests::tiny;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn open(path: &Path) -> Result<Model, ModelError> {
    let cache = tempfile::tempdir().unwrap();
    Model::open(path, cache.path(), 32, &mut |_, _| ControlFlow::Continue(()))
}

/// Writes a file of its own folder and opens it.
fn open_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, bytes).unwrap();
    open(&file)
}

/// The message of the refusal, one line that names the file.
fn refused(bytes: &[u8]) -> String {
    let message = open_bytes(bytes).expect_err("must be refused").to_string();
    assert!(message.contains("model.gguf: ") && !message.contains('\n'), "{message}");
    message
}

fn shard(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("tiny-{:05}-of-00003.gguf", index + 1))
}

fn write_shards(folder: &Path, bytes: &[u8]) {
    for (i, part) in split(bytes, 3).iter().enumerate() {
        std::fs::write(shard(folder, i), part).unwrap();
    }
}

#[test]
fn a_split_model_opens_by_any_file_or_its_folder_and_is_the_whole_one() {
    let bytes = tiny::bytes(1);
    let whole = open_bytes(&bytes).unwrap().fingerprint();
    let folder = tempfile::tempdir().unwrap();
    write_shards(folder.path(), &bytes);
    for path in [shard(folder.path(), 0), shard(folder.path(), 1), shard(folder.path(), 2)] {
        assert_eq!(open(&path).unwrap().fingerprint(), whole);
    }
    assert_eq!(open(folder.path()).unwrap().fingerprint(), whole);
}

#[test]
fn a_missing_shard_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_shards(folder.path(), &tiny::bytes(1));
    std::fs::remove_file(shard(folder.path(), 2)).unwrap();
    for path in [shard(folder.path(), 0), folder.path().to_owned()] {
        let message = open(&path).unwrap_err().to_string();
        assert!(message.contains("tiny-00003-of-00003.gguf"), "{message}");
    }
}

#[test]
fn shards_in_the_wrong_places_or_of_several_models_are_refused() {
    let (one, other) = (split(&tiny::bytes(1), 3), split(&tiny::bytes(2), 2));
    let cases: [(&str, [&[u8]; 3]); 3] = [
        ("expected 2", [&one[0], &one[2], &one[1]]),
        ("one of 2 files", [&one[0], &other[1], &one[2]]),
        (
            "duplicate tensor name",
            [&one[0], &one[1], &{
                let copy = rewrite(&one[1], |k| !k.starts_with("split."), |_| true);
                let mut copy = copy;
                copy.kv("split.no", Value::U16(2)).kv("split.count", Value::U16(3));
                copy.finish().unwrap()
            }],
        ),
    ];
    for (expected, parts) in cases {
        let folder = tempfile::tempdir().unwrap();
        for (i, part) in parts.iter().enumerate() {
            std::fs::write(shard(folder.path(), i), part).unwrap();
        }
        let message = open(&shard(folder.path(), 0)).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_shard_under_another_name_and_shards_joined_by_cat_are_refused() {
    let parts = split(&tiny::bytes(1), 3);
    assert!(refused(&parts[1]).contains("one of 3 files"));
    assert!(refused(&parts.concat()).contains("must not be concatenated"));
}

#[test]
fn a_set_that_lacks_tensors_is_refused() {
    let bytes = tiny::bytes(1);
    let folder = tempfile::tempdir().unwrap();
    write_shards(folder.path(), &bytes);
    let less = rewrite(&split(&bytes, 3)[2], |_| true, |name| name != "output_norm.weight");
    std::fs::write(shard(folder.path(), 2), less.finish().unwrap()).unwrap();
    let message = open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("split.tensors.count"), "{message}");
}

#[test]
fn a_folder_must_hold_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let message = open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("no .gguf file"), "{message}");
    for name in ["a.gguf", "b.gguf"] {
        std::fs::write(folder.path().join(name), tiny::bytes(1)).unwrap();
    }
    let message = open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("several models") && message.contains("a.gguf, b.gguf"), "{message}");
}

#[test]
fn padding_after_the_last_tensor_any_alignment_and_both_versions_load() {
    let bytes = tiny::bytes(1);
    let fingerprint = open_bytes(&bytes).unwrap().fingerprint();
    let mut padded = bytes.clone();
    padded.extend([0; 1000]);
    assert_eq!(open_bytes(&padded).unwrap().fingerprint(), fingerprint);
    for (version, alignment) in [(2, 8), (3, 64), (2, 4096)] {
        let mut writer = rewrite(&bytes, |_| true, |_| true);
        writer.version(version).alignment(alignment);
        assert_eq!(open_bytes(&writer.finish().unwrap()).unwrap().fingerprint(), fingerprint);
    }
}

#[test]
fn tensors_outside_the_language_model_are_listed_and_those_inside_it_refused() {
    let add = |name: &str| {
        let mut writer = tiny::writer(1);
        writer.tensor(name, &[4], TensorKind::F32, vec![0; 16]);
        writer.finish().unwrap()
    };
    let model = open_bytes(&add("v.patch_embd.weight")).unwrap();
    assert_eq!(model.unused_tensors(), ["v.patch_embd.weight"]);
    for name in
        ["blk.0.attn_sinks.weight", "output.bias", "token_embd_norm.weight", "blk.1.ffn_gate_inp.weight"]
    {
        assert!(refused(&add(name)).contains(name));
    }
}

#[test]
fn metadata_that_may_change_the_answer_is_refused_by_name() {
    let add = |key: &str, value: Value<'_>| {
        let mut writer = tiny::writer(1);
        writer.kv(key, value);
        writer.finish().unwrap()
    };
    for (key, value) in [
        ("llama.attention.clamp_kqv", Value::F32(8.0)),
        ("llama.logit_scale", Value::F32(2.0)),
        ("llama.expert_count", Value::U32(8)),
        ("llama.attention.causal", Value::Bool(false)),
        ("llama.rope.scaling.type", Value::String(b"ntk")),
        ("llama.rope.scaling.type", Value::String(b"longrope")),
    ] {
        let message = refused(&add(key, value));
        assert!(message.contains(key) && message.contains("not supported"), "{message}");
    }
    for (key, value) in [
        ("llama.rope.scaling.type", Value::String(b"linear")),
        ("llama.attention.value_length", Value::U32(8)),
        ("llama.rope.dimension_count", Value::U32(7)),
        ("llama.rope.freq_base", Value::F32(f32::NAN)),
        ("llama.attention.sliding_window", Value::U32(0)),
    ] {
        refused(&add(key, value));
    }
    for (key, value) in [
        ("llama.expert_count", Value::U32(0)),
        ("llama.attention.causal", Value::Bool(true)),
        ("llama.vocab_size", Value::U32(257)),
        ("llama.rope.scaling.type", Value::String(b"none")),
        ("general.something", Value::U8(1)),
    ] {
        open_bytes(&add(key, value)).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Full attention and attention with Mistral's window agree on as many positions as the window has, and no more: a
/// file that does not say which it is gets that context.
#[test]
fn a_mistral_file_without_its_window_ends_where_the_window_would() {
    let context = |more: &[(&str, Value<'_>)]| {
        let kept = rewrite(&tiny::bytes(1), |k| k != "llama.context_length", |_| true);
        let mut writer = kept;
        writer.kv("llama.context_length", 32_768_u32);
        for (key, value) in more {
            writer.kv(key, *value);
        }
        open_bytes(&writer.finish().unwrap()).unwrap().config().context
    };
    assert_eq!(context(&[]), 4096);
    assert_eq!(context(&[("llama.rope.freq_base", Value::F32(10_000.0))]), 4096);
    assert_eq!(context(&[("llama.attention.sliding_window", Value::U32(4096))]), 32_768);
    // Version 0.2.
    assert_eq!(context(&[("llama.rope.freq_base", Value::F32(1e6))]), 32_768);
    assert_eq!(context(&[("llama.rope.scale_linear", Value::F32(8.0))]), 32_768);
}

#[test]
fn keys_and_tensors_that_are_missing_are_named_and_defaults_are_those_of_the_format() {
    let bytes = tiny::bytes(1);
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
    ] {
        let less = rewrite(&bytes, |k| k != key, |_| true).finish().unwrap();
        assert!(refused(&less).contains(key));
    }
    for tensor in ["token_embd.weight", "blk.1.ffn_up.weight", "blk.0.attn_norm.weight", "output_norm.weight"]
    {
        let less = rewrite(&bytes, |_| true, |t| t != tensor).finish().unwrap();
        assert!(refused(&less).contains(tensor));
    }
    let model = open_bytes(&bytes).unwrap();
    assert_eq!(model.config().rope_base, 10_000.0);
    let other = rewrite(&bytes, |k| k != "llama.attention.head_count_kv", |_| true).finish().unwrap();
    // As many key heads as query heads, which the tensors are not.
    assert!(refused(&other).contains("attn_k.weight"));
}

#[test]
fn more_layers_than_tensors_are_refused_before_there_is_anything_for_each() {
    let mut writer = rewrite(&tiny::bytes(1), |k| k != "llama.block_count", |_| true);
    writer.kv("llama.block_count", Value::U32(1 << 20));
    let message = refused(&writer.finish().unwrap());
    assert!(message.contains("llama.block_count") && message.contains("1048576"), "{message}");
    // Found by the header alone, which names no tensor that is missing.
    assert!(!message.contains("blk."), "{message}");
}

/// A download that is not complete, under the name that such parts have: what is there and what should be.
#[test]
fn a_part_of_a_file_is_refused_with_both_lengths() {
    let bytes = tiny::bytes(1);
    let folder = tempfile::tempdir().unwrap();
    for (name, len) in [
        ("tiny.gguf.part1of2", bytes.len() / 2),
        ("tiny.gguf", bytes.len() - 1),
        ("tiny.gguf", bytes.len() - 4 * tiny::D_MODEL),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, &bytes[..len]).unwrap();
        let message = open(&file).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains(&len.to_string()), "{message}");
    }
}

#[test]
fn a_head_is_used_if_there_is_one_and_tied_if_there_is_none() {
    let bytes = tiny::bytes(1);
    let tied = open_bytes(&bytes).unwrap();
    assert!(tied.config().tied);
    let gguf = fura_model::gguf::Gguf::parse(&bytes, Path::new("tiny.gguf")).unwrap();
    let embedding = gguf.tensor_data("token_embd.weight").unwrap();
    let mut writer = tiny::writer(1);
    writer.tensor("output.weight", &[tiny::D_MODEL, tiny::VOCAB], TensorKind::Q8_0, embedding);
    let both = open_bytes(&writer.finish().unwrap()).unwrap();
    assert!(!both.config().tied);
    // A head of its own, which is the embedding upside down.
    let mut writer = tiny::writer(1);
    let rows: Vec<u8> = embedding.chunks(embedding.len() / tiny::VOCAB).rev().flatten().copied().collect();
    writer.tensor("output.weight", &[tiny::D_MODEL, tiny::VOCAB], TensorKind::Q8_0, rows);
    let own = open_bytes(&writer.finish().unwrap()).unwrap();
    let last = |model: &Model| {
        let tokens = [7, 77, 177];
        let all = logits(model, Isa::detect(), Threads::Serial, &tokens, 3);
        all[2 * tiny::VOCAB..].iter().map(|l| l.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(last(&both), last(&tied));
    let mut reversed = last(&own);
    assert_ne!(reversed, last(&tied));
    reversed.reverse();
    assert_eq!(reversed, last(&tied), "the head that is given is used");
}

/// A file that names no end, and a template that ends turns.
#[test]
fn generation_also_stops_at_what_ends_a_turn_in_the_template() {
    let stops = |end: &str, template: Option<&str>| {
        let key = |k: &str| !["tokenizer.ggml.tokens", "tokenizer.ggml.eos_token_id"].contains(&k);
        let bytes = tiny::bytes(1);
        let mut writer = rewrite(&bytes, key, |_| true);
        let gguf = fura_model::gguf::Gguf::parse(&bytes, Path::new("tiny.gguf")).unwrap();
        let mut tokens: Vec<&[u8]> = gguf.strings("tokenizer.ggml.tokens").unwrap().collect();
        tokens[256] = end.as_bytes();
        writer.strings("tokenizer.ggml.tokens", &tokens);
        if let Some(template) = template {
            writer.kv("tokenizer.chat_template", template);
        }
        open_bytes(&writer.finish().unwrap()).unwrap().tokenizer().stop_ids().to_vec()
    };
    let turns = |end: &str| format!("{{% for m in messages %}}{{{{ m.content }}}}{end}{{% endfor %}}");
    assert_eq!(stops("<|eot_id|>", None), [256], "a known end");
    assert!(stops("<fin>", None).is_empty());
    assert_eq!(stops("<fin>", Some(&turns("<fin>"))), [256]);
    assert_eq!(stops("<fin>", Some("<fin>{{ messages[0].content }}")), [0; 0]);
    // A template that is broken is one only when it is used.
    assert_eq!(stops("<fin>", Some("{% if %}")), [0; 0]);
}

#[test]
fn every_tensor_type_opens_and_says_what_became_of_it() {
    let bytes = tiny::bytes(1);
    let values = |n: usize| (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 500.0);
    for kind in [TensorKind::F32, TensorKind::F16, TensorKind::BF16] {
        let n = tiny::D_MODEL * tiny::D_MODEL;
        let data: Vec<u8> = match kind {
            TensorKind::F32 => values(n).flat_map(f32::to_le_bytes).collect(),
            TensorKind::F16 => values(n).flat_map(|v| half::f16::from_f32(v).to_le_bytes()).collect(),
            _ => values(n).flat_map(|v| half::bf16::from_f32(v).to_le_bytes()).collect(),
        };
        let mut writer = rewrite(&bytes, |_| true, |t| t != "blk.0.attn_q.weight");
        writer.tensor("blk.0.attn_q.weight", &[tiny::D_MODEL, tiny::D_MODEL], kind, data);
        let model = open_bytes(&writer.finish().unwrap()).unwrap();
        let (name, from, to, deviation) = model.conversions().next().unwrap();
        assert_eq!((name, from, to), ("blk.0.attn_q", kind, fura_quant::Format::Q8));
        let d = deviation.unwrap();
        // Half a step of amax / 127 at most; the root mean square of a uniform error is 1 / sqrt(3) of that.
        assert!(0.0 < d.max && d.max <= 0.1 / 127.0 * 0.57, "{d:?}");
        assert!(d.rms < 0.1 / 127.0 * 0.5 && d.relative < 0.01, "{d:?}");
        assert!(model.conversions().skip(1).all(|(.., deviation)| deviation.is_none()));
    }
}

#[test]
fn weights_that_are_not_finite_are_refused_by_name() {
    let bytes = tiny::bytes(1);
    let mut data = vec![0u8; 4 * tiny::D_MODEL * tiny::D_MODEL];
    data[400..404].copy_from_slice(&f32::NAN.to_le_bytes());
    let mut writer = rewrite(&bytes, |_| true, |t| t != "blk.0.attn_q.weight");
    writer.tensor("blk.0.attn_q.weight", &[tiny::D_MODEL, tiny::D_MODEL], TensorKind::F32, data);
    assert!(refused(&writer.finish().unwrap()).contains("blk.0.attn_q.weight"));
    let mut writer = rewrite(&bytes, |_| true, |t| t != "blk.0.attn_norm.weight");
    let norm: Vec<u8> = (0..tiny::D_MODEL).flat_map(|_| f32::INFINITY.to_le_bytes()).collect();
    writer.tensor("blk.0.attn_norm.weight", &[tiny::D_MODEL], TensorKind::F32, norm);
    assert!(refused(&writer.finish().unwrap()).contains("blk.0.attn_norm.weight"));
}

/// The only pack in a folder.
fn pack_in(folder: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path());
    files.find(|f| f.extension().is_some_and(|e| e == "fura-pack")).unwrap()
}

#[test]
fn a_pack_is_the_same_for_any_number_of_threads() {
    let bytes = tiny::bytes(1);
    // One linear of floats, packed as groups of 8 bits or, where the file asks for it, of 4.
    for quantize in [false, true] {
        let name = "blk.0.attn_q.weight";
        let mut writer = rewrite(&bytes, |_| true, |t| t != name);
        let values = (0..tiny::D_MODEL * tiny::D_MODEL).map(|i| (i * 37 % 101) as f32 - 50.0);
        let values: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        writer.tensor(name, &[tiny::D_MODEL, tiny::D_MODEL], TensorKind::F32, values);
        writer.kv("fura.quantize", quantize);
        let bytes = writer.finish().unwrap();
        let pack = |threads| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("model.gguf");
            std::fs::write(&file, &bytes).unwrap();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Model::open(&file, folder.path(), 24, &mut |_, _| ControlFlow::Continue(())))
                .unwrap();
            std::fs::read(pack_in(folder.path())).unwrap()
        };
        let alone = pack(1);
        assert!(alone == pack(2) && alone == pack(3), "quantize {quantize}");
    }
}

#[test]
fn a_pack_of_another_version_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, tiny::bytes(1)).unwrap();
    Model::open(&file, folder.path(), 32, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let pack = pack_in(folder.path());
    let whole = std::fs::read(&pack).unwrap();
    let mut older = whole.clone();
    older[8] = 1;
    std::fs::write(&pack, older).unwrap();
    Model::open(&file, folder.path(), 32, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(std::fs::read(&pack).unwrap(), whole);
}

/// Whenever packing is told to stop it does: nothing is left behind, and the next opening makes the whole pack.
#[test]
fn packing_stops_where_it_is_told_to_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, tiny::bytes(1)).unwrap();
    let cache = folder.path().join("packs");
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // Asks how often packing tells of itself, if it is stopped after `most` times.
        let pack = |most: usize| {
            let mut calls = 0;
            let mut progress = |done: usize, all: usize| {
                assert!(done <= all);
                calls += 1;
                if calls < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let result = pool.install(|| Model::open(&file, &cache, 16, &mut progress));
            (result, calls)
        };
        let (model, calls) = pack(usize::MAX);
        let matrices = model.unwrap().conversions().count();
        let whole = std::fs::read(pack_in(&cache)).unwrap();
        // Before every matrix is sized, before it is packed, for each of its blocks, and after it.
        assert!(calls > 5 * matrices, "{calls} calls for {matrices} matrices");
        std::fs::remove_dir_all(&cache).unwrap();
        for most in 1..=calls {
            let (result, made) = pack(most);
            assert!(
                matches!(&result, Err(ModelError::Interrupted { file: f }) if *f == file),
                "{most}: {result:?}"
            );
            // Not even on another thread is it called again.
            assert_eq!(made, most);
            let left = std::fs::read_dir(&cache).map_or(0, |files| files.count());
            assert_eq!(left, 0, "stopped at call {most} of {calls}");
        }
        assert_eq!(pack(usize::MAX).1, calls);
        assert!(std::fs::read(pack_in(&cache)).unwrap() == whole);
        std::fs::remove_dir_all(&cache).unwrap();
    }
}
