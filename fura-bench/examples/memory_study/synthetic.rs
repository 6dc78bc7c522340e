//! A model with the shapes of Llama 3.1 8B and random 4-bit weights, as split GGUF files of one layer each: at no time is
//! more than one layer, or the embedding, in memory.

use fura::model::gguf::{GgufError, GgufWriter, ShardName, TensorKind};
use half::f16;
use std::error::Error;
use std::path::{Path, PathBuf};

const D_MODEL: usize = 4096;
const D_FF: usize = 14336;
const HEADS: u32 = 32;
const KV_HEADS: u32 = 8;
const D_KV: usize = D_MODEL / HEADS as usize * KV_HEADS as usize;
const VOCAB: usize = 128_256;
/// Tokens that are never written or read.
const SPECIALS: usize = 256;
/// Name, input and output width of a layer's linears.
const LINEARS: [(&str, usize, usize); 7] = [
    ("attn_q", D_MODEL, D_MODEL),
    ("attn_k", D_MODEL, D_KV),
    ("attn_v", D_MODEL, D_KV),
    ("attn_output", D_MODEL, D_MODEL),
    ("ffn_gate", D_MODEL, D_FF),
    ("ffn_up", D_MODEL, D_FF),
    ("ffn_down", D_FF, D_MODEL),
];

/// The first of the model's files.
pub fn path(folder: &Path, layers: usize) -> PathBuf {
    folder.join(format!("synthetic-{layers}-00001-of-{:05}.gguf", layers + 2))
}

/// Bytes of all files and of the pack: 4.5 bits a weight each, the pack's bases (f32, blocks of 32), and 1 % for the rest.
fn needed(layers: usize) -> u64 {
    let weights: usize = LINEARS.iter().map(|(_, i, o)| i * o).sum();
    let inputs: usize = LINEARS.iter().map(|(_, i, _)| i).sum();
    let matrices = (layers * weights + 2 * VOCAB * D_MODEL) / 32 * 18;
    ((2 * matrices + layers * inputs * 4 * 33) as f64 * 1.01) as u64
}

/// Writes the files, unless the folder has all of them.
///
/// # Errors
/// Too little room on the disk for files and pack; whatever writing gives.
pub fn make(folder: &Path, layers: usize) -> Result<PathBuf, Box<dyn Error>> {
    let first = path(folder, layers);
    let name = ShardName::parse(&first).ok_or("the folder's name cannot be part of a model's")?;
    if (0..name.count()).all(|i| name.path(i).is_file()) {
        return Ok(first);
    }
    std::fs::create_dir_all(folder)?;
    let disk = rustix::fs::statvfs(folder)?;
    let (free, needed) = (disk.f_bavail.saturating_mul(disk.f_frsize), needed(layers));
    if free < needed {
        let gb = |n: u64| n as f64 / 1e9;
        return Err(format!(
            "{}: {:.1} GB are free, model and pack take {:.1} GB; name a folder on another disk",
            folder.display(),
            gb(free),
            gb(needed)
        )
        .into());
    }
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    // The last file first: one that was interrupted lacks the first, and is made again.
    for i in (0..name.count()).rev() {
        let mut w = GgufWriter::new();
        if i == 0 {
            describe(&mut w, layers);
            w.kv("split.count", name.count() as u32);
            w.tensor(
                "token_embd.weight",
                &[D_MODEL, VOCAB],
                TensorKind::Q4_0,
                random.blocks(D_MODEL * VOCAB),
            );
        } else if i <= layers {
            layer(&mut w, i - 1, &mut random);
        } else {
            w.tensor("output_norm.weight", &[D_MODEL], TensorKind::F32, ones(D_MODEL));
            w.tensor("output.weight", &[D_MODEL, VOCAB], TensorKind::Q4_0, random.blocks(D_MODEL * VOCAB));
        }
        write(w, i, &name)?;
        eprint!("\r{} of {} files", name.count() - i, name.count());
    }
    eprintln!();
    Ok(first)
}

