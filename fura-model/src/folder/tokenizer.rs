//! `tokenizer.json` and its neighbours as the metadata of a GGUF file.

use super::fields::Fields;
use super::json::{self, Pairs};
use super::{CONFIG, FolderError, MAX_CONFIG};
use crate::error::ModelError;
use crate::gguf::{GgufWriter, printable};
use crate::tokenizer::PreTokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const TOKENIZER: &str = "tokenizer.json";
/// The largest known have 35 MB.
const MAX_TOKENIZER: usize = 128 << 20;
/// Added tokens are listed here too.
const MAX_TOKENIZER_CONFIG: usize = 16 << 20;
const SPACE: &str = "\u{2581}";

/// The kinds of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    #[serde(default, rename = "version")]
    _version: Value,
    #[serde(default, rename = "truncation")]
    _truncation: Value,
    #[serde(default, rename = "padding")]
    _padding: Value,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default, rename = "decoder")]
    _decoder: Value,
    model: Bpe,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default, rename = "normalized")]
    _normalized: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bpe {
    #[serde(default, rename = "type")]
    _type: Value,
    #[serde(default)]
    dropout: Option<f64>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    /// Runs of unknown characters; there are none where every byte has a token, and byte-level vocabularies drop them.
    #[serde(default, rename = "fuse_unk")]
    _fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: Pairs<u32>,
    merges: Vec<Merge>,
}

/// A merge as one text with a space, or as two texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair([String; 2]),
}

/// How text is cut and spelled.
enum Spelling {
    ByteLevel {
        pre: PreTokenizer,
        /// Whether text is composed first.
        nfc: bool,
    },
    /// Characters, with U+2581 for spaces.
    Characters { prefix: bool, first_only: bool },
}

/// Reads the tokenizer's files and writes the metadata. `vocab` is the number of the embedding's rows, if there is one,
/// `ends` the end tokens that `config.json` names.
pub(super) fn describe(
    folder: &Path,
    architecture: &str,
    vocab: Option<usize>,
    mut ends: Vec<u32>,
    out: &mut GgufWriter,
) -> Result<(), ModelError> {
    let file = folder.join(TOKENIZER);
    let bytes = json::read(&file, MAX_TOKENIZER)?;
    check_model(&file, &bytes)?;
    let definition: Definition = json::parse(&file, 0, &bytes)?;
    drop(bytes);
    let tokens = Tokens::new(&file, &definition, vocab)?;
    let spelling = spelling(&file, &definition)?;
    check_added(&file, &definition, &spelling, architecture)?;
    let model = &definition.model;
    let refuse = |field: &str, found: String| FolderError::Unsupported {
        file: file.clone(),
        feature: format!("field 'model.{field}' ({})", printable(&found)),
        advice: "use a model with another tokenizer, or its GGUF file",
    };
    if let Some(dropout) = model.dropout.filter(|d| *d != 0.0) {
        return Err(refuse("dropout", dropout.to_string()).into());
    }
    for (field, value) in [
        ("continuing_subword_prefix", &model.continuing_subword_prefix),
        ("end_of_word_suffix", &model.end_of_word_suffix),
    ] {
        if let Some(value) = value.as_ref().filter(|v| !v.is_empty()) {
            return Err(refuse(field, value.clone()).into());
        }
    }
    match spelling {
        Spelling::ByteLevel { pre, nfc } => {
            if model.byte_fallback {
                return Err(refuse("byte_fallback", "true".to_owned()).into());
            }
            out.kv("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.pre", pre.name());
            out.kv("fura.whole_pieces", model.ignore_merges).kv("fura.nfc", nfc);
        }
        Spelling::Characters { prefix, first_only } => {
            if !model.byte_fallback || model.ignore_merges {
                let (field, found) =
                    if model.ignore_merges { ("ignore_merges", "true") } else { ("byte_fallback", "false") };
                return Err(refuse(field, found.to_owned()).into());
            }
            out.kv("tokenizer.ggml.model", "llama")
                .kv("tokenizer.ggml.add_space_prefix", prefix)
                .kv("fura.space_prefix_first_only", first_only);
        }
    }
    out.strings("tokenizer.ggml.tokens", &tokens.texts).i32s("tokenizer.ggml.token_type", &tokens.kinds);
    let mut merges = Vec::with_capacity(model.merges.len());
    for merge in &model.merges {
        merges.push(match merge {
            Merge::Joined(text) => text.clone(),
            Merge::Pair([left, right]) if left.contains(' ') || right.contains(' ') => {
                return Err(refuse("merges", format!("'{left}' and '{right}'")).into());
            }
            Merge::Pair([left, right]) => format!("{left} {right}"),
        });
    }
    out.strings("tokenizer.ggml.merges", &merges);
    let unknown = model.unk_token.as_ref().and_then(|text| tokens.id(text));
    if let Some(unknown) = unknown {
        out.kv("tokenizer.ggml.unknown_token_id", unknown);
    }
    let settings = Settings::read(folder, &tokens)?;
    let start = start_token(&file, &definition.post_processor, &tokens)?;
    let bos = start.or(settings.bos);
    if let Some(bos) = bos {
        out.kv("tokenizer.ggml.bos_token_id", bos);
    }
    out.kv("tokenizer.ggml.add_bos_token", start.is_some());
    if let Some(eos) = settings.eos {
        out.kv("tokenizer.ggml.eos_token_id", eos);
    }
    ends.extend(settings.ends);
    if let Some(id) = ends.iter().find(|id| **id as usize >= tokens.texts.len()) {
        let file = folder.join(CONFIG);
        let expected = format!("less than the {} tokens", tokens.texts.len());
        let (field, found) = ("eos_token_id".to_owned(), id.to_string());
        return Err(FolderError::Field { file, field, found, expected }.into());
    }
    let ends: Vec<i32> = ends.into_iter().map(u32::cast_signed).collect();
    out.i32s("fura.stop_token_ids", &ends);
    if let Some(template) = settings.template {
        out.kv("tokenizer.chat_template", template.as_str());
    }
    Ok(())
}

