//! Typed access to metadata.

use super::cursor::{Field, locate};
use super::{Array, Gguf, GgufError, Location, Strings, Value, ValueKind};

/// One metadata record.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    pub(super) value: Value<'a>,
    pub(super) offset: usize,
}

impl<'a> Gguf<'a> {
    /// Every metadata record, in file order.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&'a str, Value<'a>)> + '_ {
        self.entries.iter().map(|entry| (entry.key, entry.value))
    }

    /// The value of `key`, of whatever type, if the file has it.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value<'a>> {
        self.entry(key).map(|entry| entry.value)
    }

    /// Where `key`'s record is, for a caller's own message about its value; byte 0 if it is missing.
    #[must_use]
    pub fn location(&self, key: &str) -> Box<Location> {
        locate(&self.file, Field::Key(key), self.entry(key).map_or(0, |entry| entry.offset))
    }

    /// A required `u32`.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`] or [`GgufError::WrongType`]; so for every getter here, except that the
    /// optional ones give `None` for a missing key.
    pub fn u32(&self, key: &str) -> Result<u32, GgufError> {
        self.require(key, "u32", self.opt_u32(key)?)
    }

    /// An optional `u32`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.typed(key, "u32", |value| match value {
            Value::U32(v) => Some(v),
            _ => None,
        })
    }

    /// An optional integer that is not negative, of whatever integer type: `split.*` keys have several.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub(super) fn opt_count(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.typed(key, "an integer that is not negative", |value| match value {
            Value::U8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::U64(v) => Some(v),
            Value::I8(v) => v.try_into().ok(),
            Value::I16(v) => v.try_into().ok(),
            Value::I32(v) => v.try_into().ok(),
            Value::I64(v) => v.try_into().ok(),
            _ => None,
        })
    }

    /// A required `f32`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn f32(&self, key: &str) -> Result<f32, GgufError> {
        self.require(key, "f32", self.opt_f32(key)?)
    }

    /// An optional `f32`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "f32", |value| match value {
            Value::F32(v) => Some(v),
            _ => None,
        })
    }

    /// A required `bool`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn bool(&self, key: &str) -> Result<bool, GgufError> {
        self.require(key, "bool", self.opt_bool(key)?)
    }

    /// An optional `bool`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "bool", |value| match value {
            Value::Bool(v) => Some(v),
            _ => None,
        })
    }

    /// A required string.
    ///
    /// # Errors
    /// See [`Gguf::u32`]; and [`GgufError::Utf8`].
    pub fn str(&self, key: &str) -> Result<&'a str, GgufError> {
        self.require(key, "string", self.opt_str(key)?)
    }

    /// An optional string.
    ///
    /// # Errors
    /// See [`Gguf::str`].
    pub fn opt_str(&self, key: &str) -> Result<Option<&'a str>, GgufError> {
        let bytes = self.typed(key, "string", |value| match value {
            Value::String(v) => Some(v),
            _ => None,
        })?;
        let text = bytes.map(std::str::from_utf8).transpose();
        text.map_err(|_| GgufError::Utf8 { at: self.location(key) })
    }

    /// A required array of strings, as bytes: the format does not promise UTF-8.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn strings(&self, key: &str) -> Result<Strings<'a>, GgufError> {
        self.require(key, "array of string", self.opt_strings(key)?)
    }

    /// An optional array of strings.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn opt_strings(&self, key: &str) -> Result<Option<Strings<'a>>, GgufError> {
        self.typed_array(key, "array of string", |array| array.strings())
    }

    /// A required array of `i32`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn i32s(&self, key: &str) -> Result<impl ExactSizeIterator<Item = i32> + use<'a>, GgufError> {
        self.require(key, "array of i32", self.opt_i32s(key)?)
    }

    /// An optional array of `i32`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn opt_i32s(
        &self,
        key: &str,
    ) -> Result<Option<impl ExactSizeIterator<Item = i32> + use<'a>>, GgufError> {
        self.typed_array(key, "array of i32", |array| {
            array.words(ValueKind::I32).map(|words| words.map(i32::from_le_bytes))
        })
    }

    /// A required array of `f32`.
    ///
    /// # Errors
    /// See [`Gguf::u32`].
    pub fn f32s(&self, key: &str) -> Result<impl ExactSizeIterator<Item = f32> + use<'a>, GgufError> {
        let values = self.typed_array(key, "array of f32", |array| {
            array.words(ValueKind::F32).map(|words| words.map(f32::from_le_bytes))
        })?;
        self.require(key, "array of f32", values)
    }

    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        self.by_key.get(key).map(|&i| &self.entries[i])
    }

    fn require<T>(&self, key: &str, expected: &'static str, value: Option<T>) -> Result<T, GgufError> {
        value.ok_or_else(|| GgufError::MissingKey { file: self.file.clone(), key: key.to_owned(), expected })
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        pick: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        match pick(entry.value) {
            Some(value) => Ok(Some(value)),
            None => {
                Err(GgufError::WrongType { at: self.location(key), expected, found: entry.value.type_name() })
            }
        }
    }

    fn typed_array<T>(
        &self,
        key: &str,
        expected: &'static str,
        pick: impl FnOnce(Array<'a>) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        self.typed(key, expected, |value| match value {
            Value::Array(array) => pick(array),
            _ => None,
        })
    }
}
