//! The output must hold the number, compared by exact value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::beginning;
use super::rational::Rational;
use super::{GraderError, Label};

/// Right when the number in the output has exactly the answer's value:
/// `{"type":"number","which":"last","thousands":true,"percent":true,"units":{"m":1,"km":1000},"abs":0.01}`.
///
/// A number is an integer, a decimal (`.5`, `18.00`) or a fraction of integers (`3/4`), in
/// ASCII digits, with an optional sign. Equal values are equal however they are written. What
/// looks like a number but has no certain value is unreadable and never right: `1e3`, `18km`,
/// `6:15`, `2^5`, `1,22`, `3/0`, digits of other scripts, more than 18 digits. Digits within a
/// word (`x2`) are no number; a minus directly after a digit, letter or bracket is a
/// subtraction, not a sign.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NumberSpec {
    /// Which number of the output is the answer.
    #[serde(default)]
    pub which: Which,
    /// Whether `1,234` is 1234, and so with apostrophes and with non-breaking or thin spaces.
    /// Groups must be of three digits, with the same sign between all of them.
    #[serde(default)]
    pub thousands: bool,
    /// Whether the decimal sign is a comma: `1,22` is 122/100. Thousands are then in groups with
    /// points.
    #[serde(default)]
    pub decimal_comma: bool,
    /// Whether `18%` is 18/100. Otherwise it is unreadable, since it is not 18.
    #[serde(default)]
    pub percent: bool,
    /// Units and what each is worth: `{"m":1,"km":1000}`. One that stands directly before or after
    /// the number, with or without a space, multiplies it; a number without one is as it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, f64>,
    /// Largest absolute difference that is still right; exact when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abs: Option<f64>,
    /// Largest difference as a share of the answer's size that is still right; exact when
    /// absent. With `abs` too, either is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rel: Option<f64>,
}

/// Which one of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The only one; an output with several is wrong.
    #[default]
    Only,
    /// The first one.
    First,
    /// The last one.
    Last,
}

/// See [`NumberSpec`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    gold: Rational,
    abs: Option<Rational>,
    rel: Option<Rational>,
    which: Which,
    notation: Notation,
}

impl Number {
    pub(super) fn new(spec: &NumberSpec, answer: &str) -> Result<Self, GraderError> {
        let notation = Notation::new(spec)?;
        let gold = find(answer, &notation, Which::Only)
            .map_err(|found| GraderError::NotOneNumber { answer: beginning(answer), found })?;
        let tolerance = |field, value: Option<f64>| match value {
            None => Ok(None),
            Some(value) => {
                Rational::from_f64(value).map(Some).ok_or(GraderError::BadTolerance { field, value })
            }
        };
        let (abs, rel) = (tolerance("abs", spec.abs)?, tolerance("rel", spec.rel)?);
        Ok(Self { gold, abs, rel, which: spec.which, notation })
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        if output.trim().is_empty() {
            return Label::Empty;
        }
        match find(output, &self.notation, self.which) {
            Err(label) => label,
            Ok(value) if self.accepts(value) => Label::Right,
            Ok(_) => Label::Wrong,
        }
    }

    fn accepts(&self, value: Rational) -> bool {
        value == self.gold
            || self.abs.is_some_and(|abs| value.within_abs(self.gold, abs))
            || self.rel.is_some_and(|rel| value.within_rel(self.gold, rel))
    }
}

/// How numbers are written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Notation {
    decimal: char,
    thousands: bool,
    percent: bool,
    /// Units and their values, the longest first.
    units: Vec<(String, Rational)>,
}

const MOST_UNITS: usize = 64;

impl Notation {
    fn new(spec: &NumberSpec) -> Result<Self, GraderError> {
        if spec.units.len() > MOST_UNITS {
            return Err(GraderError::option("units", format!("more than {MOST_UNITS}; list fewer")));
        }
        let mut units = Vec::new();
        for (unit, &value) in &spec.units {
            let error = |why: &str| GraderError::option("units", format!("{:?}: {why}", beginning(unit)));
            if unit.trim() != unit
                || unit.is_empty()
                || unit.starts_with(char::is_numeric)
                || unit.starts_with('%')
            {
                return Err(error("no unit; write one without spaces, digits or `%` at its beginning"));
            }
            let value = Rational::from_f64(value).filter(|value| !value.is_zero());
            units.push((
                unit.clone(),
                value.ok_or_else(|| error("expected a value above 0, at most 17 decimals"))?,
            ));
        }
        units.sort_by_key(|(unit, _)| std::cmp::Reverse(unit.len()));
        let decimal = if spec.decimal_comma { ',' } else { '.' };
        Ok(Self { decimal, thousands: spec.thousands, percent: spec.percent, units })
    }

    /// Whether a character separates groups of digits.
    fn groups(&self, c: char) -> bool {
        let other = if self.decimal == ',' { '.' } else { ',' };
        self.thousands && (c == other || matches!(c, '\'' | '\u{a0}' | '\u{202f}' | '\u{2009}'))
    }

    /// What the unit at the start of a text, perhaps after a space, is worth; with its length.
    fn unit_after(&self, text: &str) -> Option<(usize, Rational)> {
        let rest = text.strip_prefix([' ', '\u{a0}', '\u{202f}']).unwrap_or(text);
        self.units.iter().find_map(|(unit, value)| {
            let after = rest.strip_prefix(unit.as_str())?;
            // `18 m` is not the beginning of `18 miles`, nor of `18 m/s`.
            let ends_within =
                unit.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
            let goes_on = after.starts_with(['/', '^', '*', '\u{b7}', '_']);
            (!ends_within && !goes_on).then_some((text.len() - after.len(), *value))
        })
    }

