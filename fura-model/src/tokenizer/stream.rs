//! Decoding tokens one at a time.

use super::Tokenizer;

/// Turns a stream of tokens into text, holding bytes back until a character is complete.
///
/// The texts returned, joined, are those of [`Tokenizer::decode_lossy`] on all the tokens.
///
/// ```
/// # let mut writer = fura_model::gguf::GgufWriter::new();
/// # writer
/// #     .kv("tokenizer.ggml.model", "gpt2")
/// #     .kv("tokenizer.ggml.pre", "gpt-2")
/// #     .strings("tokenizer.ggml.tokens", &["\u{c3}", "\u{a9}", "a"])
/// #     .strings::<&str>("tokenizer.ggml.merges", &[]);
/// # let bytes = writer.finish().unwrap();
/// # let gguf = fura_model::gguf::Gguf::parse(&bytes, "tiny.gguf".as_ref()).unwrap();
/// # let tokenizer = fura_model::tokenizer::Tokenizer::from_gguf(&gguf).unwrap();
/// // Tokens 0 and 1 are the two bytes of 'é', token 2 is 'a'.
/// let mut stream = tokenizer.stream();
/// assert_eq!(stream.push(0), "");
/// assert_eq!(stream.push(1), "é");
/// assert_eq!(stream.push(2), "a");
/// assert_eq!(stream.finish(), "");
/// ```
#[derive(Debug, Clone)]
pub struct TokenStream<'t> {
    tokenizer: &'t Tokenizer,
    pending: Vec<u8>,
    text: String,
}

impl<'t> TokenStream<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer) -> Self {
        Self { tokenizer, pending: Vec::new(), text: String::new() }
    }

    /// Takes one token and returns the text that is complete now, often one word, sometimes nothing.
    pub fn push(&mut self, id: u32) -> &str {
        self.text.clear();
        self.tokenizer.decode_into(&[id], &mut self.pending);
        let mut done = 0;
        loop {
            let rest = &self.pending[done..];
            let Err(error) = std::str::from_utf8(rest) else {
                self.text.push_str(&String::from_utf8_lossy(rest));
                done = self.pending.len();
                break;
            };
            let valid = error.valid_up_to();
            self.text.push_str(&String::from_utf8_lossy(&rest[..valid]));
            done += valid;
            // No length: the bytes at the end are the start of a character that may still be completed.
            let Some(invalid) = error.error_len() else { break };
            self.text.push(char::REPLACEMENT_CHARACTER);
            done += invalid;
        }
        self.pending.drain(..done);
        &self.text
    }

    /// Ends the stream: an incomplete character becomes U+FFFD. The stream can be used again.
    pub fn finish(&mut self) -> &'static str {
        let incomplete = !self.pending.is_empty();
        self.pending.clear();
        if incomplete { "\u{fffd}" } else { "" }
    }
}
