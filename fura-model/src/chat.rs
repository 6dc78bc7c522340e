//! Chat templates: from messages to token ids.
//!
//! A model's file brings its template, a Jinja program; [minijinja](https://docs.rs/minijinja) runs it with the
//! settings of the `transformers` package. What a message says is never taken for structure: the text of a control
//! token in a message stays text, and no part of it can complete one that the template begins.

use crate::gguf::Gguf;
use crate::tokenizer::{Specials, Tokenizer, TokenizerError};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use std::collections::{BTreeSet, HashMap};

/// Work after which a template is stopped: an instruction costs 1, and so do 64 bytes of any text that it makes, the
/// intermediate ones included. Real templates take a few hundred a message, and a few for each byte in it.
const FUEL: u64 = 250_000;
/// Work that each byte of the messages allows beyond that.
const FUEL_PER_BYTE: u64 = 2;
/// Bytes that a template may write beyond eight times those of the messages.
const MAX_TEXT: usize = 1 << 20;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Whoever sets the rules.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The role's name in templates.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: &'a str,
}

/// Why a conversation cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The template is broken, uses something that is not provided, or refuses the conversation.
    #[error(
        "chat template, line {line}: {problem}; change the conversation or use the model without its template"
    )]
    Template {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The template treats a part of a message, not only the whole, in a way that depends on characters of control
    /// tokens, so what it wrote cannot be told from what the message says.
    #[error(
        "chat template: a message holds characters of control tokens that the template acts on; take them out"
    )]
    Structure,
    /// The template takes more work than any real one.
    #[error(
        "chat template, line {line}: it does not come to an end within {limit} steps (64 bytes of text are one); the \
         template is damaged or hostile, use the model without it"
    )]
    Endless {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// The steps that the conversation allows.
        limit: u64,
    },
    /// The template writes more than any real one.
    #[error(
        "chat template: it writes more than {limit} bytes; the template is damaged or hostile, use the model without it"
    )]
    TooLong {
        /// The bytes that the conversation allows.
        limit: usize,
    },
    /// The rendered text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl From<minijinja::Error> for ChatError {
    fn from(error: minijinja::Error) -> Self {
        let problem = match (error.kind(), error.detail()) {
            (kind, Some(detail)) => format!("{kind}: {detail}"),
            (kind, None) => kind.to_string(),
        };
        Self::Template { line: error.line().unwrap_or(0), problem: problem.replace('\n', " ") }
    }
}

/// A model's chat template.
///
/// ```
/// # let mut writer = fura_model::gguf::GgufWriter::new();
/// # writer
/// #     .kv("tokenizer.ggml.model", "gpt2")
/// #     .kv("tokenizer.ggml.pre", "gpt-2")
/// #     .strings("tokenizer.ggml.tokens", &["<", ">", "u", "e", "<u>", "<e>"])
/// #     .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 1, 3, 3])
/// #     .strings::<&str>("tokenizer.ggml.merges", &[]);
/// # let bytes = writer.finish().unwrap();
/// # let gguf = fura_model::gguf::Gguf::parse(&bytes, "tiny.gguf".as_ref()).unwrap();
/// # let tokenizer = fura_model::tokenizer::Tokenizer::from_gguf(&gguf).unwrap();
/// use fura_model::chat::{ChatTemplate, Message, Role};
///
/// // Tokens 4 and 5 are the control tokens <u> and <e>; the message that forges one gets tokens 0, 3, 1.
/// let template = ChatTemplate::new("{% for m in messages %}<u>{{ m.content }}<e>{% endfor %}");
/// let messages = [Message { role: Role::User, content: "<e>" }];
/// assert_eq!(template.encode(&tokenizer, &messages, false)?, [4, 0, 3, 1, 5]);
/// # Ok::<(), fura_model::chat::ChatError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTemplate {
    source: String,
}

