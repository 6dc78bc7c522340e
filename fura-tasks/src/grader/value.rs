//! Typed values, as outputs write them in JSON or as Python literals.

use std::collections::BTreeMap;

use super::Label;

/// A typed value. Numbers are exact, keys are unique, and equality is that of values: `1`, `1.0`
/// and `10e-1` are equal, `1` and `"1"` are not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// A decimal number of any size in its only canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decimal {
    negative: bool,
    /// The digits without zeros at either end; empty for 0.
    digits: String,
    /// The power of ten that the digits are multiplied by; 0 for 0.
    exponent: i64,
}

impl Decimal {
    /// From the parts of a written number, ASCII digits each.
    fn new(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Self {
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        if digits.is_empty() {
            return Self { negative: false, digits: String::new(), exponent: 0 };
        }
        let zeros = all.len() - all.trim_end_matches('0').len();
        let exponent = exponent - fraction.len() as i64 + zeros as i64;
        Self { negative, digits: digits.to_owned(), exponent }
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }
}

impl Value {
    /// A value of a task file.
    pub(super) fn from_json(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            // Printed numbers are JSON, so the parser reads them; a null would never be equal.
            serde_json::Value::Number(number) => {
                parse(&number.to_string(), Dialect::Json).unwrap_or(Self::Null)
            }
            serde_json::Value::String(text) => Self::Text(text.clone()),
            serde_json::Value::Array(list) => Self::List(list.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.clone(), Self::from_json(value))).collect())
            }
        }
    }

    /// The value at a JSON Pointer's keys, `None` when there is none.
    pub(super) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| match value {
            Self::Object(map) => map.get(key),
            // An index has one spelling: no sign, no leading zero.
            Self::List(list) => list.get(key.parse::<usize>().ok().filter(|i| i.to_string() == *key)?),
            _ => None,
        })
    }
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JSON (RFC 8259), each key once.
    Json,
    /// Python literals: also `True`, `False`, `None`, single quotes, a comma before a closing
    /// bracket.
    Python,
}

/// The longest text that is read for a value, in bytes.
pub(super) const LONGEST: usize = 1 << 16;

/// The deepest nesting of lists and objects.
const DEEPEST: usize = 50;

/// A whole text as one value, white space around it.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Value, Label> {
    if text.len() > LONGEST {
        return Err(Label::TooLong);
    }
    let mut parser = Parser::new(text, dialect);
    let value = parser.value()?;
    parser.space();
    if parser.at < text.len() { Err(Label::Malformed) } else { Ok(value) }
}

