//! What the fuzz targets share: a tiny model, folders with one file to be replaced, and checksums put right, so that what
//! lies behind them is reached.
#![forbid(unsafe_code)]

use fura_model::Model;
use fura_model::gguf::{Gguf, GgufWriter, TensorKind};
use fura_model::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A Llama of one layer with 32 channels, as a GGUF file.
pub fn model() -> Vec<u8> {
    let mut w = GgufWriter::new();
    w.kv("general.architecture", "llama")
        .kv("llama.block_count", 1u32)
        .kv("llama.embedding_length", 32u32)
        .kv("llama.feed_forward_length", 32u32)
        .kv("llama.attention.head_count", 2u32)
        .kv("llama.context_length", 64u32)
        .kv("llama.attention.layer_norm_rms_epsilon", 1e-5f32)
        .kv("tokenizer.ggml.model", "gpt2")
        .kv("tokenizer.ggml.pre", "smollm")
        .kv("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}<e>{% endfor %}");
    let mut tokens: Vec<String> = ('!'..='~').map(String::from).collect();
    tokens.extend(["\u{120}".to_owned(), "\u{10a}".to_owned(), "ab".to_owned(), "<e>".to_owned()]);
    let mut kinds = vec![1; tokens.len() - 1];
    kinds.push(3);
    w.strings("tokenizer.ggml.tokens", &tokens).i32s("tokenizer.ggml.token_type", &kinds);
    w.strings("tokenizer.ggml.merges", &["a b"]).kv("tokenizer.ggml.eos_token_id", tokens.len() as u32 - 1);
    // Scale 1 / 64 and codes of all kinds.
    let block = |seed: usize| [0x00u8, 0x24].into_iter().chain((0..16).map(move |i| (seed * 31 + i * 17) as u8));
    let matrix = |rows: usize| (0..rows).flat_map(block).collect::<Vec<u8>>();
    w.tensor("token_embd.weight", &[32, tokens.len()], TensorKind::Q4_0, matrix(tokens.len()));
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        w.tensor(&format!("blk.0.{name}.weight"), &[32, 32], TensorKind::Q4_0, matrix(32));
    }
    let ones: Vec<u8> = std::iter::repeat_n(1.0f32.to_le_bytes(), 32).flatten().collect();
    for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"] {
        w.tensor(&format!("{name}.weight"), &[32], TensorKind::F32, ones.clone());
    }
    w.finish().expect("the tiny model is well formed")
}

/// Its tokenizer.
pub fn tokenizer() -> Tokenizer {
    let bytes = model();
    let gguf = Gguf::parse(&bytes, Path::new("tiny.gguf")).expect("the tiny model is well formed");
    Tokenizer::from_gguf(&gguf).expect("the tiny tokenizer is well formed")
}

/// A folder in memory, where there is one.
fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    made.expect("a temporary folder")
}

/// A model's folder whose file `name` is replaced again and again.
pub struct Folder {
    folder: TempDir,
    file: PathBuf,
}

impl Folder {
    /// A copy of a golden folder.
    pub fn new(name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/folders/llama");
        let folder = folder();
        for file in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
            std::fs::copy(from.join(file), folder.path().join(file)).expect("a golden file");
        }
        Self { file: folder.path().join(name), folder }
    }

    /// Everything is read but the weights.
    pub fn read(&self, data: &[u8]) {
        std::fs::write(&self.file, data).expect("writing to the temporary folder");
        let _ = Model::read_config(self.folder.path());
    }
}

/// The tiny model with its pack.
pub struct Packed {
    folder: TempDir,
    pack: PathBuf,
}

impl Packed {
    /// Makes both.
    pub fn new() -> Self {
        let folder = folder();
        std::fs::write(folder.path().join("tiny.gguf"), model()).expect("writing the tiny model");
        let made = Model::open(&folder.path().join("tiny.gguf"), folder.path(), 32, &mut |_, _| ());
        drop(made.expect("the tiny model is well formed"));
        let files = std::fs::read_dir(folder.path()).expect("the folder").filter_map(|f| Some(f.ok()?.path()));
        let pack = files.filter(|f| f.extension().is_some_and(|e| e == "fura-pack")).last();
        Self { pack: pack.expect("the pack"), folder }
    }

    /// The bytes of the pack.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.pack).expect("the pack")
    }

    /// Opens the model with another pack.
    pub fn read(&self, pack: &[u8]) {
        std::fs::write(&self.pack, pack).expect("writing the pack");
        let _ = Model::open(&self.folder.path().join("tiny.gguf"), self.folder.path(), 32, &mut |_, _| ());
    }
}

impl Default for Packed {
    fn default() -> Self {
        Self::new()
    }
}

/// A pack with right checksums of its header and its sections, as far as it has them.
pub fn check_pack(mut pack: Vec<u8>) -> Vec<u8> {
    let Some(length) = pack.get(12..16) else { return pack };
    let header = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let start = (16 + header + 32).next_multiple_of(64);
    if pack.len() < start + 32 {
        return pack;
    }
    let hash = blake3::hash(&pack[16..16 + header]);
    pack[16 + header..16 + header + 32].copy_from_slice(hash.as_bytes());
    let end = pack.len() - 32;
    let hash = blake3::hash(&pack[start..end]);
    pack[end..].copy_from_slice(hash.as_bytes());
    pack
}

/// A run log whose records have the right tags, as far as there are whole ones.
pub fn tag_run_log(mut log: Vec<u8>) -> Vec<u8> {
    let mut at = 8;
    let Some(magic) = log.get(..8) else { return log };
    let mut tag: Vec<u8> = magic.to_vec();
    while let Some(length) = log.get(at..at + 4) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let end = at.saturating_add(5).saturating_add(length);
        if end.saturating_add(8) > log.len() {
            break;
        }
        tag.extend_from_slice(&log[at..end]);
        tag = blake3::hash(&tag).as_bytes()[..8].to_vec();
        log[end..end + 8].copy_from_slice(&tag);
        at = end + 8;
    }
    log
}
