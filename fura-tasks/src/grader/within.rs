//! Another grader finds a part of the output right.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::spec::Judge;
use super::{GraderError, GraderSpec, Label, Which};

/// Grades a part of the output with another grader:
/// `{"type":"within","part":{"after":"####"},"grade":{"type":"number"}}`.
///
/// The answer is a right output, so that it has the part too, and the other grader's answer is
/// that part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WithinSpec {
    /// The part that is graded.
    pub part: Part,
    /// Which part counts where there are several; more than one is wrong by default.
    #[serde(default)]
    pub which: Which,
    /// The grader of the part.
    pub grade: Box<GraderSpec>,
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// All that follows a mark.
    After(String),
    /// What is between two marks.
    Between(String, String),
    /// What is in the braces of `\boxed{...}`.
    Boxed,
    /// The last line that is not blank, without white space at its end.
    LastLine,
}

/// See [`WithinSpec`].
#[derive(Debug, Clone)]
pub(super) struct Within {
    part: Part,
    which: Which,
    judge: Box<Judge>,
}

impl Within {
    pub(super) fn new(spec: &WithinSpec, answer: &str, choices: &[String]) -> Result<Self, GraderError> {
        let marks = match &spec.part {
            Part::After(mark) => vec![mark],
            Part::Between(open, close) => vec![open, close],
            Part::Boxed | Part::LastLine => vec![],
        };
        if marks.iter().any(|mark| mark.is_empty()) {
            return Err(GraderError::option("part", "a mark is empty; write its text"));
        }
        let part = spec.part.of(answer, spec.which);
        let part = part.map_err(|found| GraderError::answer(answer, found, "one `grade.part`"))?;
        let judge = Box::new(spec.grade.judge(part, choices)?);
        Ok(Self { part: spec.part.clone(), which: spec.which, judge })
    }

    pub(super) fn judge(&self, output: &str) -> (f64, Label) {
        if output.trim().is_empty() {
            return (0.0, Label::Empty);
        }
        match self.part.of(output, self.which) {
            Ok(part) => self.judge.score(part),
            Err(label) => (0.0, label),
        }
    }
}

impl Part {
    /// Where in a text the part that counts is.
    pub(crate) fn range(&self, text: &str, which: Which) -> Result<Range<usize>, Label> {
        match self {
            Self::After(mark) => Ok(begin(text, mark, which)?..text.len()),
            Self::Between(open, close) => {
                let from = begin(text, open, which)?;
                Ok(from..from + text[from..].find(close.as_str()).ok_or(Label::Absent)?)
            }
            Self::Boxed => {
                let from = begin(text, r"\boxed{", which)?;
                Ok(from..from + closing_brace(&text[from..]).ok_or(Label::Absent)?)
            }
            Self::LastLine => {
                let end = text.trim_end().len();
                if end == 0 {
                    return Err(Label::Absent);
                }
                Ok(text[..end].rfind('\n').map_or(0, |at| at + 1)..end)
            }
        }
    }

    fn of<'a>(&self, text: &'a str, which: Which) -> Result<&'a str, Label> {
        self.range(text, which).map(|range| &text[range])
    }
}

/// Where the text after the mark that counts begins.
fn begin(text: &str, mark: &str, which: Which) -> Result<usize, Label> {
    let first = text.find(mark).ok_or(Label::Absent)?;
    let at = match which {
        Which::First => first,
        Which::Last => text.rfind(mark).unwrap_or(first),
        Which::Only if text[first + mark.len()..].contains(mark) => return Err(Label::Ambiguous),
        Which::Only => first,
    };
    Ok(at + mark.len())
}

/// Where the brace is that closes one opened before the text.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    text.bytes().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(spec: &str, answer: &str, output: &str) -> (f64, Label) {
        let spec: WithinSpec = serde_json::from_str(spec).unwrap();
        Within::new(&spec, answer, &[]).unwrap().judge(output)
    }

    const RIGHT: (f64, Label) = (1.0, Label::Right);

    #[test]
    fn after_a_mark() {
        let spec = r#####"{"part":{"after":"####"},"grade":{"type":"number"}}"#####;
        assert_eq!(judge(spec, "#### 18", "5 and 13 make\n#### 18."), RIGHT);
        assert_eq!(judge(spec, "#### 18", "18"), (0.0, Label::Absent));
        assert_eq!(judge(spec, "#### 18", "#### 17 #### 18"), (0.0, Label::Ambiguous));
        assert_eq!(judge(spec, "#### 18", "#### 17"), (0.0, Label::Wrong));
        assert_eq!(judge(spec, "#### 18", ""), (0.0, Label::Empty));
        let last = r#####"{"part":{"after":"####"},"which":"last","grade":{"type":"number"}}"#####;
        assert_eq!(judge(last, "#### 18", "#### 17 #### 18"), RIGHT);
        let first = r#####"{"part":{"after":"####"},"which":"first","grade":{"type":"exact"}}"#####;
        assert_eq!(judge(first, "####a####b", "####a####b"), RIGHT);
    }

    #[test]
    fn between_marks_in_a_box_or_on_the_last_line() {
        let between = r#"{"part":{"between":["<a>","</a>"]},"grade":{"type":"exact","fold":"space"}}"#;
        assert_eq!(judge(between, "<a>yes</a>", "so <a> yes </a>."), RIGHT);
        assert_eq!(judge(between, "<a>yes</a>", "so <a> yes"), (0.0, Label::Absent));
        assert_eq!(judge(between, "<a>yes</a>", "<a>no</a><a>yes</a>"), (0.0, Label::Ambiguous));
        let boxed = r#"{"part":"boxed","grade":{"type":"exact"}}"#;
        assert_eq!(judge(boxed, r"\boxed{\frac{1}{2}}", r"so $\boxed{\frac{1}{2}}$."), RIGHT);
        assert_eq!(judge(boxed, r"\boxed{1}", r"\boxed{1"), (0.0, Label::Absent));
        let line = r#"{"part":"last_line","grade":{"type":"exact"}}"#;
        assert_eq!(judge(line, "yes", "no\nyes\n \n"), RIGHT);
        assert_eq!(judge(line, "yes", "yes\nno"), (0.0, Label::Wrong));
    }

    #[test]
    fn the_answer_must_have_the_part() {
        let spec: WithinSpec = serde_json::from_str(r#"{"part":"boxed","grade":{"type":"exact"}}"#).unwrap();
        assert!(matches!(
            Within::new(&spec, "1", &[]),
            Err(GraderError::BadAnswer { found: Label::Absent, .. })
        ));
        let empty = r#"{"part":{"between":["","</a>"]},"grade":{"type":"exact"}}"#;
        assert!(Within::new(&serde_json::from_str(empty).unwrap(), "1", &[]).is_err());
    }
}