/// Refuses other algorithms than byte-pair encoding by name, before their tables are read.
fn check_model(file: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default, rename = "type")]
        kind: Option<String>,
    }
    #[derive(Deserialize)]
    struct Outline {
        model: Kind,
    }
    let Outline { model } = json::parse(file, 0, bytes)?;
    match model.kind {
        Some(kind) if kind != "BPE" => Err(FolderError::Field {
            file: file.to_owned(),
            field: "model.type".to_owned(),
            found: printable(&kind),
            expected: "BPE".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Texts and kinds by id.
struct Tokens {
    texts: Vec<String>,
    kinds: Vec<i32>,
    ids: HashMap<String, u32>,
}

impl Tokens {
    fn new(file: &Path, definition: &Definition, vocab: Option<usize>) -> Result<Self, FolderError> {
        let bad = |field: String, found: String, expected: String| FolderError::Field {
            file: file.to_owned(),
            field,
            found,
            expected,
        };
        // Every token takes several bytes of the file, so there are not too many.
        let named = definition.model.vocab.0.len() + definition.added_tokens.len();
        let vocab = vocab.unwrap_or_else(|| {
            let added = definition.added_tokens.iter().map(|added| added.id as usize);
            let ids = definition.model.vocab.0.iter().map(|(_, id)| *id as usize).chain(added);
            ids.max().map_or(0, |last| last.saturating_add(1)).min(named)
        });
        let mut texts: Vec<Option<&str>> = vec![None; vocab];
        let mut kinds = vec![NORMAL; vocab];
        let mut put = |id: u32, text, field: &str| match texts.get_mut(id as usize) {
            None => Err(bad(field.to_owned(), format!("id {id}"), format!("ids below {vocab}"))),
            Some(Some(other)) if *other != text => {
                let found = format!("'{}' with id {id}", printable(text));
                Err(bad(field.to_owned(), found, format!("'{}' as before", printable(other))))
            }
            Some(place) => {
                *place = Some(text);
                Ok(())
            }
        };
        for (text, id) in &definition.model.vocab.0 {
            put(*id, text, "model.vocab")?;
        }
        for added in &definition.added_tokens {
            put(added.id, &added.content, "added_tokens")?;
        }
        let fallback = definition.model.byte_fallback;
        let texts: Vec<String> = (0..)
            .zip(texts)
            .zip(&mut kinds)
            .map(|((id, text), kind): ((u32, _), _)| match text {
                Some(text) => {
                    let byte = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
                    if fallback && byte.is_some_and(|t| t.len() == 2 && u8::from_str_radix(t, 16).is_ok()) {
                        *kind = BYTE;
                    }
                    text.to_owned()
                }
                None => {
                    // Rows of the embedding that no text reaches.
                    *kind = UNUSED;
                    format!("[PAD{id}]")
                }
            })
            .collect();
        for added in &definition.added_tokens {
            let unknown = definition.model.unk_token.as_ref() == Some(&added.content);
            kinds[added.id as usize] = match (unknown && fallback, added.special) {
                (true, _) => UNKNOWN,
                (_, true) => CONTROL,
                // Looked for before spaces are written so, these are found by merging alone.
                (_, false) if fallback && added.content.contains(SPACE) => NORMAL,
                (_, false) => USER_DEFINED,
            };
        }
        let mut ids = HashMap::with_capacity(texts.len());
        for (id, text) in (0..).zip(&texts) {
            if let Some(first) = ids.insert(text.clone(), id) {
                let found = format!("'{}' with ids {first} and {id}", printable(text));
                return Err(bad("model.vocab".to_owned(), found, "each text once".to_owned()));
            }
        }
        Ok(Self { texts, kinds, ids })
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }
}

/// The parts of a sequence of normalizers and the like: none, one, or several.
fn parts<'v>(value: &'v Value, list: &str) -> Vec<&'v Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Object(o) if o.get("type") == Some(&json!("Sequence")) => match o.get(list) {
            Some(Value::Array(values)) => values.iter().collect(),
            _ => vec![value],
        },
        one => vec![one],
    }
}

