#![no_main]
//! A GGUF file: container, hyperparameters, tokenizer, chat template.

use fura_model::ModelConfig;
use fura_model::chat::ChatTemplate;
use fura_model::gguf::Gguf;
use fura_model::tokenizer::{Specials, Tokenizer};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(gguf) = Gguf::parse(data, Path::new("fuzz.gguf")) else { return };
    for tensor in gguf.tensors() {
        assert!(gguf.tensor_data(&tensor.name).is_ok());
    }
    let _ = ModelConfig::from_gguf(&gguf);
    let _ = ChatTemplate::from_gguf(&gguf);
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        let _ = tokenizer.encode("ab <e> \u{e9}", Specials::Parse);
    }
});
