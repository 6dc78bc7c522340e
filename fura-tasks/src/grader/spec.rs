//! Graders as task files write them.

use serde::{Deserialize, Serialize};

use super::{Choice, ChoiceSpec, Exact, ExactSpec, Grade, Grader, Label, Number, NumberSpec};

/// The kind of a grader and its options, as in a task file; unknown keys are errors.
///
/// ```
/// use fura_tasks::{Grade, Grader, GraderSpec, Label};
///
/// let spec: GraderSpec = serde_json::from_str(r#"{"type":"number","thousands":true}"#)?;
/// let grader = spec.build("1234", &[])?;
/// assert_eq!(grader.grade("It costs $1,234.00."), Grade::score(1.0, Label::Right));
/// assert_eq!(grader.grade("about 1200"), Grade::score(0.0, Label::Wrong));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraderSpec {
    /// The output must be the answer.
    Exact(ExactSpec),
    /// The output must hold the number.
    Number(NumberSpec),
    /// The output must be the right one of the legal answers.
    Choice(ChoiceSpec),
}

impl GraderSpec {
    /// The grader for a task with this answer and these legal answers (`choices`, empty for
    /// free text).
    ///
    /// # Errors
    ///
    /// When the answer or an option does not fit the kind of grader; see [`GraderError`].
    pub fn build(&self, answer: &str, choices: &[String]) -> Result<AnyGrader, GraderError> {
        Ok(match self {
            Self::Exact(spec) => AnyGrader::Exact(Exact::new(spec, answer)?),
            Self::Number(spec) => AnyGrader::Number(Number::new(spec, answer)?),
            Self::Choice(spec) => AnyGrader::Choice(Choice::new(spec, answer, choices)?),
        })
    }
}

/// One of the built-in graders, ready to grade.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AnyGrader {
    /// See [`Exact`].
    Exact(Exact),
    /// See [`Number`].
    Number(Number),
    /// See [`Choice`].
    Choice(Choice),
}

impl AnyGrader {
    /// The score in `[0, 1]` with its label: the built-in graders neither abstain nor fail.
    #[must_use]
    pub fn score(&self, output: &str) -> (f64, Label) {
        let label = match self {
            Self::Exact(grader) => grader.judge(output),
            Self::Number(grader) => grader.judge(output),
            Self::Choice(grader) => grader.judge(output),
        };
        (if label == Label::Right { 1.0 } else { 0.0 }, label)
    }
}

impl Grader for AnyGrader {
    fn grade(&self, output: &str) -> Grade {
        let (score, label) = self.score(output);
        Grade::score(score, label)
    }
}

/// The beginning of an answer, for messages.
pub(super) fn beginning(answer: &str) -> String {
    answer.chars().take(80).collect()
}

/// Why a grader could not be made from a task.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraderError {
    /// The answer holds no text.
    #[error("field `answer`: empty under the grader's `fold`; write the expected output")]
    EmptyAnswer,
    /// The answer of a number grader is not one number.
    #[error(
        "field `answer`: {found} in {answer:?}, expected one number of at most 18 digits; \
         write the number, or set `thousands` or `percent` in `grade`"
    )]
    NotOneNumber {
        /// The beginning of the answer.
        answer: String,
        /// What the grader found in it.
        found: Label,
    },
    /// A tolerance is not a usable number.
    #[error(
        "field `grade.{field}`: {value} is no tolerance; \
         write a number of at least 0 with at most 17 decimals"
    )]
    BadTolerance {
        /// `abs` or `rel`.
        field: &'static str,
        /// The value.
        value: f64,
    },
    /// A choice grader without legal answers.
    #[error("field `choices`: no legal answers; list them there or in `grade.of`")]
    NoChoices,
    /// A legal answer without text.
    #[error("field `choices`: entry {index} (from 0) is empty; write its text or remove it")]
    EmptyChoice {
        /// Its index, from 0.
        index: usize,
    },
    /// Two legal answers that the grader cannot tell apart.
    #[error(
        "field `choices`: entries {first} and {second} (from 0) are the same under `fold`; \
         remove one"
    )]
    SameChoices {
        /// The index of the first, from 0.
        first: usize,
        /// The index of the second, from 0.
        second: usize,
    },
    /// A right answer that is not among the legal ones.
    #[error("field `answer`: {answer:?} is not one of the legal answers; add it to `choices`")]
    AnswerNotLegal {
        /// The beginning of the answer.
        answer: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GraderSpec, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn defaults_are_the_strictest_options() {
        assert_eq!(parse(r#"{"type":"exact"}"#).unwrap(), GraderSpec::Exact(ExactSpec::default()));
        assert_eq!(parse(r#"{"type":"number"}"#).unwrap(), GraderSpec::Number(NumberSpec::default()));
    }

    #[test]
    fn a_misspelt_option_is_an_error() {
        for text in [
            r#"{"type":"exact","folds":"case"}"#,
            r#"{"type":"number","thousand":true}"#,
            r#"{"type":"choice","off":["a"]}"#,
        ] {
            let why = parse(text).unwrap_err().to_string();
            assert!(why.contains("unknown field"), "{why}");
        }
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        assert!(parse(r#"{"type":"python"}"#).is_err());
        assert!(parse(r#"{"fold":"case"}"#).is_err());
        assert!(parse(r#"{"type":"exact","fold":"unicode"}"#).is_err());
    }

    #[test]
    fn specs_survive_a_round_trip() {
        for text in [
            r#"{"type":"exact","fold":"case_space"}"#,
            r#"{"type":"number","which":"last","thousands":true,"percent":true,"abs":0.5}"#,
            r#"{"type":"choice","of":["a","b"],"also":["b"],"fold":"space"}"#,
        ] {
            let spec = parse(text).unwrap();
            assert_eq!(parse(&serde_json::to_string(&spec).unwrap()).unwrap(), spec);
        }
    }
}
