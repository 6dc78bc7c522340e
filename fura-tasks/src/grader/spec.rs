//! Graders as task files write them.

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::combine::Combine;
use super::exact::Exact;
use super::expr::Expr;
use super::format::Format;
use super::json::Json;
use super::length::Length;
use super::number::Number;
use super::pattern::Pattern;
use super::set::Set;
use super::state::State;
use super::within::Within;
use super::{
    AllSpec, AnySpec, CallSpec, Choice, ChoiceSpec, ExactSpec, ExprSpec, FormatSpec, GateSpec, Grade, Grader,
    GraderError, JsonSpec, Label, LengthSpec, NumberSpec, PatternSpec, SetSpec, StateSpec, WeightedSpec,
    WithinSpec,
};

/// The longest output that is graded, in bytes: four for each of the most tokens that a task may
/// ask for. A longer one scores 0 with the label `too_long`, unread.
pub const OUTPUT_LIMIT: usize = 1 << 18;

/// The most graders that one task may combine.
const MOST_GRADERS: usize = 8;

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
    /// The output must list the items, in any order.
    Set(SetSpec),
    /// The output must match a regular expression.
    Regex(PatternSpec),
    /// The output must be an arithmetic expression with a given value.
    Expr(ExprSpec),
    /// The output must hold the JSON value.
    Json(JsonSpec),
    /// The output must call the function with the arguments.
    Call(CallSpec),
    /// The output is an end state, of which predicates must hold.
    State(StateSpec),
    /// The output must consist of sections.
    Format(FormatSpec),
    /// The output must have a length.
    Length(LengthSpec),
    /// A part of the output is graded.
    Within(WithinSpec),
    /// Every grader must say that it is right; the lowest score counts.
    All(AllSpec),
    /// One grader must say that it is right; the highest score counts.
    Any(AnySpec),
    /// The weighted mean of graders.
    Weighted(WeightedSpec),
    /// A grader that counts only where another says 1.
    Gate(GateSpec),
}

impl GraderSpec {
    /// The grader for a task with this answer and these legal answers (`choices`, empty for
    /// free text).
    ///
    /// # Errors
    ///
    /// When the answer or an option does not fit the kind of grader; see [`GraderError`].
    pub fn build(&self, answer: &str, choices: &[String]) -> Result<AnyGrader, GraderError> {
        if self.count() > MOST_GRADERS {
            let why = format!("more than {MOST_GRADERS} graders in one; combine fewer");
            return Err(GraderError::option("of", why));
        }
        Ok(AnyGrader(self.judge(answer, choices)?))
    }

    /// The kind, as task files write it in `type`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exact(_) => "exact",
            Self::Number(_) => "number",
            Self::Choice(_) => "choice",
            Self::Set(_) => "set",
            Self::Regex(_) => "regex",
            Self::Expr(_) => "expr",
            Self::Json(_) => "json",
            Self::Call(_) => "call",
            Self::State(_) => "state",
            Self::Format(_) => "format",
            Self::Length(_) => "length",
            Self::Within(_) => "within",
            Self::All(_) => "all",
            Self::Any(_) => "any",
            Self::Weighted(_) => "weighted",
            Self::Gate(_) => "gate",
        }
    }

    /// How many graders it combines, itself included.
    fn count(&self) -> usize {
        1 + match self {
            Self::Within(spec) => spec.grade.count(),
            Self::All(spec) => spec.of.iter().map(Self::count).sum(),
            Self::Any(spec) => spec.of.iter().map(Self::count).sum(),
            Self::Weighted(spec) => spec.of.iter().map(|part| part.grade.count()).sum(),
            Self::Gate(spec) => spec.when.count() + spec.then.count(),
            _ => 0,
        }
    }

    pub(super) fn judge(&self, answer: &str, choices: &[String]) -> Result<Judge, GraderError> {
        Ok(match self {
            Self::Exact(spec) => Judge::Exact(Exact::new(spec, answer)?),
            Self::Number(spec) => Judge::Number(Number::new(spec, answer)?),
            Self::Choice(spec) => Judge::Choice(Choice::new(spec, answer, choices)?),
            Self::Set(spec) => Judge::Set(Set::new(spec, answer)?),
            Self::Regex(spec) => Judge::Pattern(Pattern::new(spec, answer)?),
            Self::Expr(spec) => Judge::Expr(Expr::new(spec)?),
            Self::Json(spec) => Judge::Json(Json::new(spec, answer)?),
            Self::Call(spec) => Judge::Call(Call::new(spec, answer)?),
            Self::State(spec) => Judge::State(State::new(spec)?),
            Self::Format(spec) => Judge::Format(Format::new(spec)?),
            Self::Length(spec) => Judge::Length(Length::new(spec)?),
            Self::Within(spec) => Judge::Within(Within::new(spec, answer, choices)?),
            Self::All(spec) => Judge::Combine(Combine::all(spec, answer, choices)?),
            Self::Any(spec) => Judge::Combine(Combine::any(spec, answer, choices)?),
            Self::Weighted(spec) => Judge::Combine(Combine::weighted(spec, answer, choices)?),
            Self::Gate(spec) => Judge::Combine(Combine::gate(spec, answer, choices)?),
        })
    }
}

