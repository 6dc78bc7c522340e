//! The output must match a regular expression.

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::{Fold, GraderError, Label};

/// Right when a regular expression matches the whole output, without white space at its ends:
/// `{"type":"regex","pattern":"(?P<name>[a-z]+) called","group":"name","fold":"case"}`.
///
/// With `group`, the text of that group must also be, up to `fold`, the one that the group has in
/// the answer; without, matching is enough. With `search`, a match anywhere in the output counts,
/// the first one; what surrounds it is then not graded.
///
/// The [syntax](https://docs.rs/regex/1/regex/#syntax) has no back-references and no look-around,
/// which is why matching takes linear time. `\d`, `\w`, `\s`, `\b` and `(?i)` mean ASCII, and `.`
/// is one byte; `(?u:...)` turns Unicode on for a part of the pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PatternSpec {
    /// The regular expression, at most 1000 bytes.
    pub pattern: String,
    /// The name or number of the group that is compared with the answer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Which differences between groups do not count; none by default.
    #[serde(default)]
    pub fold: Fold,
    /// Whether a match anywhere is enough; no by default.
    #[serde(default)]
    pub search: bool,
}

/// The longest pattern, in bytes.
const PATTERN_LIMIT: usize = 1000;

/// The largest compiled program, in bytes.
const LARGEST: usize = 1 << 18;

/// The most work: bytes of program times bytes of output. A matching engine visits every state of
/// its program at most once for a byte of output, and a state takes 16 bytes at least.
const WORK: usize = 1 << 28;

/// See [`PatternSpec`].
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    regex: Regex,
    /// The group and its folded text in the answer.
    group: Option<(usize, String)>,
    fold: Fold,
    longest: usize,
}

impl Pattern {
    pub(super) fn new(spec: &PatternSpec, answer: &str) -> Result<Self, GraderError> {
        if spec.pattern.len() > PATTERN_LIMIT {
            let why = format!("longer than {PATTERN_LIMIT} bytes; shorten it");
            return Err(GraderError::option("pattern", why));
        }
        // Checked alone first, so that no pattern can close the group that is put around it.
        compile(&spec.pattern)?;
        let (regex, size) = if spec.search {
            compile(&spec.pattern)?
        } else {
            // A pattern that ends with a comment, in verbose mode, needs the line break.
            compile(&format!(r"\A(?:{})\z", spec.pattern))
                .or_else(|_| compile(&format!("\\A(?:{}\n)\\z", spec.pattern)))?
        };
        let mut pattern = Self { regex, group: None, fold: spec.fold, longest: WORK / size };
        if let Some(group) = &spec.group {
            let index = pattern.index_of(group).ok_or_else(|| {
                GraderError::option("group", format!("{group:?} is no group of the pattern; name one"))
            })?;
            let text = pattern
                .text_of(index, answer)
                .map_err(|found| GraderError::answer(answer, found, "a match of `grade.pattern`"))?
                .ok_or_else(|| GraderError::answer(answer, Label::Absent, "text in `grade.group`"))?;
            pattern.group = Some((index, text));
        }
        Ok(pattern)
    }

    fn index_of(&self, group: &str) -> Option<usize> {
        let by_name = self.regex.capture_names().position(|name| name == Some(group));
        by_name.or_else(|| group.parse().ok().filter(|&index| index < self.regex.captures_len()))
    }

    /// The folded text of a group where the pattern matches, `None` when the group took no part.
    fn text_of(&self, group: usize, output: &str) -> Result<Option<String>, Label> {
        let output = self.readable(output)?;
        let captures = self.regex.captures(output.as_bytes()).ok_or(Label::Wrong)?;
        let Some(text) = captures.get(group) else { return Ok(None) };
        // A group of bytes may begin or end within a character; that is not the answer's text.
        let text = std::str::from_utf8(text.as_bytes()).map_err(|_| Label::Wrong)?;
        Ok(Some(self.fold.apply(text).into_owned()))
    }

    fn readable<'a>(&self, output: &'a str) -> Result<&'a str, Label> {
        let output = output.trim();
        if output.is_empty() {
            Err(Label::Empty)
        } else if output.len() > self.longest {
            Err(Label::TooLong)
        } else {
            Ok(output)
        }
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        match &self.group {
            None => match self.readable(output) {
                Ok(output) if self.regex.is_match(output.as_bytes()) => Label::Right,
                Ok(_) => Label::Wrong,
                Err(label) => label,
            },
            Some((index, want)) => match self.text_of(*index, output) {
                Ok(Some(text)) if text == *want => Label::Right,
                Ok(_) => Label::Wrong,
                Err(label) => label,
            },
        }
    }
}

