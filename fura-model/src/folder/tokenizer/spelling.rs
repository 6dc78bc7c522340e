//! How text is normalized, cut and spelled, from the sections that describe it.

use super::super::FolderError;
use super::SPACE;
use super::definition::{Added, Definition};
use crate::gguf::printable;
use crate::tokenizer::PreTokenizer;
use serde_json::{Value, json};
use std::path::Path;

/// How text is cut and spelled.
pub(super) enum Spelling {
    ByteLevel {
        pre: PreTokenizer,
        /// Whether text is composed first.
        nfc: bool,
    },
    /// Characters, with U+2581 for spaces.
    Characters { prefix: bool, first_only: bool },
}

/// The parts of a sequence of normalizers and the like: none, one, or several.
pub(super) fn parts<'v>(value: &'v Value, list: &str) -> Vec<&'v Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Object(o) if o.get("type") == Some(&json!("Sequence")) => match o.get(list) {
            Some(Value::Array(values)) => values.iter().collect(),
            _ => vec![value],
        },
        one => vec![one],
    }
}

pub(super) fn spelling(file: &Path, definition: &Definition) -> Result<Spelling, FolderError> {
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
pub(super) fn check_added(
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