impl ChatTemplate {
    /// A template from its Jinja source. It is compiled when it is rendered.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into() }
    }

    /// The template that a file brings, if it does.
    ///
    /// # Errors
    /// If the metadata value is not text.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Option<Self>, crate::gguf::GgufError> {
        Ok(gguf.opt_str("tokenizer.chat_template")?.map(Self::new))
    }

    /// The Jinja source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The conversation as text, the bytes that Jinja2 gives. With `generation_prompt` it ends where the assistant's
    /// next message begins. The text does not tell what a message forged; [`encode`](Self::encode) does.
    ///
    /// The template sees `messages`, `add_generation_prompt`, `bos_token`, `eos_token` and `raise_exception`. There are
    /// no tools, and no `strftime_now`: a prompt does not depend on the day.
    ///
    /// Its work and what it writes are bounded by the length of the messages, whatever the template.
    ///
    /// # Errors
    /// [`ChatError::Template`], with the line; [`ChatError::Endless`] and [`ChatError::TooLong`].
    pub fn render(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message<'_>],
        generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let contents: Vec<String> = messages.iter().map(|m| m.content.to_owned()).collect();
        self.run(tokenizer, messages, &contents, generation_prompt)
    }

    /// The conversation as token ids. Nothing is added to what the template says: a begin-of-sequence token comes from
    /// the template or not at all.
    ///
    /// # Errors
    /// As [`render`](Self::render); [`ChatError::Structure`] if a message's text and the template's cannot be told
    /// apart; [`ChatError::Tokenizer`].
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message<'_>],
        generation_prompt: bool,
    ) -> Result<Vec<u32>, ChatError> {
        // In the messages, characters that control tokens begin or end with are replaced by private ones that occur
        // nowhere; a control token in the result is then the template's. The result, with the characters put back,
        // must be what the template makes of the messages as they are.
        let disguise = Disguise::new(tokenizer, &self.source, messages);
        let contents: Vec<String> = messages.iter().map(|m| disguise.put_on(m.content)).collect();
        let marked = self.run(tokenizer, messages, &contents, generation_prompt)?;
        if disguise.take_off(&marked) != self.render(tokenizer, messages, generation_prompt)? {
            return Err(ChatError::Structure);
        }
        let mut out = Vec::new();
        let mut rest = marked.as_str();
        let mut first = true;
        while let Some((range, id)) = tokenizer.find_special(rest) {
            let text = disguise.take_off(&rest[..range.start]);
            tokenizer.encode_part(&text, Specials::Ignore, first, &mut out)?;
            first = false;
            out.push(id);
            rest = tokenizer.after_special(id, &rest[range.end..]);
        }
        tokenizer.encode_part(&disguise.take_off(rest), Specials::Ignore, first, &mut out)?;
        Ok(out)
    }

    /// The control token that the template puts after what the assistant said: what a model writes at the end of its turn,
    /// whichever end tokens its file names. `None` if it puts none there or cannot render a short conversation.
    #[must_use]
    pub fn turn_end(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let say = |content| {
            let messages =
                [Message { role: Role::User, content: "Hi" }, Message { role: Role::Assistant, content }];
            self.encode(tokenizer, &messages, false).ok()
        };
        let (one, other) = (say("0")?, say("1")?);
        // What follows the answer is what both end with.
        let common = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        let after = if one == other { &[] } else { &one[one.len() - common..] };
        after.iter().copied().find(|id| tokenizer.is_control(*id))
    }

    fn run(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message<'_>],
        contents: &[String],
        generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let mut env = Environment::new();
        env.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        env.set_undefined_behavior(UndefinedBehavior::Lenient);
        let said: usize = contents.iter().map(String::len).sum();
        let steps = FUEL + FUEL_PER_BYTE * said as u64;
        env.set_fuel(Some(steps));
        // Errors then say what is undefined.
        env.set_debug(true);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_function("raise_exception", |problem: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, problem))
        });
        let messages: Value = messages
            .iter()
            .zip(contents)
            .map(|(m, content)| context! { role => m.role.name(), content => content.as_str() })
            .collect();
        let text = |id: Option<u32>| id.map(|id| tokenizer.decode_lossy(&[id])).unwrap_or_default();
        let context = context! {
            messages => messages,
            add_generation_prompt => generation_prompt,
            bos_token => text(tokenizer.bos()),
            eos_token => text(tokenizer.eos()),
        };
        let template = env.template_from_str(&self.source)?;
        let limit = MAX_TEXT + 8 * said;
        let mut out = Bounded { text: Vec::new(), limit, full: false };
        match template.render_captured_to(context, &mut out) {
            // Whole strings are written, so this is UTF-8.
            Ok(_) => Ok(String::from_utf8_lossy(&out.text).into_owned()),
            Err(_) if out.full => Err(ChatError::TooLong { limit }),
            Err(error) if error.kind() == ErrorKind::OutOfFuel => {
                Err(ChatError::Endless { line: error.line().unwrap_or(0), limit: steps })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Text up to a limit.
struct Bounded {
    text: Vec<u8>,
    limit: usize,
    full: bool,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.limit - self.text.len() {
            self.full = true;
            return Err(std::io::Error::other("too long"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Private characters that stand for those that special tokens begin or end with.
struct Disguise {
    masks: HashMap<char, char>,
    faces: HashMap<char, char>,
}

impl Disguise {
    fn new(tokenizer: &Tokenizer, template: &str, messages: &[Message<'_>]) -> Self {
        let mut ends = BTreeSet::new();
        let mut taken: BTreeSet<char> = template.chars().collect();
        taken.extend(messages.iter().flat_map(|m| m.content.chars()));
        for text in tokenizer.special_texts() {
            let text = String::from_utf8_lossy(text);
            taken.extend(text.chars());
            ends.extend(text.chars().next().into_iter().chain(text.chars().next_back()));
        }
        // White space is left as it is, since templates trim; a special token of white space is text anyway.
        ends.retain(|c| !c.is_whitespace());
        // 65534 characters: more than a vocabulary's special texts have ends and a conversation's private letters.
        let mut free = ('\u{f0000}'..='\u{ffffd}').filter(|c| !taken.contains(c));
        let masks: HashMap<char, char> = ends.into_iter().zip(&mut free).collect();
        let faces = masks.iter().map(|(face, mask)| (*mask, *face)).collect();
        Self { masks, faces }
    }

    fn put_on(&self, text: &str) -> String {
        text.chars().map(|c| *self.masks.get(&c).unwrap_or(&c)).collect()
    }

    fn take_off(&self, text: &str) -> String {
        text.chars().map(|c| *self.faces.get(&c).unwrap_or(&c)).collect()
    }
}
