//! The output must hold the number, compared by exact value.

use serde::{Deserialize, Serialize};

use super::rational::Rational;
use super::spec::beginning;
use super::{GraderError, Label};

/// The options of [`Number`]:
/// `{"type":"number","which":"last","thousands":true,"percent":true,"abs":0.01,"rel":0.1}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NumberSpec {
    /// Which number of the output is the answer.
    #[serde(default)]
    pub which: Which,
    /// Whether `1,234` is 1234. Groups must be of three digits.
    #[serde(default)]
    pub thousands: bool,
    /// Whether `18%` is 18/100. Otherwise it is unreadable, since it is not 18.
    #[serde(default)]
    pub percent: bool,
    /// Largest absolute difference that is still right; exact when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abs: Option<f64>,
    /// Largest difference as a share of the answer's size that is still right; exact when
    /// absent. With `abs` too, either is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rel: Option<f64>,
}

/// Which number of an output is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The only one; an output with several is wrong.
    #[default]
    Only,
    /// The last one.
    Last,
}

/// Right when the number in the output has exactly the answer's value.
///
/// A number is an integer, a decimal (`.5`, `18.00`) or a fraction of integers (`3/4`), in
/// ASCII digits, with an optional sign. Equal values are equal however they are written. What
/// looks like a number but has no certain value is unreadable and never right: `1e3`, `18km`,
/// `6:15`, `2^5`, `1,22`, `3/0`, digits of other scripts, more than 18 digits. Digits within a
/// word (`x2`) are no number; a minus directly after a digit, letter or bracket is a
/// subtraction, not a sign.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    gold: Rational,
    abs: Option<Rational>,
    rel: Option<Rational>,
    which: Which,
    notation: Notation,
}

impl Number {
    pub(super) fn new(spec: &NumberSpec, answer: &str) -> Result<Self, GraderError> {
        let notation = Notation { thousands: spec.thousands, percent: spec.percent };
        let gold = find(answer, notation, Which::Only)
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
        match find(output, self.notation, self.which) {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notation {
    thousands: bool,
    percent: bool,
}

/// The number of a text that counts, or the label that says why there is none.
fn find(text: &str, notation: Notation, which: Which) -> Result<Rational, Label> {
    let mut numbers = Numbers { text, at: 0 };
    let mut run = numbers.next().ok_or(Label::NoNumber)?;
    for later in numbers {
        match which {
            Which::Only => return Err(Label::ManyNumbers),
            Which::Last => run = later,
        }
    }
    let value = value(run.digits, notation).ok_or(Label::Unreadable)?;
    Ok(if run.negative { value.negated() } else { value })
}

/// What looks like a number: it begins with a numeric character, or a point before one.
struct Run<'a> {
    digits: &'a str,
    negative: bool,
}

/// The runs of a text that look like numbers, in order.
struct Numbers<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Numbers<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        loop {
            let rest = &self.text[self.at..];
            let first = rest.chars().next()?;
            let before = &self.text[..self.at];
            let length = run_length(before, rest);
            if length == 0 {
                self.at += first.len_utf8();
                continue;
            }
            self.at += length;
            if first.is_numeric() || first == '.' {
                return Some(Run { digits: &rest[..length], negative: is_negative(before) });
            }
        }
    }
}

