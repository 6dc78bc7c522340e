//! Several graders as one.

use serde::{Deserialize, Serialize};

use super::spec::Judge;
use super::{GraderError, GraderSpec, Label};

/// The lowest score of several graders: `{"type":"all","of":[{...},{...}]}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AllSpec {
    /// The graders, at least one.
    pub of: Vec<GraderSpec>,
}

/// The highest score of several graders: `{"type":"any","of":[{...},{...}]}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AnySpec {
    /// The graders, at least one.
    pub of: Vec<GraderSpec>,
}

/// The weighted mean of the scores of several graders:
/// `{"type":"weighted","of":[{"weight":3,"grade":{...}},{"weight":1,"grade":{...}}]}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WeightedSpec {
    /// The graders with their weights, at least one.
    pub of: Vec<WeightedPart>,
}

/// A grader and how much it counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WeightedPart {
    /// The weight, above 0; only ratios matter.
    pub weight: f64,
    /// The grader.
    pub grade: GraderSpec,
}

/// A grader that counts only where another gives 1:
/// `{"type":"gate","when":{"type":"format",...},"then":{"type":"within",...}}`.
///
/// This is how to ask for a format: as a condition, which earns nothing by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GateSpec {
    /// The condition; where it gives less than 1, the score is 0 with its label.
    pub when: Box<GraderSpec>,
    /// What is graded under the condition.
    pub then: Box<GraderSpec>,
}

/// See [`AllSpec`], [`AnySpec`], [`WeightedSpec`] and [`GateSpec`]. No score falls when one of the
/// scores that it is made of rises.
#[derive(Debug, Clone)]
pub(super) enum Combine {
    All(Vec<Judge>),
    Any(Vec<Judge>),
    /// Weights that sum to 1.
    Weighted(Vec<(f64, Judge)>),
    Gate(Box<Judge>, Box<Judge>),
}

impl Combine {
    pub(super) fn all(spec: &AllSpec, answer: &str, choices: &[String]) -> Result<Self, GraderError> {
        Ok(Self::All(judges(&spec.of, answer, choices)?))
    }

    pub(super) fn any(spec: &AnySpec, answer: &str, choices: &[String]) -> Result<Self, GraderError> {
        Ok(Self::Any(judges(&spec.of, answer, choices)?))
    }

    pub(super) fn weighted(
        spec: &WeightedSpec,
        answer: &str,
        choices: &[String],
    ) -> Result<Self, GraderError> {
        let total: f64 = spec.of.iter().map(|part| part.weight).sum();
        let usable = |weight: f64| weight > 0.0 && weight.is_finite();
        if spec.of.is_empty() || !usable(total) || !spec.of.iter().all(|part| usable(part.weight)) {
            return Err(GraderError::option("of", "expected graders with weights above 0"));
        }
        let part = |part: &WeightedPart| Ok((part.weight / total, part.grade.judge(answer, choices)?));
        Ok(Self::Weighted(spec.of.iter().map(part).collect::<Result<_, _>>()?))
    }

    pub(super) fn gate(spec: &GateSpec, answer: &str, choices: &[String]) -> Result<Self, GraderError> {
        let judge = |spec: &GraderSpec| spec.judge(answer, choices).map(Box::new);
        Ok(Self::Gate(judge(&spec.when)?, judge(&spec.then)?))
    }

    /// The score, with the label of the part that decided it; of a weighted mean the label of the
    /// first part below 1, or `partial` where something was earned.
    pub(super) fn judge(&self, output: &str) -> (f64, Label) {
        match self {
            Self::All(parts) => extreme(parts, output, |new, old| new < old),
            Self::Any(parts) => extreme(parts, output, |new, old| new > old),
            Self::Weighted(parts) => {
                let (mut mean, mut below) = (0.0, None);
                for (weight, judge) in parts {
                    let (score, label) = judge.score(output);
                    mean += weight * score;
                    if score < 1.0 {
                        below = below.or(Some(label));
                    }
                }
                match below {
                    None => (1.0, Label::Right),
                    Some(label) if mean == 0.0 => (0.0, label),
                    // Rounding must not make a part below 1 into a whole.
                    Some(_) => (mean.min(1.0 - f64::EPSILON), Label::Partial),
                }
            }
            Self::Gate(when, then) => match when.score(output) {
                (score, label) if score < 1.0 => (0.0, label),
                _ => then.score(output),
            },
        }
    }
}

fn judges(specs: &[GraderSpec], answer: &str, choices: &[String]) -> Result<Vec<Judge>, GraderError> {
    if specs.is_empty() {
        return Err(GraderError::option("of", "an empty list; write the graders"));
    }
    specs.iter().map(|spec| spec.judge(answer, choices)).collect()
}