/// The compiled pattern and an upper bound of its size in bytes, within a factor of two.
fn compile(pattern: &str) -> Result<(Regex, usize), GraderError> {
    let mut size = 1 << 12;
    loop {
        let compiled = RegexBuilder::new(pattern).unicode(false).size_limit(size).nest_limit(50).build();
        match compiled {
            Ok(regex) => return Ok((regex, size)),
            Err(regex::Error::CompiledTooBig(_)) if size < LARGEST => size *= 2,
            Err(regex::Error::CompiledTooBig(_)) => {
                let why = format!("compiles to more than {LARGEST} bytes; use fewer or smaller repetitions");
                return Err(GraderError::option("pattern", why));
            }
            Err(error) => {
                // The message shows the pattern over several lines; its last line says what is wrong.
                let text = error.to_string();
                let why = text.lines().last().unwrap_or_default();
                return Err(GraderError::option("pattern", format!("{why}; `(?u:...)` allows Unicode")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grader(spec: &str, answer: &str) -> Result<Pattern, GraderError> {
        Pattern::new(&serde_json::from_str(spec).unwrap(), answer)
    }

    fn judge(spec: &str, answer: &str, output: &str) -> Label {
        grader(spec, answer).unwrap().judge(output)
    }

    #[test]
    fn the_whole_output_must_match() {
        let spec = r#"{"pattern":"a|ab"}"#;
        for (output, want) in [
            (" ab\n", Label::Right),
            ("a", Label::Right),
            ("abc", Label::Wrong),
            ("xab", Label::Wrong),
            ("ab\nab", Label::Wrong),
            (" ", Label::Empty),
        ] {
            assert_eq!(judge(spec, "a", output), want, "{output:?}");
        }
        assert_eq!(judge(r#"{"pattern":"(?m)a$"}"#, "a", "a\nb"), Label::Wrong);
        assert_eq!(judge(r#"{"pattern":"(?x) a # the answer"}"#, "a", "a"), Label::Right);
        assert_eq!(judge(r#"{"pattern":"b","search":true}"#, "b", "abc"), Label::Right);
    }

    #[test]
    fn a_pattern_cannot_leave_its_group() {
        for pattern in ["a)|(b", "a|b)", "(?:a", "("] {
            let spec = PatternSpec { pattern: pattern.to_owned(), ..PatternSpec::default() };
            let got = Pattern::new(&spec, "a");
            assert!(matches!(got, Err(GraderError::BadOption { field: "pattern", .. })), "{got:?}");
        }
    }

    #[test]
    fn a_group_is_compared_with_the_answers() {
        let spec = r#"{"pattern":"(?P<who>[a-z]+) called(?: (\\d+) times)?","group":"who","fold":"case"}"#;
        assert_eq!(judge(spec, "anna called", "anna called 3 times"), Label::Right);
        assert_eq!(judge(spec, "anna called", "bo called"), Label::Wrong);
        assert_eq!(judge(spec, "anna called", "anna"), Label::Wrong);
        let second = r#"{"pattern":"(?P<who>[a-z]+) called(?: (\\d+) times)?","group":"2"}"#;
        assert_eq!(judge(second, "anna called 3 times", "bo called 3 times"), Label::Right);
        assert_eq!(judge(second, "anna called 3 times", "bo called"), Label::Wrong);
        for (spec, answer) in
            [(second, "anna called"), (second, "x"), (r#"{"pattern":"a","group":"1"}"#, "a")]
        {
            assert!(grader(spec, answer).is_err(), "{spec} {answer}");
        }
    }

    #[test]
    fn classes_are_ascii_unless_asked() {
        assert_eq!(judge(r#"{"pattern":"\\d+"}"#, "1", "\u{661}"), Label::Wrong);
        assert_eq!(judge(r#"{"pattern":"(?u:\\d+)"}"#, "1", "\u{661}"), Label::Right);
        assert_eq!(judge(r#"{"pattern":"(?u:.)"}"#, "1", "\u{661}"), Label::Right);
        let why = grader(r#"{"pattern":"[\u00e9]"}"#, "1").unwrap_err().to_string();
        assert!(why.contains("(?u:") && !why.contains('\n'), "{why}");
    }

    #[test]
    fn programs_and_outputs_are_bounded() {
        let why = grader(r#"{"pattern":"((a{1,200}){1,200}){1,200}"}"#, "a").unwrap_err().to_string();
        assert!(why.contains("compiles to more than"), "{why}");
        assert!(grader(&format!(r#"{{"pattern":"{}"}}"#, "(".repeat(2000)), "a").is_err());
        let small = grader(r#"{"pattern":"(a*)*b"}"#, "b").unwrap();
        assert_eq!(small.judge(&"a".repeat(1000)), Label::Wrong);
        assert_eq!(small.judge(&"a".repeat(WORK / (1 << 12) + 1)), Label::TooLong);
        let large = grader(r#"{"pattern":"(a{1,100}){1,10}"}"#, "a").unwrap();
        assert!(large.longest < small.longest);
    }
}
