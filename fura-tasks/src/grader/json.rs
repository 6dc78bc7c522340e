//! The output must hold the answer's JSON value.

use serde::{Deserialize, Serialize};

use super::find::{Kind, find};
use super::schema::Check;
use super::spec::share;
use super::value::{Dialect, Value, parse};
use super::{Fold, GraderError, Label, Schema, Which};

/// Right when the JSON in the output has the answer's leaves, each in its place and of its type:
/// `{"type":"json","schema":{...},"extra":"ignore","which":"last","fold":"case","partial":true}`.
///
/// Where the answer is an object or a list, the output may have text around it, such as a code
/// fence; where it is another value, the output is that value. Numbers are compared by exact value
/// (`1.0` is `1`), texts up to `fold`, `1` is never `"1"`. A repeated key is an error of the
/// output. Lists are equal item by item.
///
/// With `schema`, the value must also be what the schema allows, or scores 0. With `partial` the
/// score is the number of equal leaves divided by the number of places at which answer or output
/// have a leaf.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JsonSpec {
    /// What the output's value must be, besides equal to the answer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Whether members that the answer lacks are wrong.
    #[serde(default)]
    pub extra: Extra,
    /// Which value of the output counts where there are several.
    #[serde(default)]
    pub which: Which,
    /// Which differences between texts do not count; none by default.
    #[serde(default)]
    pub fold: Fold,
    /// Whether some right leaves earn a share; no by default.
    #[serde(default)]
    pub partial: bool,
}

/// What members of objects are that the answer does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// Wrong.
    #[default]
    Forbid,
    /// Not looked at.
    Ignore,
}

/// See [`JsonSpec`].
#[derive(Debug, Clone)]
pub(super) struct Json {
    check: Option<Check>,
    comparison: Comparison,
    which: Which,
    partial: bool,
    gold: Value,
}

impl Json {
    pub(super) fn new(spec: &JsonSpec, answer: &str) -> Result<Self, GraderError> {
        let gold = parse(answer, Dialect::Json)
            .map_err(|found| GraderError::answer(answer, found, "a JSON value and nothing else"))?;
        let check = spec.schema.as_ref().map(Check::new);
        if check.as_ref().is_some_and(|check| !check.allows(&gold)) {
            let expected = "a value that `grade.schema` allows";
            return Err(GraderError::answer(answer, Label::WrongType, expected));
        }
        let comparison = Comparison { fold: spec.fold, extra: spec.extra };
        Ok(Self { check, comparison, which: spec.which, partial: spec.partial, gold })
    }

    pub(super) fn judge(&self, output: &str) -> (f64, Label) {
        if output.trim().is_empty() {
            return (0.0, Label::Empty);
        }
        let value = match Kind::of(&self.gold) {
            Some(kind) => find(output, kind, self.which),
            None => parse(output, Dialect::Json),
        };
        match value {
            Err(label) => (0.0, label),
            Ok(value) if self.check.as_ref().is_some_and(|check| !check.allows(&value)) => {
                (0.0, Label::WrongType)
            }
            Ok(value) => {
                let (right, all) = self.comparison.of(&self.gold, &value);
                share(right, all, self.partial)
            }
        }
    }
}

/// Compares values leaf by leaf. A leaf is a value that is not a list or an object, or is an empty
/// one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    pub(super) fold: Fold,
    pub(super) extra: Extra,
}

impl Comparison {
    /// Whether two values are equal.
    pub(super) fn equal(self, gold: &Value, value: &Value) -> bool {
        let (right, all) = self.of(gold, value);
        right == all
    }

    /// The number of places at which both have the same leaf, and at which either has one.
    fn of(self, gold: &Value, value: &Value) -> (usize, usize) {
        match (gold, value) {
            (Value::Object(gold), Value::Object(value)) if !gold.is_empty() && !value.is_empty() => {
                let of_gold = gold.iter().map(|(key, gold)| match value.get(key) {
                    Some(value) => self.of(gold, value),
                    None => (0, leaves(gold)),
                });
                let extra = value.iter().filter(|(key, _)| !gold.contains_key(*key));
                let of_extra =
                    extra.filter(|_| self.extra == Extra::Forbid).map(|(_, value)| (0, leaves(value)));
                sum(of_gold.chain(of_extra))
            }
            (Value::Object(gold), Value::Object(_)) if gold.is_empty() && self.extra == Extra::Ignore => {
                (1, 1)
            }
            (Value::List(gold), Value::List(value)) if !gold.is_empty() && !value.is_empty() => {
                let both = gold.iter().zip(value).map(|(gold, value)| self.of(gold, value));
                let common = gold.len().min(value.len());
                let rest = gold[common..].iter().chain(&value[common..]).map(|only| (0, leaves(only)));
                sum(both.chain(rest))
            }
            (Value::Text(gold), Value::Text(value)) => {
                (usize::from(self.fold.apply(gold) == self.fold.apply(value)), 1)
            }
            _ if gold == value => (1, 1),
            _ => (0, leaves(gold).max(leaves(value))),
        }
    }
}

