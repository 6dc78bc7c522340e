//! What the small files beside `tokenizer.json` say.

use super::super::fields::Fields;
use super::super::json::{self, Pairs};
use super::super::{FolderError, MAX_CONFIG};
use super::ids;
use super::tokens::Tokens;
use crate::error::ModelError;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Added tokens are listed here too.
const MAX_TOKENIZER_CONFIG: usize = 16 << 20;

/// What the small files beside the tokenizer say.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) ends: Vec<u32>,
    pub(super) template: Option<String>,
}

impl Settings {
    pub(super) fn read(folder: &Path, tokens: &Tokens) -> Result<Self, ModelError> {
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