    /// What the unit at the end of a text, perhaps before a space and a minus, is worth.
    fn unit_before(&self, text: &str) -> Option<Rational> {
        let text = text.strip_suffix(['-', '\u{2212}']).unwrap_or(text);
        let text = text.strip_suffix([' ', '\u{a0}', '\u{202f}']).unwrap_or(text);
        self.units.iter().find_map(|(unit, value)| {
            let before = text.strip_suffix(unit.as_str())?;
            let begins_within =
                unit.starts_with(char::is_alphanumeric) && before.ends_with(char::is_alphanumeric);
            (!begins_within).then_some(*value)
        })
    }
}

/// The number of a text that counts, or the label that says why there is none.
fn find(text: &str, notation: &Notation, which: Which) -> Result<Rational, Label> {
    let mut numbers = Numbers { text, at: 0, notation };
    let mut run = numbers.next().ok_or(Label::NoNumber)?;
    if which != Which::First {
        for later in numbers {
            match which {
                Which::Last => run = later,
                Which::Only | Which::First => return Err(Label::ManyNumbers),
            }
        }
    }
    value(&run, text, notation).ok_or(Label::Unreadable)
}

/// What looks like a number: it begins with a numeric character, or a point before one.
struct Run {
    from: usize,
    to: usize,
    negative: bool,
}

/// The runs of a text that look like numbers, in order.
struct Numbers<'a> {
    text: &'a str,
    at: usize,
    notation: &'a Notation,
}

impl Iterator for Numbers<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        loop {
            let rest = &self.text[self.at..];
            let first = rest.chars().next()?;
            let before = &self.text[..self.at];
            let length = run_length(before, rest, self.notation);
            if length == 0 {
                self.at += first.len_utf8();
                continue;
            }
            let from = self.at;
            self.at += length;
            if first.is_numeric() || first == '.' {
                return Some(Run { from, to: self.at, negative: is_negative(before) });
            }
        }
    }
}

/// The length in bytes of the word or number at the start of `rest`; 0 when there is none.
fn run_length(before: &str, rest: &str, notation: &Notation) -> usize {
    let mut last = before.chars().next_back();
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after_digit = at > 0 && last.is_some_and(char::is_numeric);
        let before_digit = chars.peek().is_some_and(|&(_, next)| next.is_numeric());
        let joins = match c {
            // A decimal may begin with its point, but an ellipsis or an end of sentence is none.
            '.' if at == 0 => before_digit && last.is_none_or(|l| l != '.' && !l.is_alphanumeric()),
            '.' | ',' | '/' | ':' => after_digit && before_digit,
            '%' | '^' => after_digit,
            _ if notation.groups(c) => after_digit && before_digit,
            _ => c == '_' || c.is_alphanumeric(),
        };
        if !joins {
            return at;
        }
        last = Some(c);
    }
    rest.len()
}

/// Whether the text before a number ends with a minus sign that belongs to it.
fn is_negative(before: &str) -> bool {
    let mut back = before.chars().rev();
    let minus = matches!(back.next(), Some('-' | '\u{2212}'));
    let operand = |c: char| c.is_alphanumeric() || matches!(c, ')' | ']' | '%' | '_');
    minus && !back.next().is_some_and(operand)
}

/// The exact value of a run, `None` when it has no certain one.
fn value(run: &Run, text: &str, notation: &Notation) -> Option<Rational> {
    let written = &text[run.from..run.to];
    let digits = written.find(|c: char| c.is_alphabetic() || !(c.is_numeric() || is_joint(c, notation)));
    let (digits, rest) = written.split_at(digits.unwrap_or(written.len()));
    let mut value = plain(digits, notation)?;
    if run.negative {
        value = value.negated();
    }
    match rest {
        "" => {}
        "%" if notation.percent => return value.percent(),
        "%" => return None,
        // What is joined to the digits must be a unit, and all of it.
        _ => {
            let (length, worth) = notation.unit_after(&text[run.from + digits.len()..])?;
            return if length >= rest.len() { value.times(worth) } else { None };
        }
    }
    let after = notation.unit_after(&text[run.to..]).map(|(_, worth)| worth);
    match after.or_else(|| notation.unit_before(&text[..run.from])) {
        Some(worth) => value.times(worth),
        None => Some(value),
    }
}

/// Whether a character may stand between the digits of one number.
fn is_joint(c: char, notation: &Notation) -> bool {
    matches!(c, '.' | ',' | '/' | ':') || notation.groups(c)
}

/// The value of digits and the signs between them.
fn plain(digits: &str, notation: &Notation) -> Option<Rational> {
    if let Some((num, den)) = digits.split_once('/') {
        let (num, den) = (Rational::from_decimal(num, "")?, Rational::from_decimal(den, "")?);
        return num.divided(den);
    }
    let (whole, fraction) = digits.split_once(notation.decimal).unwrap_or((digits, ""));
    match whole.find(|c| notation.groups(c)) {
        Some(_) => Rational::from_decimal(&ungrouped(whole)?, fraction),
        None => Rational::from_decimal(whole, fraction),
    }
}

/// The digits of a whole number in groups of three, `None` when the groups are not that.
fn ungrouped(whole: &str) -> Option<String> {
    let sign = whole.chars().find(|c| !c.is_ascii_digit())?;
    let mut groups = whole.split(sign);
    let first = groups.next()?;
    if !(1..=3).contains(&first.len()) || first.starts_with('0') {
        return None;
    }
    let mut digits = first.to_owned();
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        digits.push_str(group);
    }
    Some(digits)
}

#[cfg(test)]
mod tests;
