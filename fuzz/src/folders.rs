//! Folders in which one file is replaced again and again, and whole models that are opened.

use fura_model::Model;
use fura_model::tokenizer::{Specials, Tokenizer};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

use super::check_pack;

/// The block size of packs.
const BLOCK: usize = 32;

/// A folder in memory, where there is one.
fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    made.expect("a temporary folder")
}

/// Opens a model and takes its pack away again.
fn open(model: &Path, cache: &Path) {
    let _ = Model::open(model, cache, BLOCK, &mut |_, _| ControlFlow::Continue(()));
    for file in packs(cache) {
        std::fs::remove_file(file).expect("removing a pack");
    }
}

fn packs(cache: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(cache).expect("the folder").filter_map(|f| Some(f.ok()?.path()));
    files.filter(|f| f.extension().is_some_and(|e| e == "fura-pack")).collect()
}

/// A copy of a golden folder.
struct Golden {
    folder: TempDir,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Golden {
    fn new(name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
        let folder = folder();
        let names = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
        let files = names.map(|file| (file, std::fs::read(from.join(file)).expect("a golden file")));
        for (name, bytes) in &files {
            std::fs::write(folder.path().join(name), bytes).expect("writing a golden file");
        }
        Self { folder, files: files.into() }
    }

    /// Puts `data` in the place of a file, runs, and puts the file back.
    fn with(&self, file: &str, data: &[u8], run: impl FnOnce(&Path)) {
        let path = self.folder.path().join(file);
        std::fs::write(&path, data).expect("replacing a file");
        run(self.folder.path());
        let (_, bytes) = self.files.iter().find(|(name, _)| *name == file).expect("a file of the folder");
        std::fs::write(&path, bytes).expect("putting a file back");
    }
}

thread_local! {
    static GOLDEN: [Golden; 5] =
        ["folders/llama", "grouped/awq", "grouped/gptq", "grouped/mlx", "folders/gemma3"].map(Golden::new);
    static PACKED: Packed = Packed::new();
}

/// Opens the golden folder that the first byte chooses, a file of it replaced by the other bytes.
fn replaced(file: &str, data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    GOLDEN.with(|golden| {
        golden[usize::from(*first) % golden.len()].with(file, data, |folder| open(folder, folder));
    });
}

/// The configuration of a folder.
pub fn config(data: &[u8]) {
    replaced("config.json", data);
}

/// The weights of a folder, in floats or 4-bit groups.
pub fn safetensors(data: &[u8]) {
    replaced("model.safetensors", data);
}

/// The tokenizer of a folder: the first byte chooses which of its files is replaced.
pub fn tokenizer(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let file = if first % 2 == 0 { "tokenizer.json" } else { "tokenizer_config.json" };
    GOLDEN.with(|golden| {
        golden[0].with(file, data, |folder| {
            if let Ok(tokenizer) = Tokenizer::from_folder(folder) {
                round_trip(&tokenizer);
            }
        });
    });
}

/// What a tokenizer encodes is in its vocabulary.
pub(super) fn round_trip(tokenizer: &Tokenizer) {
    for specials in [Specials::Parse, Specials::Ignore] {
        if let Ok(ids) = tokenizer.encode("ab <e>  \u{e9}\n12", specials) {
            assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocabulary_size()));
            let _ = tokenizer.decode(&ids);
        }
    }
}

/// The tiny model with its pack.
pub struct Packed {
    folder: TempDir,
    model: PathBuf,
    pack: PathBuf,
}

impl Packed {
    /// Makes both.
    pub fn new() -> Self {
        let folder = folder();
        let model = folder.path().join("tiny.gguf");
        std::fs::write(&model, super::tiny_model()).expect("writing the tiny model");
        drop(
            Model::open(&model, folder.path(), BLOCK, &mut |_, _| ControlFlow::Continue(()))
                .expect("the tiny model is well formed"),
        );
        let pack = packs(folder.path()).pop().expect("the pack");
        Self { folder, model, pack }
    }

    /// The bytes of the pack.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.pack).expect("the pack")
    }
}

impl Default for Packed {
    fn default() -> Self {
        Self::new()
    }
}

/// Opens the tiny model with a pack.
pub(super) fn with_pack(pack: &[u8]) {
    PACKED.with(|packed| {
        std::fs::write(&packed.pack, check_pack(pack.to_vec())).expect("writing the pack");
        open(&packed.model, packed.folder.path());
    });
}

/// Opens a GGUF file as a model.
pub(super) fn open_gguf(data: &[u8]) {
    PACKED.with(|packed| {
        let model = packed.folder.path().join("fuzz.gguf");
        std::fs::write(&model, data).expect("writing a model");
        open(&model, packed.folder.path());
    });
}
