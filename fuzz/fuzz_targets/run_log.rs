#![no_main]
//! A run log, as it is and with right tags; one of few coordinates is replayed.

use fura_core::runlog::{RunLog, replay};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let path = Path::new("fuzz.runlog");
    let _ = RunLog::read(data, path);
    if let Ok(history) = RunLog::read(&fura_fuzz::tag_run_log(data.to_vec()), path) {
        if history.header.layout.coordinates() <= 4096 && history.header.config.pairs <= 64 {
            let _ = replay(&history.header, &history.generations);
        }
    }
});
