#![no_main]
//! A chat template, compiled and rendered.

use fura_model::chat::{ChatTemplate, Message, Role};
use fura_model::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static TOKENIZER: Tokenizer = fura_fuzz::tokenizer();
}

fuzz_target!(|data: &str| {
    TOKENIZER.with(|tokenizer| {
        let messages = [
            Message { role: Role::System, content: "be <e>" },
            Message { role: Role::User, content: "ab\n\u{e9}" },
        ];
        let _ = ChatTemplate::new(data).encode(tokenizer, &messages, true);
    });
});
