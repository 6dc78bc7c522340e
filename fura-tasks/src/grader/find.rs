//! Values within a text: where JSON begins and ends among other words.

use super::value::{Dialect, LONGEST, Parser, Value};
use super::{Label, Which};

/// Objects or lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    List,
}

impl Kind {
    /// The kind of a value, `None` when it is neither.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Object(_) => Some(Self::Object),
            Value::List(_) => Some(Self::List),
            _ => None,
        }
    }
}

/// The most bytes that are read for each byte of the text. Brackets that begin no value make the
/// text after them be read again; without a limit, many of them would make that quadratic.
const EFFORT: usize = 2;

/// The JSON object or list that counts among those of a text. Strings may hold brackets, and a
/// value within another is part of that one. What begins like an object, with a key, and does not
/// end like one makes the whole text malformed: no part of a broken value counts.
///
/// With [`Which::Only`], equal values count as one.
pub(super) fn find(text: &str, kind: Kind, which: Which) -> Result<Value, Label> {
    if text.len() > LONGEST {
        return Err(Label::TooLong);
    }
    let mut found: Option<Value> = None;
    let mut effort = EFFORT * text.len();
    let mut at = 0;
    while let Some(skip) = text[at..].find(['{', '[']) {
        at += skip;
        let mut parser = Parser::new(&text[at..], Dialect::Json);
        let value = parser.value();
        effort = effort.checked_sub(parser.at + 1).ok_or(Label::TooLong)?;
        match value {
            Ok(value) => {
                at += parser.at;
                if Kind::of(&value) != Some(kind) {
                    continue;
                }
                match (&found, which) {
                    (_, Which::First) => return Ok(value),
                    (Some(other), Which::Only) if *other != value => return Err(Label::Ambiguous),
                    _ => found = Some(value),
                }
            }
            Err(label) if parser.keys > 0 => return Err(label),
            // A bracket of the text, such as a `{` in prose.
            Err(_) => at += 1,
        }
    }
    found.ok_or(Label::Absent)
}

#[cfg(test)]
mod tests {
    use super::super::value::parse;
    use super::*;

    fn find_as(text: &str, which: Which) -> Result<String, Label> {
        let value = find(text, Kind::Object, which)?;
        let known = [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":"}"}"#, r#"{"a":"```"}"#, r#"{"a":{"a":1}}"#];
        let same = known.iter().find(|text| parse(text, Dialect::Json).as_ref() == Ok(&value));
        Ok((*same.expect("one of the known values")).to_owned())
    }

    #[test]
    fn text_around_and_brackets_in_it_do_not_matter() {
        for (text, want) in [
            (r#"text {"a":1} and } more"#, r#"{"a":1}"#),
            (r#"use {x} or {"a":1}"#, r#"{"a":1}"#),
            ("```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
            (r#"{"a":"}"}"#, r#"{"a":"}"}"#),
            (r#"{"a":"```"} ``` "#, r#"{"a":"```"}"#),
            (r#"[1] says {"a":{"a":1}}"#, r#"{"a":{"a":1}}"#),
            (r#"{ { {"a":1}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(find_as(text, Which::Only).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn several_values_need_a_policy() {
        let text = r#"for example {"a":1}, so {"a":2}"#;
        assert_eq!(find_as(text, Which::Only), Err(Label::Ambiguous));
        assert_eq!(find_as(text, Which::First).as_deref(), Ok(r#"{"a":1}"#));
        assert_eq!(find_as(text, Which::Last).as_deref(), Ok(r#"{"a":2}"#));
        assert_eq!(find_as(r#"{"a":1} {"a": 1.0}"#, Which::Only).as_deref(), Ok(r#"{"a":1}"#));
    }

    #[test]
    fn no_part_of_a_broken_or_larger_value_counts() {
        assert_eq!(find_as(r#"{"x":{"a":1}"#, Which::Only), Err(Label::Malformed));
        assert_eq!(find_as(r#"{"a":1, oops {"a":1}}"#, Which::Only), Err(Label::Malformed));
        assert_eq!(find_as(r#"[{"a":1}]"#, Which::Only), Err(Label::Absent));
        assert_eq!(find_as("no {value} here", Which::Only), Err(Label::Absent));
    }

    #[test]
    fn brackets_that_begin_nothing_cost_a_bounded_effort() {
        let long = format!("{}{}", "[".repeat(40), "1,".repeat(30_000));
        assert_eq!(find(&long, Kind::Object, Which::Only), Err(Label::TooLong));
        assert_eq!(find(&"[".repeat(LONGEST), Kind::Object, Which::Only), Err(Label::TooLong));
        assert_eq!(find(&" ".repeat(LONGEST + 1), Kind::Object, Which::Only), Err(Label::TooLong));
        for text in ["{\"".repeat(30_000), "[\"".repeat(30_000), " ".repeat(LONGEST)] {
            let got = find(&text, Kind::Object, Which::Only);
            assert!(matches!(got, Err(Label::TooLong | Label::Absent)), "{got:?}");
        }
    }
}
