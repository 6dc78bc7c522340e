#![no_main]
//! The header of a safetensors file, with its folder.

use fura_fuzz::Folder;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static FOLDER: Folder = Folder::new("model.safetensors");
}

fuzz_target!(|data: &[u8]| FOLDER.with(|folder| folder.read(data)));