fn spelling(file: &Path, definition: &Definition) -> Result<Spelling, FolderError> {
    let unsupported = |field: &str, value: &Value| {
        let text = printable(&value.to_string());
        FolderError::Unsupported {
            file: file.to_owned(),
            feature: format!("field '{field}' ({text:.300})"),
            advice: "use a model with another tokenizer, or its GGUF file",
        }
    };
    let is = |value: &Value, kind: &str| value["type"] == kind;
    let normalizers = parts(&definition.normalizer, "normalizers");
    let cutters = parts(&definition.pre_tokenizer, "pretokenizers");
    if let Some((last, before)) = cutters.split_last().filter(|(last, _)| is(last, "ByteLevel")) {
        if let Some(other) = normalizers.iter().find(|n| **n != &json!({"type": "NFC"})) {
            return Err(unsupported("normalizer", other));
        }
        if last["add_prefix_space"] != json!(false) {
            return Err(unsupported("pre_tokenizer", last));
        }
        let by_regex = last["use_regex"] != json!(false);
        let pre = match before {
            [] if by_regex => Some(PreTokenizer::Gpt2),
            [digits] if by_regex && **digits == json!({"type": "Digits", "individual_digits": true}) => {
                Some(PreTokenizer::SmolLm)
            }
            [split] if !by_regex && is(split, "Split") => split_pattern(split),
            _ => None,
        };
        return pre
            .map(|pre| Spelling::ByteLevel { pre, nfc: !normalizers.is_empty() })
            .ok_or_else(|| unsupported("pre_tokenizer", &definition.pre_tokenizer));
    }
    let mut prefix = None;
    let mut replaced = false;
    for normalizer in normalizers {
        if is(normalizer, "Prepend") && normalizer["prepend"] == SPACE && !replaced && prefix.is_none() {
            prefix = Some(false);
        } else if *normalizer == json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE}) {
            replaced = true;
        } else {
            return Err(unsupported("normalizer", normalizer));
        }
    }
    for cutter in cutters {
        // Gemma's: there are no spaces left to cut at.
        let nothing = replaced && is(cutter, "Split") && cutter["pattern"] == json!({"String": " "});
        let metaspace = is(cutter, "Metaspace")
            && cutter["replacement"] == SPACE
            && cutter["split"] == json!(false)
            && !replaced
            && prefix.is_none();
        match cutter["prepend_scheme"].as_str() {
            _ if nothing => continue,
            Some("never") if metaspace => {}
            Some("first") if metaspace => prefix = Some(true),
            _ => return Err(unsupported("pre_tokenizer", cutter)),
        }
        replaced = true;
    }
    if !replaced {
        return Err(unsupported("pre_tokenizer", &definition.pre_tokenizer));
    }
    Ok(Spelling::Characters { prefix: prefix.is_some(), first_only: prefix == Some(true) })
}

/// The pre-tokenizer whose published expression a split has.
fn split_pattern(split: &Value) -> Option<PreTokenizer> {
    let plain = split["behavior"] == "Isolated" && split["invert"] == json!(false);
    let pattern = split["pattern"]["Regex"].as_str()?;
    PreTokenizer::ALL.into_iter().find(|pre| plain && pre.published() == pattern)
}

/// Refuses added tokens that take more of a text than they say.
fn check_added(
    file: &Path,
    definition: &Definition,
    spelling: &Spelling,
    architecture: &str,
) -> Result<(), FolderError> {
    // The engine's rule for this family: white space after its markers is not text.
    let strips = architecture == "phi3" && matches!(spelling, Spelling::Characters { .. });
    for added in &definition.added_tokens {
        let feature = match added {
            Added { single_word: true, .. } => "single_word",
            Added { lstrip: true, .. } => "lstrip",
            Added { rstrip: true, .. } if !strips => "rstrip",
            _ => continue,
        };
        return Err(FolderError::Unsupported {
            file: file.to_owned(),
            feature: format!("field 'added_tokens.{feature}' of '{}'", printable(&added.content)),
            advice: "use a model with another tokenizer, or its GGUF file",
        });
    }
    Ok(())
}

