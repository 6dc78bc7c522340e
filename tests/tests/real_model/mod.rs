//! The real model that tests run on: SmolLM2-135M-Instruct.

// Each test binary uses the part it needs.
#![allow(dead_code)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The model's path: `FURA_MODEL`, or where `scripts/fetch-smollm2.sh` puts it.
fn path() -> PathBuf {
    std::env::var_os("FURA_MODEL").map_or_else(
        || {
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            workspace.join("models-cache/SmolLM2-135M-Instruct.Q4_1.gguf")
        },
        PathBuf::from,
    )
}

/// The model file's bytes. A missing model fails the test; skipping would hide that nothing was tested.
#[allow(dead_code)] // each test binary uses the part it needs
pub fn bytes() -> Vec<u8> {
    let path = path();
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run scripts/fetch-smollm2.sh, or set FURA_MODEL to SmolLM2-135M-Instruct.Q4_1.gguf",
            path.display()
        )
    })
}

/// The model, opened with its pack cached beside the file.
pub fn open() -> fura_model::Model {
    let path = path();
    let cache = path.parent().unwrap_or_else(|| Path::new(".")).to_owned();
    fura_model::Model::open(&path, &cache, 32, &mut |_, _| ControlFlow::Continue(()))
        .unwrap_or_else(|e| panic!("{e}"))
}
