//! A tiny Llama-style model, written to a GGUF file by the tests themselves: random weights, a byte vocabulary.

use fura_model::gguf::{GgufWriter, TensorKind};
use half::f16;
use std::ops::ControlFlow;

/// Shapes of the tiny model.
pub const LAYERS: usize = 2;
/// Width of its residual stream.
pub const D_MODEL: usize = 64;
const D_FF: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
/// 256 bytes and an end token.
pub const VOCAB: usize = 257;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn unit(&mut self) -> f32 {
        self.next() as f32 / (1u64 << 53) as f32
    }
}

/// One matrix of group blocks; scales of the size a trained layer would have.
fn matrix(rng: &mut Random, kind: TensorKind, d_in: usize, d_out: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..d_in / 32 * d_out {
        let d = 0.02 + 0.02 * rng.unit();
        out.extend(f16::from_f32(d).to_le_bytes());
        match kind {
            TensorKind::Q4_1 => out.extend(f16::from_f32(-7.5 * d).to_le_bytes()),
            TensorKind::Q4_0 | TensorKind::Q8_0 => {}
            other => panic!("{other}"),
        }
        for _ in 0..if kind == TensorKind::Q8_0 { 32 } else { 16 } {
            out.push(rng.next() as u8);
        }
    }
    out
}

/// The byte-to-character mapping of byte-level BPE: printable bytes stand for themselves, the others for the
/// characters from 256 on.
fn byte_token(byte: u8) -> String {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte).to_string();
    }
    let index = (0..byte).filter(|b| !printable(*b)).count();
    char::from_u32(256 + index as u32).unwrap().to_string()
}

/// A writer holding the whole model; tests damage what they want before finishing it.
pub fn writer(seed: u64) -> GgufWriter {
    let mut rng = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut w = GgufWriter::new();
    w.kv("general.architecture", "llama")
        .kv("llama.block_count", LAYERS as u32)
        .kv("llama.embedding_length", D_MODEL as u32)
        .kv("llama.feed_forward_length", D_FF as u32)
        .kv("llama.attention.head_count", HEADS as u32)
        .kv("llama.attention.head_count_kv", KV_HEADS as u32)
        .kv("llama.context_length", 256u32)
        .kv("llama.attention.layer_norm_rms_epsilon", 1e-5f32)
        .kv("tokenizer.ggml.model", "gpt2")
        .kv("tokenizer.ggml.pre", "smollm");
    let mut tokens: Vec<String> = (0..=255).map(byte_token).collect();
    tokens.push("<|end|>".to_owned());
    w.strings("tokenizer.ggml.tokens", &tokens);
    let mut kinds = vec![1; 256];
    kinds.push(3);
    w.i32s("tokenizer.ggml.token_type", &kinds);
    w.strings::<&str>("tokenizer.ggml.merges", &[]);
    w.kv("tokenizer.ggml.eos_token_id", 256u32);
    let data = matrix(&mut rng, TensorKind::Q8_0, D_MODEL, VOCAB);
    w.tensor("token_embd.weight", &[D_MODEL, VOCAB], TensorKind::Q8_0, data);
    let norm = |rng: &mut Random| -> Vec<u8> {
        (0..D_MODEL).flat_map(|_| (0.5 + rng.unit()).to_le_bytes()).collect()
    };
    let kv = D_MODEL / HEADS * KV_HEADS;
    for l in 0..LAYERS {
        for (name, d_in, d_out) in [
            ("attn_q", D_MODEL, D_MODEL),
            ("attn_k", D_MODEL, kv),
            ("attn_v", D_MODEL, kv),
            ("attn_output", D_MODEL, D_MODEL),
            ("ffn_gate", D_MODEL, D_FF),
            ("ffn_up", D_MODEL, D_FF),
            ("ffn_down", D_FF, D_MODEL),
        ] {
            // Both 4-bit formats, so that both are run.
            let kind = if l == 0 { TensorKind::Q4_1 } else { TensorKind::Q4_0 };
            let data = matrix(&mut rng, kind, d_in, d_out);
            w.tensor(&format!("blk.{l}.{name}.weight"), &[d_in, d_out], kind, data);
        }
        for name in ["attn_norm", "ffn_norm"] {
            let data = norm(&mut rng);
            w.tensor(&format!("blk.{l}.{name}.weight"), &[D_MODEL], TensorKind::F32, data);
        }
    }
    let data = norm(&mut rng);
    w.tensor("output_norm.weight", &[D_MODEL], TensorKind::F32, data);
    w
}

/// The file's bytes.
pub fn bytes(seed: u64) -> Vec<u8> {
    writer(seed).finish().expect("the tiny model is well formed")
}

/// The tiny model in a folder of its own, opened with the given block size.
pub fn open(seed: u64, block: usize) -> (fura_model::Model, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tiny.gguf");
    std::fs::write(&file, bytes(seed)).expect("writing the tiny model");
    let model = fura_model::Model::open(&file, folder.path(), block, &mut |_, _| ControlFlow::Continue(()))
        .unwrap_or_else(|e| panic!("{e}"));
    (model, folder)
}

/// A task file whose answers are single bytes: which letter follows is for the specialist to find out.
pub fn task_file() -> String {
    let mut out = String::new();
    for (split, from) in [("train", 0), ("heldout", 40), ("phrasings", 60)] {
        for i in from..from + 16 {
            let answer = ["a", "b", "c"][i % 3];
            out += &format!(
                "{{\"id\":\"t{i}\",\"prompt\":\"item {i} {} is\",\"answer\":\" {answer}\",\
                 \"choices\":[\" a\",\" b\",\" c\"],\"grade\":{{\"type\":\"choice\"}},\"split\":\"{split}\"}}\n",
                ["red", "green", "blue"][i % 3]
            );
        }
    }
    out
}
