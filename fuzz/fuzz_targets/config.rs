#![no_main]
//! The configuration of a folder.

use fura_fuzz::Folder;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static FOLDER: Folder = Folder::new("config.json");
}

fuzz_target!(|data: &[u8]| FOLDER.with(|folder| folder.read(data)));