/// The token that the post-processor puts before a text.
fn start_token(file: &Path, processor: &Value, tokens: &Tokens) -> Result<Option<u32>, FolderError> {
    let unsupported = |value: &Value| {
        let text = printable(&value.to_string());
        FolderError::Unsupported {
            file: file.to_owned(),
            feature: format!("field 'post_processor' ({text:.300})"),
            advice: "use a model with another tokenizer, or its GGUF file",
        }
    };
    let mut start = None;
    for part in parts(processor, "processors") {
        match part["type"].as_str() {
            Some("ByteLevel") => {}
            Some("TemplateProcessing") => {
                let single = part["single"].as_array().ok_or_else(|| unsupported(part))?;
                let text = |v: &Value| v["Sequence"]["id"] == "A";
                start = match single.as_slice() {
                    [one] if text(one) => None,
                    [first, one] if text(one) => {
                        let name = first["SpecialToken"]["id"].as_str();
                        Some(name.and_then(|name| tokens.id(name)).ok_or_else(|| unsupported(part))?)
                    }
                    _ => return Err(unsupported(part)),
                };
            }
            _ => return Err(unsupported(part)),
        }
    }
    Ok(start)
}

/// One id or a list of ids.
pub(super) fn ids(value: Option<Value>, file: &Path, field: &str) -> Result<Vec<u32>, FolderError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    // What a GGUF file's array of i32 holds.
    let id = |v: &Value| v.as_u64().and_then(|n| i32::try_from(n).ok()).map(i32::cast_unsigned);
    list.iter().map(id).collect::<Option<_>>().ok_or_else(|| FolderError::Field {
        file: file.to_owned(),
        field: field.to_owned(),
        found: printable(&value.to_string()),
        expected: "a token id or a list of them".to_owned(),
    })
}

/// What the small files beside the tokenizer say.
#[derive(Default)]
struct Settings {
    bos: Option<u32>,
    eos: Option<u32>,
    ends: Vec<u32>,
    template: Option<String>,
}

impl Settings {
    fn read(folder: &Path, tokens: &Tokens) -> Result<Self, ModelError> {
        let mut out = Self::default();
        let optional = |name: &str, limit| -> Result<Option<(PathBuf, Vec<u8>)>, ModelError> {
            let file = folder.join(name);
            if !file.is_file() {
                return Ok(None);
            }
            let bytes = json::read(&file, limit)?;
            Ok(Some((file, bytes)))
        };
        if let Some((file, bytes)) = optional("tokenizer_config.json", MAX_TOKENIZER_CONFIG)? {
            let Pairs(members) = json::parse::<Pairs<Value>>(&file, 0, &bytes)?;
            let mut fields = Fields::new(&file, "", members);
            out.bos = named_token(&mut fields, "bos_token", tokens)?;
            out.eos = named_token(&mut fields, "eos_token", tokens)?;
            out.template = template(&mut fields)?;
        }
        if let Some((file, bytes)) = optional("generation_config.json", MAX_CONFIG)? {
            let Pairs(members) = json::parse::<Pairs<Value>>(&file, 0, &bytes)?;
            let mut fields = Fields::new(&file, "", members);
            out.ends = ids(fields.some("eos_token_id"), &file, "eos_token_id")?;
        }
        // The newer place of the template.
        if let Some((file, bytes)) = optional("chat_template.jinja", MAX_CONFIG)? {
            let text = String::from_utf8(bytes).map_err(|e| FolderError::Json {
                file,
                offset: e.utf8_error().valid_up_to(),
                problem: "not UTF-8".to_owned(),
            })?;
            out.template = Some(text);
        }
        Ok(out)
    }
}

/// The id of a token that is named by its text, or by an object with it.
fn named_token(fields: &mut Fields<'_>, key: &str, tokens: &Tokens) -> Result<Option<u32>, FolderError> {
    let Some(value) = fields.some(key) else { return Ok(None) };
    let text = value.as_str().or_else(|| value["content"].as_str());
    match text.and_then(|text| tokens.id(text)) {
        Some(id) => Ok(Some(id)),
        None => Err(fields.bad(key, &value, "the text of a token")),
    }
}

/// The chat template: a text, or the one of several that is called `default`.
fn template(fields: &mut Fields<'_>) -> Result<Option<String>, FolderError> {
    match fields.some("chat_template") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Array(list)) => {
            let default = list.iter().find(|t| t["name"] == "default").and_then(|t| t["template"].as_str());
            Ok(default.map(str::to_owned))
        }
        Some(other) => Err(fields.bad("chat_template", other, "a text or a list of named ones")),
    }
}