fn write(mut w: GgufWriter, i: usize, name: &ShardName) -> Result<(), Box<dyn Error>> {
    if i > 0 {
        w.kv("split.count", name.count() as u32);
    }
    w.kv("split.no", i as u32);
    let bytes = w.finish().map_err(|e: GgufError| e.to_string())?;
    Ok(std::fs::write(name.path(i), bytes)?)
}

fn layer(w: &mut GgufWriter, layer: usize, random: &mut Random) {
    for norm in ["attn_norm", "ffn_norm"] {
        w.tensor(&format!("blk.{layer}.{norm}.weight"), &[D_MODEL], TensorKind::F32, ones(D_MODEL));
    }
    for (name, d_in, d_out) in LINEARS {
        let blocks = random.blocks(d_in * d_out);
        w.tensor(&format!("blk.{layer}.{name}.weight"), &[d_in, d_out], TensorKind::Q4_0, blocks);
    }
}

/// Hyperparameters, and a tokenizer of the true size: every two bytes are a token, and as many of every three as there is
/// room for.
fn describe(w: &mut GgufWriter, layers: usize) {
    w.kv("general.architecture", "llama")
        .kv("llama.block_count", layers as u32)
        .kv("llama.embedding_length", D_MODEL as u32)
        .kv("llama.feed_forward_length", D_FF as u32)
        .kv("llama.attention.head_count", HEADS)
        .kv("llama.attention.head_count_kv", KV_HEADS)
        .kv("llama.context_length", 131_072u32)
        .kv("llama.rope.freq_base", 500_000.0f32)
        .kv("llama.attention.layer_norm_rms_epsilon", 1e-5f32)
        .kv("tokenizer.ggml.model", "gpt2")
        .kv("tokenizer.ggml.pre", "llama-bpe");
    let bytes: Vec<String> = (0..=255).map(byte_token).collect();
    let mut tokens = bytes.clone();
    let mut merges = Vec::new();
    for a in &bytes {
        for b in &bytes {
            tokens.push(format!("{a}{b}"));
            merges.push(format!("{a} {b}"));
        }
    }
    'threes: for a in &bytes {
        for b in &bytes {
            for c in &bytes {
                if tokens.len() + SPECIALS == VOCAB {
                    break 'threes;
                }
                tokens.push(format!("{a}{b}{c}"));
                merges.extend([format!("{a}{b} {c}"), format!("{a} {b}{c}")]);
            }
        }
    }
    let mut kinds = vec![1; tokens.len()];
    tokens.extend((0..SPECIALS).map(|i| format!("<|special_{i}|>")));
    kinds.resize(VOCAB, 3);
    w.strings("tokenizer.ggml.tokens", &tokens);
    w.i32s("tokenizer.ggml.token_type", &kinds);
    w.strings("tokenizer.ggml.merges", &merges);
    w.kv("tokenizer.ggml.eos_token_id", VOCAB as u32 - 1);
}

/// The character of a byte in byte-level BPE.
fn byte_token(byte: u8) -> String {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let shifted = (0..byte).filter(|b| !printable(*b)).count() as u32;
    let character = if printable(byte) { Some(char::from(byte)) } else { char::from_u32(256 + shifted) };
    character.map(String::from).unwrap_or_default()
}

fn ones(n: usize) -> Vec<u8> {
    std::iter::repeat_n(1.0f32.to_le_bytes(), n).flatten().collect()
}

/// Xorshift: the values do not matter.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Blocks of Q4_0 for `n` weights, whose deviation is about that of a trained layer.
    fn blocks(&mut self, n: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(n / 32 * 18);
        for _ in 0..n / 32 {
            let scale = 0.002 + 0.002 * (self.next() >> 40) as f32 / (1u64 << 24) as f32;
            out.extend(f16::from_f32(scale).to_le_bytes());
            out.extend(self.next().to_le_bytes());
            out.extend(self.next().to_le_bytes());
        }
        out
    }
}
