//! Binary files.

use fura_core::runlog::{RunLog, replay};
use fura_core::specialist::Specialist;
use fura_model::chat::ChatTemplate;
use fura_model::gguf::Gguf;
use fura_model::tokenizer::Tokenizer;
use std::path::Path;

use super::folders::{open_gguf, round_trip, with_pack};
use super::tag_run_log;

/// A GGUF file: container, hyperparameters, tokenizer, chat template, and the model that is opened from it.
pub fn gguf(data: &[u8]) {
    let Ok(gguf) = Gguf::parse(data, Path::new("fuzz.gguf")) else { return };
    for tensor in gguf.tensors() {
        assert!(gguf.tensor_data(&tensor.name).is_ok());
    }
    let _ = ChatTemplate::from_gguf(&gguf);
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        round_trip(&tokenizer);
    }
    open_gguf(data);
}

/// A pack of the tiny model, with right checksums.
pub fn pack(data: &[u8]) {
    with_pack(data);
}

/// A run log, as it is and with right tags; one of few coordinates is replayed.
pub fn run_log(data: &[u8]) {
    let path = Path::new("fuzz.runlog");
    let _ = RunLog::read(data, path);
    let Ok(history) = RunLog::read(&tag_run_log(data.to_vec()), path) else { return };
    if history.header.layout.coordinates() <= 4096 && history.header.config.pairs <= 64 {
        let _ = replay(&history.header, &history.generations);
        if let Ok(specialist) = Specialist::from_run_log(&history) {
            written_and_read(&specialist);
        }
    }
}

/// A specialist.
pub fn specialist(data: &[u8]) {
    if let Ok(specialist) = Specialist::from_bytes(data, Path::new("fuzz.fura")) {
        written_and_read(&specialist);
    }
}

/// A specialist is written as it was.
fn written_and_read(specialist: &Specialist) {
    let again = Specialist::from_bytes(&specialist.to_bytes(), Path::new("again.fura"));
    assert!(again.expect("what was written") == *specialist);
}
