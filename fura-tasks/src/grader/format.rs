//! The output must consist of sections.

use serde::{Deserialize, Serialize};

use super::{GraderError, Label};

/// Right when the output is the given sections, in order, and nothing but white space around them:
/// `{"type":"format","sections":[{"open":"<think>","close":"</think>","min":20},{"open":"<answer>","close":"</answer>"}]}`.
///
/// Each section must hold text, and no mark of any section may occur within one. Form says nothing
/// about being right: use it as the condition of a `gate`, not as an income.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FormatSpec {
    /// The sections, 1 to 8.
    pub sections: Vec<Section>,
}

/// A section of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Section {
    /// The mark that begins it; may be empty for the first section, where the prompt wrote it.
    pub open: String,
    /// The mark that ends it; may be empty for the last section, which then ends with the output.
    pub close: String,
    /// The fewest characters between the marks, without white space at the ends; 1 by default, and
    /// never 0: a section that may be empty is no demand.
    #[serde(default = "one")]
    pub min: usize,
    /// The most characters; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
}

fn one() -> usize {
    1
}

const MOST_SECTIONS: usize = 8;

/// See [`FormatSpec`].
#[derive(Debug, Clone)]
pub(super) struct Format {
    sections: Vec<Section>,
}

impl Format {
    pub(super) fn new(spec: &FormatSpec) -> Result<Self, GraderError> {
        let count = spec.sections.len();
        let error = |why: String| Err(GraderError::option("sections", why));
        if !(1..=MOST_SECTIONS).contains(&count) {
            return error(format!("{count} sections, expected 1 to {MOST_SECTIONS}"));
        }
        for (index, section) in spec.sections.iter().enumerate() {
            if section.open.trim().is_empty() && (index > 0 || !section.open.is_empty()) {
                return error(format!("section {index} (from 0): `open` is empty; only the first may be"));
            }
            if section.close.trim().is_empty() && (index + 1 < count || !section.close.is_empty()) {
                return error(format!("section {index} (from 0): `close` is empty; only the last may be"));
            }
            if section.min == 0 || section.max.is_some_and(|max| max < section.min) {
                return error(format!("section {index} (from 0): expected 1 <= `min` <= `max`"));
            }
        }
        Ok(Self { sections: spec.sections.clone() })
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        let mut rest = output.trim();
        if rest.is_empty() {
            return Label::Empty;
        }
        for section in &self.sections {
            let Some(inner) = rest.strip_prefix(section.open.as_str()) else { return Label::BadFormat };
            let (text, after) = if section.close.is_empty() {
                (inner, "")
            } else {
                match inner.split_once(section.close.as_str()) {
                    Some(parts) => parts,
                    None => return Label::BadFormat,
                }
            };
            let marks = self.sections.iter().flat_map(|section| [&section.open, &section.close]);
            if marks.filter(|mark| !mark.is_empty()).any(|mark| text.contains(mark.as_str())) {
                return Label::BadFormat;
            }
            let length = text.trim().chars().count();
            if length < section.min || section.max.is_some_and(|max| length > max) {
                return Label::BadLength;
            }
            rest = after.trim_start();
        }
        if rest.is_empty() { Label::Right } else { Label::BadFormat }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grader(spec: &str) -> Result<Format, GraderError> {
        Format::new(&serde_json::from_str(spec).unwrap())
    }

    const BOTH: &str = r#"{"sections":[{"open":"<think>","close":"</think>","max":9},{"open":"<answer>","close":"</answer>"}]}"#;

    #[test]
    fn sections_in_order_with_text_and_nothing_else() {
        let format = grader(BOTH).unwrap();
        assert_eq!(format.judge("<think>so</think>\n<answer>1</answer>\n"), Label::Right);
        assert_eq!(format.judge(" <think> so </think><answer>\u{e9}</answer>"), Label::Right);
        for (output, want) in [
            ("</think>\n<answer>1</answer>", Label::BadFormat),
            ("<think></think>\n<answer>1</answer>", Label::BadLength),
            ("<think> \n</think>\n<answer>1</answer>", Label::BadLength),
            ("<think>so</think>\n<answer></answer>", Label::BadLength),
            ("<think>0123456789</think>\n<answer>1</answer>", Label::BadLength),
            ("<think>so</think> 1 <answer>1</answer>", Label::BadFormat),
            ("<think>so</think><answer>1</answer> 1", Label::BadFormat),
            ("<think>so</think><answer>1</answer><answer>2</answer>", Label::BadFormat),
            ("<answer>1</answer><think>so</think>", Label::BadFormat),
            ("<think>a<think>b</think><answer>1</answer>", Label::BadFormat),
            ("<think>so</think><answer>1", Label::BadFormat),
            ("1", Label::BadFormat),
            ("\n", Label::Empty),
        ] {
            assert_eq!(format.judge(output), want, "{output}");
        }
    }

    #[test]
    fn the_prompt_may_open_the_first_and_the_end_close_the_last() {
        let format = grader(
            r#####"{"sections":[{"open":"","close":"</think>","min":3},{"open":"####","close":""}]}"#####,
        );
        let format = format.unwrap();
        assert_eq!(format.judge("so it is</think>#### 18"), Label::Right);
        assert_eq!(format.judge("</think>#### 18"), Label::BadLength);
        assert_eq!(format.judge("so it is</think>####"), Label::BadLength);
        assert_eq!(format.judge("so it is</think>#### 18 #### 19"), Label::BadFormat);
    }

    #[test]
    fn demands_that_are_none_are_errors() {
        for spec in [
            r#"{"sections":[]}"#,
            r#"{"sections":[{"open":"<a>","close":"</a>","min":0}]}"#,
            r#"{"sections":[{"open":"<a>","close":"</a>","min":3,"max":2}]}"#,
            r#"{"sections":[{"open":"<a>","close":""},{"open":"<b>","close":"</b>"}]}"#,
            r#"{"sections":[{"open":"<a>","close":"</a>"},{"open":"","close":"</b>"}]}"#,
            r#"{"sections":[{"open":" ","close":"</a>"}]}"#,
        ] {
            assert!(matches!(grader(spec), Err(GraderError::BadOption { field: "sections", .. })), "{spec}");
        }
    }
}
