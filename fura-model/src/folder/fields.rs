//! The fields of an object, taken one by one, so that those that nobody asked for can be named.

use super::FolderError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What is left of an object.
pub(super) struct Fields<'f> {
    file: &'f Path,
    parent: String,
    left: BTreeMap<String, Value>,
}

impl<'f> Fields<'f> {
    pub(super) fn new(
        file: &'f Path,
        parent: &str,
        members: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        Self { file, parent: parent.to_owned(), left: members.into_iter().collect() }
    }

    /// An object of the same file without fields.
    pub(super) fn none(&self) -> Fields<'f> {
        Fields::new(self.file, "", [])
    }

    pub(super) fn bad(&self, key: &str, found: impl ToString, expected: impl Into<String>) -> FolderError {
        let mut found = crate::gguf::printable(&found.to_string());
        if let Some((end, _)) = found.char_indices().nth(200) {
            found.truncate(end);
        }
        let field = format!("{}{key}", self.parent);
        FolderError::Field { file: self.file.to_owned(), field, found, expected: expected.into() }
    }

    pub(super) fn unsupported(&self, key: &str, found: impl ToString) -> FolderError {
        let found = crate::gguf::printable(&found.to_string());
        FolderError::Unsupported {
            file: self.file.to_owned(),
            feature: format!("field '{}{key}' ({found:.200})", self.parent),
            advice: "this variant of the architecture is not computed; use another model",
        }
    }

    /// The value of a field, `null` included.
    pub(super) fn value(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key)
    }

    /// The value of a field that is there and not `null`.
    pub(super) fn some(&mut self, key: &str) -> Option<Value> {
        self.value(key).filter(|v| !v.is_null())
    }

    /// A size, from 1 to 2^20.
    pub(super) fn size(&mut self, key: &str) -> Result<Option<u32>, FolderError> {
        let Some(value) = self.some(key) else { return Ok(None) };
        match value.as_u64() {
            // At most 2^20.
            Some(n @ 1..=0x10_0000) => Ok(Some(n as u32)),
            _ => Err(self.bad(key, value, "an integer from 1 to 1048576")),
        }
    }

    pub(super) fn required_size(&mut self, key: &str) -> Result<u32, FolderError> {
        self.size(key)?.ok_or_else(|| self.bad(key, "missing", "an integer from 1 to 1048576"))
    }

    /// A finite number above 0, also as f32.
    pub(super) fn positive(&mut self, key: &str) -> Result<Option<f64>, FolderError> {
        let Some(value) = self.some(key) else { return Ok(None) };
        match value.as_f64() {
            Some(x) if (x as f32).is_finite() && x as f32 > 0.0 => Ok(Some(x)),
            _ => Err(self.bad(key, value, "a number above 0")),
        }
    }

    pub(super) fn required_positive(&mut self, key: &str) -> Result<f64, FolderError> {
        self.positive(key)?.ok_or_else(|| self.bad(key, "missing", "a number above 0"))
    }

    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>, FolderError> {
        let Some(value) = self.some(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.bad(key, value, "true or false"))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, FolderError> {
        match self.some(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.bad(key, other, "a text")),
        }
    }

    /// The fields of an object, if it is there and not `null`.
    pub(super) fn object(&mut self, key: &str) -> Result<Option<Fields<'f>>, FolderError> {
        match self.some(key) {
            None => Ok(None),
            Some(Value::Object(members)) => {
                Ok(Some(Fields::new(self.file, &format!("{}{key}.", self.parent), members)))
            }
            Some(other) => Err(self.bad(key, other, "an object")),
        }
    }

    /// Refuses a value other than the one that is computed.
    pub(super) fn only(&mut self, key: &str, computed: &Value) -> Result<(), FolderError> {
        match self.some(key) {
            Some(other) if other != *computed => Err(self.unsupported(key, other)),
            _ => Ok(()),
        }
    }

    /// Refuses a list other than that of the values that are computed for `count` layers.
    pub(super) fn only_list(
        &mut self,
        key: &str,
        count: u32,
        computed: impl Fn(u32) -> Value,
    ) -> Result<(), FolderError> {
        let is_computed = |list: &Vec<Value>| {
            list.len() == count as usize
                && list.iter().zip(0..).all(|(value, layer)| *value == computed(layer))
        };
        match self.some(key) {
            Some(other) if !other.as_array().is_some_and(is_computed) => Err(self.unsupported(key, other)),
            _ => Ok(()),
        }
    }

    /// Refuses what nobody asked for, except `harmless`.
    pub(super) fn finish(mut self, harmless: &[&str]) -> Result<(), FolderError> {
        self.left.retain(|key, _| !harmless.contains(&key.as_str()));
        match self.left.first_key_value() {
            Some((key, value)) => Err(self.unsupported(key, value)),
            None => Ok(()),
        }
    }
}