fn sum(counts: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    counts.fold((0, 0), |(right, all), (r, a)| (right + r, all + a))
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => map.values().map(leaves).sum(),
        Value::List(list) if !list.is_empty() => list.iter().map(leaves).sum(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANSWER: &str = r#"{"who":"Anna","at":{"h":6,"m":15},"days":["mo","tu"]}"#;

    fn judge(spec: &str, output: &str) -> (f64, Label) {
        Json::new(&serde_json::from_str(spec).unwrap(), ANSWER).unwrap().judge(output)
    }

    #[test]
    fn order_of_members_and_text_around_do_not_count() {
        let output = r#"Here: {"days": ["mo", "tu"], "at": {"m": 15.0, "h": 6}, "who": "Anna"}."#;
        assert_eq!(judge("{}", output), (1.0, Label::Right));
        assert_eq!(judge("{}", " "), (0.0, Label::Empty));
        assert_eq!(judge("{}", "Anna"), (0.0, Label::Absent));
    }

    #[test]
    fn types_values_places_and_order_of_lists_count() {
        for output in [
            r#"{"who":"Anna","at":{"h":"6","m":15},"days":["mo","tu"]}"#,
            r#"{"who":"Anna","at":{"h":6,"m":15},"days":["tu","mo"]}"#,
            r#"{"who":"Anna","at":{"h":6,"m":15},"days":["mo"]}"#,
            r#"{"who":"Anna","at":{"h":6,"m":15},"days":"mo, tu"}"#,
            r#"{"who":"anna","at":{"h":6,"m":15},"days":["mo","tu"]}"#,
            r#"{"who":"Anna","h":6,"m":15,"days":["mo","tu"]}"#,
            r#"{"who":"Anna","at":{"h":6,"m":15},"days":["mo","tu"],"x":1}"#,
        ] {
            assert_eq!(judge("{}", output), (0.0, Label::Wrong), "{output}");
        }
    }

    #[test]
    fn options_forgive_only_what_they_say() {
        let extra = r#"{"who":"ANNA","at":{"h":6,"m":15,"s":0},"days":["mo","tu"],"x":1}"#;
        assert_eq!(judge(r#"{"extra":"ignore","fold":"case"}"#, extra), (1.0, Label::Right));
        assert_eq!(judge(r#"{"extra":"ignore"}"#, extra), (0.0, Label::Wrong));
        assert_eq!(judge(r#"{"fold":"case"}"#, extra), (0.0, Label::Wrong));
    }

    #[test]
    fn shares_count_leaves() {
        let partial = r#"{"partial":true}"#;
        let output = r#"{"who":"Anna","at":{"h":6,"m":16},"x":1}"#;
        // 2 of who, h, m, mo, tu and x.
        assert_eq!(judge(partial, output), (2.0 / 6.0, Label::Partial));
        assert_eq!(judge(partial, "{}"), (0.0, Label::Wrong));
        assert_eq!(judge("{}", output), (0.0, Label::Wrong));
    }

    #[test]
    fn the_schema_is_a_condition() {
        let spec =
            r#"{"partial":true,"schema":{"properties":{"at":{"properties":{"h":{"type":"integer"}}}}}}"#;
        assert_eq!(judge(spec, ANSWER), (1.0, Label::Right));
        let output = r#"{"who":"Anna","at":{"h":6.5,"m":15},"days":["mo","tu"]}"#;
        assert_eq!(judge(spec, output), (0.0, Label::WrongType));
        let list: JsonSpec = serde_json::from_str(r#"{"schema":{"type":"array"}}"#).unwrap();
        assert!(matches!(Json::new(&list, ANSWER), Err(GraderError::BadAnswer { .. })));
        assert!(Json::new(&JsonSpec::default(), "{\"a\":1} or so").is_err());
    }

    #[test]
    fn a_leaf_answer_is_the_whole_output() {
        let grader = Json::new(&JsonSpec::default(), "12").unwrap();
        assert_eq!(grader.judge(" 12.0\n"), (1.0, Label::Right));
        assert_eq!(grader.judge("12 or 13"), (0.0, Label::Malformed));
        assert_eq!(grader.judge("\"12\""), (0.0, Label::Wrong));
    }

    proptest! {
        #[test]
        fn each_more_right_leaf_scores_more(right in prop::collection::vec(any::<bool>(), 5)) {
            let output = |right: &[bool]| {
                let leaf = |index: usize, gold: &str| if right[index] { gold.to_owned() } else { "null".to_owned() };
                format!(
                    r#"{{"who":{},"at":{{"h":{},"m":{}}},"days":[{},{}]}}"#,
                    leaf(0, "\"Anna\""), leaf(1, "6"), leaf(2, "15"), leaf(3, "\"mo\""), leaf(4, "\"tu\"")
                )
            };
            let score = |right: &[bool]| judge(r#"{"partial":true}"#, &output(right)).0;
            let here = score(&right);
            prop_assert_eq!(here, right.iter().filter(|&&r| r).count() as f64 / 5.0);
            for index in 0..5 {
                let mut better = right.clone();
                better[index] = true;
                prop_assert!(score(&better) >= here);
            }
        }
    }
}