/// One of the built-in graders, ready to grade.
#[derive(Debug, Clone)]
pub struct AnyGrader(Judge);

impl AnyGrader {
    /// The score in `[0, 1]` with its label: the built-in graders neither abstain nor fail.
    #[must_use]
    pub fn score(&self, output: &str) -> (f64, Label) {
        if output.len() > OUTPUT_LIMIT {
            return (0.0, Label::TooLong);
        }
        self.0.score(output)
    }

    /// The legal answers and the indices of the right ones, for a `choice` grader.
    #[must_use]
    pub fn as_choice(&self) -> Option<&Choice> {
        match &self.0 {
            Judge::Choice(choice) => Some(choice),
            _ => None,
        }
    }
}

impl Grader for AnyGrader {
    fn grade(&self, output: &str) -> Grade {
        let (score, label) = self.score(output);
        Grade::score(score, label)
    }
}

/// The grader of each kind.
#[derive(Debug, Clone)]
pub(super) enum Judge {
    Exact(Exact),
    Number(Number),
    Choice(Choice),
    Set(Set),
    Pattern(Pattern),
    Expr(Expr),
    Json(Json),
    Call(Call),
    State(State),
    Format(Format),
    Length(Length),
    Within(Within),
    Combine(Combine),
}

impl Judge {
    pub(super) fn score(&self, output: &str) -> (f64, Label) {
        let label = match self {
            Self::Exact(grader) => grader.judge(output),
            Self::Number(grader) => grader.judge(output),
            Self::Choice(grader) => grader.judge(output),
            Self::Pattern(grader) => grader.judge(output),
            Self::Expr(grader) => grader.judge(output),
            Self::Format(grader) => grader.judge(output),
            Self::Length(grader) => grader.judge(output),
            Self::Call(grader) => grader.judge(output),
            Self::Set(grader) => return grader.judge(output),
            Self::Json(grader) => return grader.judge(output),
            Self::State(grader) => return grader.judge(output),
            Self::Within(grader) => return grader.judge(output),
            Self::Combine(grader) => return grader.judge(output),
        };
        (if label == Label::Right { 1.0 } else { 0.0 }, label)
    }
}

/// The score of `right` of `all` equal shares, with its label: 1 when all are right, else 0, or
/// the share where partial credit was asked for.
pub(super) fn share(right: usize, all: usize, partial: bool) -> (f64, Label) {
    if right == all {
        (1.0, Label::Right)
    } else if partial && right > 0 {
        (right as f64 / all as f64, Label::Partial)
    } else {
        (0.0, Label::Wrong)
    }
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
            r#"{"type":"set","separator":";","partial":true}"#,
            r#"{"type":"regex","pattern":"a(b)","group":"1","search":true}"#,
            r#"{"type":"expr","numbers":[1,2],"target":3,"ops":"+"}"#,
            r#"{"type":"json","schema":{"type":"object"},"extra":"ignore","which":"first"}"#,
            r#"{"type":"call","syntax":"python","accept":{"a":[1,"x"]},"optional":["a"]}"#,
            r#"{"type":"state","want":[{"path":"/a","is":null}],"start":{"a":1},"allow":["/b"]}"#,
            r#"{"type":"format","sections":[{"open":"<a>","close":"</a>","max":3}]}"#,
            r#"{"type":"length","unit":"lines","min":2}"#,
            r#"{"type":"within","part":{"between":["a","b"]},"grade":{"type":"exact"}}"#,
            r#"{"type":"all","of":[{"type":"exact"}]}"#,
            r#"{"type":"any","of":[{"type":"exact"}]}"#,
            r#"{"type":"weighted","of":[{"weight":0.5,"grade":{"type":"exact"}}]}"#,
            r#"{"type":"gate","when":{"type":"exact"},"then":{"type":"number"}}"#,
            r#"{"type":"exact","fold":"case_space"}"#,
            r#"{"type":"number","which":"last","thousands":true,"percent":true,"abs":0.5}"#,
            r#"{"type":"choice","of":["a","b"],"also":["b"],"fold":"space"}"#,
        ] {
            let spec = parse(text).unwrap();
            let written = serde_json::to_string(&spec).unwrap();
            assert_eq!(parse(&written).unwrap(), spec);
            assert!(written.starts_with(&format!("{{\"type\":\"{}\"", spec.kind())));
        }
    }
}