/// The first score that no other one is better than, in the sense of `better`.
fn extreme(parts: &[Judge], output: &str, better: fn(f64, f64) -> bool) -> (f64, Label) {
    let mut scores = parts.iter().map(|judge| judge.score(output));
    // There is at least one part; without any, nothing would be right.
    let first = scores.next().unwrap_or((0.0, Label::Wrong));
    scores.fold(first, |old, new| if better(new.0, old.0) { new } else { old })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grader::{AnyGrader, Grader};
    use proptest::prelude::*;

    fn grader(spec: &str, answer: &str) -> Result<AnyGrader, GraderError> {
        serde_json::from_str::<GraderSpec>(spec).unwrap().build(answer, &[])
    }

    const SET: &str = r#"{"type":"set","partial":true}"#;
    const SHORT: &str = r#"{"type":"length","max":7}"#;

    #[test]
    fn all_any_and_gate() {
        let all = grader(&format!(r#"{{"type":"all","of":[{SHORT},{SET}]}}"#), "a,b").unwrap();
        let any = grader(&format!(r#"{{"type":"any","of":[{SHORT},{SET}]}}"#), "a,b").unwrap();
        let gate = grader(&format!(r#"{{"type":"gate","when":{SHORT},"then":{SET}}}"#), "a,b").unwrap();
        for (output, of_all, of_any, of_gate) in [
            ("a,b", (1.0, Label::Right), (1.0, Label::Right), (1.0, Label::Right)),
            ("a", (0.5, Label::Partial), (1.0, Label::Right), (0.5, Label::Partial)),
            ("x", (0.0, Label::Wrong), (1.0, Label::Right), (0.0, Label::Wrong)),
            ("a,      b", (0.0, Label::BadLength), (1.0, Label::Right), (0.0, Label::BadLength)),
            ("a,xxxxxxxxx", (0.0, Label::BadLength), (1.0 / 3.0, Label::Partial), (0.0, Label::BadLength)),
        ] {
            assert_eq!(all.score(output), of_all, "{output}");
            assert_eq!(any.score(output), of_any, "{output}");
            assert_eq!(gate.score(output), of_gate, "{output}");
        }
    }

    #[test]
    fn weights_count_by_their_ratio() {
        let spec = format!(
            r#"{{"type":"weighted","of":[{{"weight":3,"grade":{SET}}},{{"weight":1,"grade":{SHORT}}}]}}"#
        );
        let grader = grader(&spec, "a,b").unwrap();
        assert_eq!(grader.score("a,b"), (1.0, Label::Right));
        assert_eq!(grader.score("a"), (0.625, Label::Partial));
        assert_eq!(grader.score("x"), (0.25, Label::Partial));
        assert_eq!(grader.score("xxxxxxxx"), (0.0, Label::Wrong));
    }

    #[test]
    fn combinations_without_sense_are_errors() {
        for spec in [
            r#"{"type":"all","of":[]}"#.to_owned(),
            r#"{"type":"any","of":[]}"#.to_owned(),
            r#"{"type":"weighted","of":[]}"#.to_owned(),
            format!(r#"{{"type":"weighted","of":[{{"weight":0,"grade":{SET}}}]}}"#),
            format!(
                r#"{{"type":"weighted","of":[{{"weight":-1,"grade":{SET}}},{{"weight":2,"grade":{SET}}}]}}"#
            ),
            format!(r#"{{"type":"all","of":[{}]}}"#, [SET; 8].join(",")),
        ] {
            let got = grader(&spec, "a");
            assert!(matches!(got, Err(GraderError::BadOption { field: "of", .. })), "{spec}");
        }
        assert!(grader(&format!(r#"{{"type":"all","of":[{}]}}"#, [SET; 7].join(",")), "a").is_ok());
    }

    proptest! {
        #[test]
        fn a_better_part_never_lowers_the_whole(weights in prop::collection::vec(0.001f64..1000.0, 3), items in 0usize..3) {
            // Outputs with more right items are better to every part.
            let of: Vec<_> = weights.iter().map(|w| format!(r#"{{"weight":{w},"grade":{SET}}}"#)).collect();
            let parts = [SET; 3].join(",");
            for spec in [
                format!(r#"{{"type":"weighted","of":[{}]}}"#, of.join(",")),
                format!(r#"{{"type":"all","of":[{parts}]}}"#),
                format!(r#"{{"type":"any","of":[{parts}]}}"#),
                format!(r#"{{"type":"gate","when":{{"type":"length","min":1}},"then":{SET}}}"#),
            ] {
                let grader = grader(&spec, "a,b,c").unwrap();
                let score = |count: usize| grader.grade(&["a", "b", "c"][..count].join(",")).value().unwrap();
                prop_assert!(score(items) <= score(items + 1), "{spec}");
                prop_assert_eq!(score(3), 1.0);
                prop_assert!(score(2) < 1.0);
            }
        }
    }
}