/// The length in bytes of the word or number at the start of `rest`; 0 when there is none.
fn run_length(before: &str, rest: &str) -> usize {
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
fn value(run: &str, notation: Notation) -> Option<Rational> {
    let (run, percent) = match run.strip_suffix('%') {
        Some(_) if !notation.percent => return None,
        Some(run) => (run, true),
        None => (run, false),
    };
    let value = if let Some((num, den)) = run.split_once('/') {
        let (num, den) = (Rational::from_decimal(num, "")?, Rational::from_decimal(den, "")?);
        num.divided(den)?
    } else {
        let (whole, fraction) = run.split_once('.').unwrap_or((run, ""));
        if notation.thousands && whole.contains(',') {
            Rational::from_decimal(&ungrouped(whole)?, fraction)?
        } else {
            Rational::from_decimal(whole, fraction)?
        }
    };
    if percent { value.percent() } else { Some(value) }
}

/// The digits of a whole number in groups of three, `None` when the groups are not that.
fn ungrouped(whole: &str) -> Option<String> {
    let mut groups = whole.split(',');
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grader(spec: &str, answer: &str) -> Number {
        Number::new(&serde_json::from_str(spec).unwrap(), answer).unwrap()
    }

    fn judge(spec: &str, answer: &str, output: &str) -> Label {
        grader(spec, answer).judge(output)
    }

    #[test]
    fn equal_values_are_right_however_they_are_written() {
        for output in ["18", "18.", "18.00", "$18", "18 €", "+18", "0018", "= 18", "36/2", "(18)"] {
            assert_eq!(judge("{}", "18", output), Label::Right, "{output}");
        }
        for output in [".5", "0.5", "0.50", "1/2", "2/4", "It is 0.5."] {
            assert_eq!(judge("{}", "1/2", output), Label::Right, "{output}");
        }
        for output in ["-3", "\u{2212}3", "x = -3", "(-3)", "-6/2"] {
            assert_eq!(judge("{}", "-3", output), Label::Right, "{output}");
        }
    }

    #[test]
    fn integers_compare_exactly() {
        assert_eq!(judge("{}", "2000", "1995"), Label::Wrong);
        assert_eq!(judge("{}", "5", "-5"), Label::Wrong);
        assert_eq!(judge("{}", "999999999999999999", "999999999999999998"), Label::Wrong);
    }

    #[test]
    fn uncertain_numbers_are_never_right() {
        for output in [
            "1e3", "1km", "1st", "1%", "1^2", "1\u{b2}", "1\u{bd}", "1_0", "1/0", "1:00", "1,0", "1.0.0",
            "1,000", "\u{661}", "1\u{661}", "1/1/1", "1x",
        ] {
            assert_eq!(judge("{}", "1", output), Label::Unreadable, "{output}");
        }
        assert_eq!(judge("{}", "1", &"1".repeat(10_000)), Label::Unreadable);
    }

    #[test]
    fn digits_in_words_are_no_numbers() {
        assert_eq!(judge("{}", "2", "x2 is 2"), Label::Right);
        assert_eq!(judge("{}", "2", "x2"), Label::NoNumber);
        assert_eq!(judge("{}", "2", "v1.2"), Label::NoNumber);
        assert_eq!(judge("{}", "2", "Answer:2"), Label::Right);
        assert_eq!(judge("{}", "2", " \n"), Label::Empty);
    }

    #[test]
    fn the_only_number_or_the_last() {
        assert_eq!(judge("{}", "21", "3*7=21"), Label::ManyNumbers);
        assert_eq!(judge(r#"{"which":"last"}"#, "21", "3*7=21"), Label::Right);
        assert_eq!(judge(r#"{"which":"last"}"#, "3", "3 or 4"), Label::Wrong);
        // An unreadable last number must not uncover an earlier right one.
        assert_eq!(judge(r#"{"which":"last"}"#, "3", "3, no: 3e5"), Label::Unreadable);
        assert_eq!(judge(r#"{"which":"last"}"#, "3", "8-3"), Label::Right);
        assert_eq!(judge(r#"{"which":"last"}"#, "-3", "8-3"), Label::Wrong);
    }

    #[test]
    fn thousands_are_groups_of_three_and_only_on_request() {
        let on = r#"{"thousands":true}"#;
        for (output, want) in [
            ("1,234.", Label::Right),
            ("$1,234.00", Label::Right),
            ("1234", Label::Right),
            ("12,34", Label::Unreadable),
            ("1,2345", Label::Unreadable),
            ("1234,000", Label::Unreadable),
            ("0,001,234", Label::Unreadable),
            ("1 234", Label::ManyNumbers),
        ] {
            assert_eq!(judge(on, "1,234", output), want, "{output}");
        }
        assert_eq!(judge("{}", "1234", "1,234"), Label::Unreadable);
    }

    #[test]
    fn percent_is_a_hundredth_and_only_on_request() {
        assert_eq!(judge(r#"{"percent":true}"#, "18%", "0.18"), Label::Right);
        assert_eq!(judge(r#"{"percent":true}"#, "0.18", "18 %"), Label::Wrong);
        assert_eq!(judge(r#"{"percent":true}"#, "0.18", "18%."), Label::Right);
        assert_eq!(judge(r#"{"percent":true}"#, "18", "18%"), Label::Wrong);
    }

    #[test]
    fn tolerances_are_exact_at_their_border() {
        let abs = r#"{"abs":0.1}"#;
        assert_eq!(judge(abs, "0.3", "0.4"), Label::Right);
        assert_eq!(judge(abs, "0.3", "0.40000000000000001"), Label::Wrong);
        let rel = r#"{"rel":0.01}"#;
        assert_eq!(judge(rel, "-2000", "-1980"), Label::Right);
        assert_eq!(judge(rel, "-2000", "-1979.999999999"), Label::Wrong);
        assert_eq!(judge(rel, "0", "0.000001"), Label::Wrong);
        assert_eq!(judge(r#"{"abs":1,"rel":0.01}"#, "2000", "2020"), Label::Right);
    }

    #[test]
    fn a_tolerance_that_is_no_size_is_an_error() {
        for bad in [-0.1, f64::NAN, f64::INFINITY, 1e-30] {
            let spec = NumberSpec { abs: Some(bad), ..NumberSpec::default() };
            let got = Number::new(&spec, "1");
            assert!(matches!(got, Err(GraderError::BadTolerance { field: "abs", .. })), "{got:?}");
        }
    }

    #[test]
    fn an_answer_that_is_not_one_number_is_an_error() {
        for answer in ["", "one", "1 or 2", "1e3", "1,234"] {
            let got = Number::new(&NumberSpec::default(), answer);
            assert!(matches!(got, Err(GraderError::NotOneNumber { .. })), "{answer}");
        }
    }

    proptest! {
        #[test]
        fn every_integer_is_right_only_for_itself(a in -10_i64.pow(17)..10_i64.pow(17), b in -9i64..9) {
            let want = if b == 0 { Label::Right } else { Label::Wrong };
            prop_assert_eq!(judge("{}", &a.to_string(), &(a + b).to_string()), want);
        }

        #[test]
        fn any_output_gets_a_label(output in any::<String>()) {
            let last = judge(r#"{"which":"last","thousands":true,"percent":true}"#, "7", &output);
            let only = judge(r#"{"thousands":true,"percent":true}"#, "7", &output);
            prop_assert!(last == only || only == Label::ManyNumbers);
        }
    }
}
