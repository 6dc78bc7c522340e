//! `tokenizer.json` and its neighbours as the metadata of a GGUF file.

mod definition;
mod settings;
mod spelling;
mod tokens;

use super::json;
use super::{CONFIG, FolderError};
use crate::error::ModelError;
use crate::gguf::{GgufWriter, printable};
use definition::{Definition, Merge, check_model};
use serde_json::Value;
use settings::Settings;
use spelling::{Spelling, check_added, parts, spelling};
use std::path::Path;
use tokens::Tokens;

const TOKENIZER: &str = "tokenizer.json";
/// The largest known have 35 MB.
const MAX_TOKENIZER: usize = 128 << 20;
/// What stands for a space.
const SPACE: &str = "\u{2581}";

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