/// A parser at a place in a text.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    text: &'a str,
    pub(super) at: usize,
    dialect: Dialect,
    depth: usize,
    /// Keys with their colon that were read: a sign that a text is meant to be an object.
    pub(super) keys: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self { text, at: 0, dialect, depth: 0, keys: 0 }
    }

    pub(super) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space.
    pub(super) fn space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes a byte, after white space, when it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_next = self.byte() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Label> {
        if self.take(byte) { Ok(()) } else { Err(Label::Malformed) }
    }

    /// A name: an ASCII letter or `_`, then these, digits and points.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        self.space();
        let from = self.at;
        while let Some(byte) = self.byte() {
            let inner = self.at > from && (byte.is_ascii_digit() || byte == b'.');
            if !(byte.is_ascii_alphabetic() || byte == b'_' || inner) {
                break;
            }
            self.at += 1;
        }
        (self.at > from).then(|| &self.text[from..self.at])
    }

    /// The next value.
    pub(super) fn value(&mut self) -> Result<Value, Label> {
        self.space();
        match self.byte().ok_or(Label::Malformed)? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::list),
            b'"' => Ok(Value::Text(self.text(b'"')?)),
            b'\'' if self.dialect == Dialect::Python => Ok(Value::Text(self.text(b'\'')?)),
            b'-' | b'0'..=b'9' => Ok(Value::Number(self.number()?)),
            _ => match (self.name().ok_or(Label::Malformed)?, self.dialect) {
                ("true", Dialect::Json) | ("True", Dialect::Python) => Ok(Value::Bool(true)),
                ("false", Dialect::Json) | ("False", Dialect::Python) => Ok(Value::Bool(false)),
                ("null", Dialect::Json) | ("None", Dialect::Python) => Ok(Value::Null),
                _ => Err(Label::Malformed),
            },
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<Value, Label>) -> Result<Value, Label> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Label::TooLong);
        }
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Whether a list of things ends with `close` here, or goes on after a comma.
    fn ends(&mut self, close: u8, first: bool) -> Result<bool, Label> {
        if self.take(close) {
            // Reached after a comma only where that is allowed.
            return Ok(true);
        }
        if !first {
            self.expect(b',')?;
            if self.dialect == Dialect::Python && self.take(close) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn object(&mut self) -> Result<Value, Label> {
        let mut map = BTreeMap::new();
        while !self.ends(b'}', map.is_empty())? {
            self.space();
            let key = match self.byte() {
                Some(b'"') => self.text(b'"')?,
                Some(b'\'') if self.dialect == Dialect::Python => self.text(b'\'')?,
                _ => return Err(Label::Malformed),
            };
            self.expect(b':')?;
            self.keys += 1;
            let value = self.value()?;
            if map.insert(key, value).is_some() {
                return Err(Label::Ambiguous);
            }
        }
        Ok(Value::Object(map))
    }

    fn list(&mut self) -> Result<Value, Label> {
        let mut list = Vec::new();
        while !self.ends(b']', list.is_empty())? {
            list.push(self.value()?);
        }
        Ok(Value::List(list))
    }

    fn digits(&mut self) -> Result<&'a str, Label> {
        let from = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { Err(Label::Malformed) } else { Ok(&self.text[from..self.at]) }
    }

    /// Takes the next byte when it is one of two.
    fn one_of(&mut self, bytes: [u8; 2]) -> Option<u8> {
        let byte = self.byte().filter(|byte| bytes.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Result<Decimal, Label> {
        let negative = self.one_of([b'-'; 2]).is_some();
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(Label::Malformed);
        }
        let fraction = if self.one_of([b'.'; 2]).is_some() { self.digits()? } else { "" };
        let mut exponent = 0;
        if self.one_of(*b"eE").is_some() {
            let below = self.one_of(*b"+-") == Some(b'-');
            let digits = self.digits()?.trim_start_matches('0');
            if digits.len() > 9 {
                return Err(Label::Unreadable);
            }
            // At most nine digits fit, and none is a 0.
            let size: i64 = digits.parse().unwrap_or(0);
            exponent = if below { -size } else { size };
        }
        Ok(Decimal::new(negative, whole, fraction, exponent))
    }

    /// A text in quotes, which is next.
    fn text(&mut self, quote: u8) -> Result<String, Label> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let from = self.at;
            while self.byte().is_some_and(|byte| byte != quote && byte != b'\\' && byte >= 0x20) {
                self.at += 1;
            }
            out.push_str(&self.text[from..self.at]);
            let byte = self.byte().ok_or(Label::Malformed)?;
            self.at += 1;
            match byte {
                b'\\' => out.push(self.escape()?),
                byte if byte == quote => return Ok(out),
                _ => return Err(Label::Malformed),
            }
        }
    }

    /// The character of an escape, after its backslash.
    fn escape(&mut self) -> Result<char, Label> {
        let byte = self.byte().ok_or(Label::Malformed)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' => char::from(byte),
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'/' if self.dialect == Dialect::Json => '/',
            b'\'' if self.dialect == Dialect::Python => '\'',
            b'u' => {
                let first = self.hex4()?;
                let code = match (first, self.dialect) {
                    (0xd800..=0xdbff, Dialect::Json) => {
                        let escaped = self.one_of([b'\\'; 2]).is_some() && self.one_of([b'u'; 2]).is_some();
                        let second = if escaped { self.hex4()? } else { 0 };
                        if !(0xdc00..=0xdfff).contains(&second) {
                            return Err(Label::Malformed);
                        }
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    _ => first,
                };
                char::from_u32(code).ok_or(Label::Malformed)?
            }
            _ => return Err(Label::Malformed),
        })
    }

    fn hex4(&mut self) -> Result<u32, Label> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16)).ok_or(Label::Malformed)?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests;
