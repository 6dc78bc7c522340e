//! The output is an end state, of which predicates must hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::spec::share;
use super::value::{Dialect, Value, parse};
use super::{GraderError, Label};

/// Right when every predicate holds of the output, a JSON value, and nothing else changed:
/// `{"type":"state","want":[{"path":"/wifi","is":false}],"start":{"wifi":true},"allow":["/clock"]}`.
///
/// The output is what an environment says its state is at the end of an episode. Paths are JSON
/// Pointers (RFC 6901). With `start`, the state before, a difference between the two that is not
/// under the path of a predicate or in `allow` is a side effect, which scores 0. With `partial`
/// the score is the share of predicates that hold; side effects still score 0.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StateSpec {
    /// What must hold, 1 to 64 predicates.
    pub want: Vec<Predicate>,
    /// The state before; without it, side effects are not looked for.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub start: Option<serde_json::Value>,
    /// Paths that may change besides those of `want`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Whether some of the predicates earn a share; no by default.
    #[serde(default)]
    pub partial: bool,
}

/// Something that must hold at a path: exactly one of the other keys.
///
/// A list *has* an item when one of its items is the given value or, for an object, an object with
/// at least the given members.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Predicate {
    /// The place, a JSON Pointer such as `/alarms/0/on`.
    pub path: String,
    /// The value there is this one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub is: Option<serde_json::Value>,
    /// There is a value, and it is not this one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub not: Option<serde_json::Value>,
    /// The list there has such an item; its other items are not looked at.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub has: Option<serde_json::Value>,
    /// The list there has no such item.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub lacks: Option<serde_json::Value>,
    /// The list there is that of `start` with one such item more, anywhere.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub adds: Option<serde_json::Value>,
    /// The list there is that of `start` with one such item less.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub removes: Option<serde_json::Value>,
    /// The list there has this many items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Whether there is a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// A value that is there, even when it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(Some)
}

const MOST_PREDICATES: usize = 64;

/// See [`StateSpec`].
#[derive(Debug, Clone)]
pub(super) struct State {
    want: Vec<(Vec<String>, Test)>,
    start: Option<Value>,
    allowed: Allowed,
    partial: bool,
}

/// What is tested at a predicate's path.
#[derive(Debug, Clone)]
enum Test {
    Is(Value),
    Not(Value),
    Has(Value),
    Lacks(Value),
    /// The list before and the item.
    Adds(Vec<Value>, Value),
    Removes(Vec<Value>, Value),
    Count(usize),
    Exists(bool),
}

impl State {
    pub(super) fn new(spec: &StateSpec) -> Result<Self, GraderError> {
        if spec.want.is_empty() || spec.want.len() > MOST_PREDICATES {
            let why = format!("{} predicates, expected 1 to {MOST_PREDICATES}", spec.want.len());
            return Err(GraderError::option("want", why));
        }
        let start = spec.start.as_ref().map(Value::from_json);
        let mut want = Vec::with_capacity(spec.want.len());
        let mut allowed = Allowed::default();
        for predicate in &spec.want {
            let path = pointer(&predicate.path)
                .ok_or_else(|| GraderError::option("want", no_pointer(&predicate.path)))?;
            allowed.add(&path);
            let test = test(predicate, start.as_ref().and_then(|start| start.at(&path)))?;
            want.push((path, test));
        }
        for path in &spec.allow {
            let path = pointer(path).ok_or_else(|| GraderError::option("allow", no_pointer(path)))?;
            allowed.add(&path);
        }
        Ok(Self { want, start, allowed, partial: spec.partial })
    }

    pub(super) fn judge(&self, output: &str) -> (f64, Label) {
        if output.trim().is_empty() {
            return (0.0, Label::Empty);
        }
        let end = match parse(output, Dialect::Json) {
            Ok(end) => end,
            Err(label) => return (0.0, label),
        };
        if self
            .start
            .as_ref()
            .is_some_and(|start| !same_outside(Some(start), Some(&end), Some(&self.allowed)))
        {
            return (0.0, Label::SideEffect);
        }
        let held = self.want.iter().filter(|(path, test)| test.holds(end.at(path))).count();
        share(held, self.want.len(), self.partial)
    }
}

/// The test of a predicate, given what was at its path before.
fn test(predicate: &Predicate, before: Option<&Value>) -> Result<Test, GraderError> {
    let list_before = || match before {
        Some(Value::List(list)) => Ok(list.clone()),
        _ => {
            let why = format!("`adds` and `removes` need a list in `start` at {:?}", predicate.path);
            Err(GraderError::option("want", why))
        }
    };
    let value = |json: &Option<serde_json::Value>| json.as_ref().map(Value::from_json);
    let mut tests = [
        value(&predicate.is).map(Test::Is),
        value(&predicate.not).map(Test::Not),
        value(&predicate.has).map(Test::Has),
        value(&predicate.lacks).map(Test::Lacks),
        value(&predicate.adds).map(|item| Ok(Test::Adds(list_before()?, item))).transpose()?,
        value(&predicate.removes).map(|item| Ok(Test::Removes(list_before()?, item))).transpose()?,
        predicate.count.map(Test::Count),
        predicate.exists.map(Test::Exists),
    ]
    .into_iter()
    .flatten();
    match (tests.next(), tests.next()) {
        (Some(test), None) => Ok(test),
        _ => {
            let why = format!(
                "{:?}: expected exactly one of `is`, `not`, `has`, `lacks`, `adds`, `removes`, `count`, `exists`",
                predicate.path
            );
            Err(GraderError::option("want", why))
        }
    }
}

impl Test {
    fn holds(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Exists(exists), value) => value.is_some() == *exists,
            (_, None) => false,
            (Self::Is(want), Some(value)) => want == value,
            (Self::Not(other), Some(value)) => other != value,
            (Self::Has(item), Some(Value::List(list))) => list.iter().any(|value| includes(item, value)),
            (Self::Lacks(item), Some(Value::List(list))) => !list.iter().any(|value| includes(item, value)),
            (Self::Adds(before, item), Some(Value::List(list))) => one_more(before, list, item),
            (Self::Removes(before, item), Some(Value::List(list))) => one_more(list, before, item),
            (Self::Count(count), Some(Value::List(list))) => list.len() == *count,
            _ => false,
        }
    }
}

/// Whether a value is the wanted one or an object with at least its members.
fn includes(want: &Value, value: &Value) -> bool {
    match (want, value) {
        (Value::Object(want), Value::Object(value)) => {
            want.iter().all(|(key, want)| value.get(key).is_some_and(|value| includes(want, value)))
        }
        _ => want == value,
    }
}

/// Whether `longer` is `shorter` with one item more that includes `item`.
fn one_more(shorter: &[Value], longer: &[Value], item: &Value) -> bool {
    if longer.len() != shorter.len() + 1 {
        return false;
    }
    // Where the lists first differ, or within the run of equal items before it, lies the new item;
    // equal items are the same whichever of them is called new.
    let at = shorter.iter().zip(longer).take_while(|(a, b)| a == b).count();
    includes(item, &longer[at]) && shorter[at..] == longer[at + 1..]
}

/// The keys of a JSON Pointer, `None` when it is none.
fn pointer(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let unescape = |key: &str| key.replace("~1", "/").replace("~0", "~");
    Some(text.strip_prefix('/')?.split('/').map(unescape).collect())
}

fn no_pointer(path: &str) -> String {
    format!("{:?} is no JSON Pointer; begin it with `/`", super::error::beginning(path))
}

/// The places that may change, as a tree of keys.
#[derive(Debug, Clone, Default)]
struct Allowed {
    here: bool,
    below: BTreeMap<String, Allowed>,
}

impl Allowed {
    fn add(&mut self, path: &[String]) {
        path.iter().fold(self, |place, key| place.below.entry(key.clone()).or_default()).here = true;
    }
}

/// Whether two values are the same at every place that may not change.
fn same_outside(start: Option<&Value>, end: Option<&Value>, allowed: Option<&Allowed>) -> bool {
    let Some(allowed) = allowed else { return start == end };
    if allowed.here {
        return true;
    }
    let none = BTreeMap::new();
    let objects = match (start, end) {
        (Some(Value::Object(start)), Some(Value::Object(end))) => Some((start, end)),
        // An object appears or disappears with only members that may.
        (Some(Value::Object(start)), None) if !allowed.below.is_empty() => Some((start, &none)),
        (None, Some(Value::Object(end))) if !allowed.below.is_empty() => Some((&none, end)),
        _ => None,
    };
    if let Some((start, end)) = objects {
        let keys = start.keys().chain(end.keys().filter(|key| !start.contains_key(*key)));
        return keys
            .into_iter()
            .all(|key| same_outside(start.get(key), end.get(key), allowed.below.get(key)));
    }
    match (start, end) {
        (Some(Value::List(start)), Some(Value::List(end))) if start.len() == end.len() => {
            let pairs = start.iter().zip(end).enumerate();
            pairs
                .into_iter()
                .all(|(index, (a, b))| same_outside(Some(a), Some(b), allowed.below.get(&index.to_string())))
        }
        _ => start == end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"wifi":true,"alarms":[{"h":6,"on":true},{"h":9,"on":false}],"x":{"a":1,"b":2}}"#;

    fn grader(want: &str, rest: &str) -> Result<State, GraderError> {
        State::new(&serde_json::from_str(&format!(r#"{{"want":[{want}]{rest}}}"#)).unwrap())
    }

    fn judge(want: &str, end: &str) -> (f64, Label) {
        grader(want, &format!(r#","start":{START}"#)).unwrap().judge(end)
    }

    const RIGHT: (f64, Label) = (1.0, Label::Right);
    const WRONG: (f64, Label) = (0.0, Label::Wrong);
    const SIDE: (f64, Label) = (0.0, Label::SideEffect);

    #[test]
    fn values_and_existence() {
        let off = START.replacen("true", "false", 1);
        assert_eq!(judge(r#"{"path":"/wifi","is":false}"#, &off), RIGHT);
        assert_eq!(judge(r#"{"path":"/wifi","is":false}"#, START), WRONG);
        assert_eq!(judge(r#"{"path":"/wifi","not":true}"#, &off), RIGHT);
        assert_eq!(judge(r#"{"path":"/wifi","is":0}"#, &off), WRONG);
        assert_eq!(judge(r#"{"path":"/y","exists":false}"#, START), RIGHT);
        assert_eq!(judge(r#"{"path":"/y","not":1}"#, START), WRONG);
        assert_eq!(judge(r#"{"path":"/alarms/1/h","is":9.0}"#, START), RIGHT);
        assert_eq!(judge(r#"{"path":"/x","is":null}"#, START), WRONG);
        assert_eq!(judge(r#"{"path":"/wifi","is":false}"#, "off"), (0.0, Label::Malformed));
        assert_eq!(judge(r#"{"path":"/wifi","is":false}"#, ""), (0.0, Label::Empty));
    }

    #[test]
    fn lists_with_one_item_more_or_less() {
        let list = |items: &str| START.replace(r#"{"h":6,"on":true},{"h":9,"on":false}"#, items);
        let (six, nine, new) = (r#"{"h":6,"on":true}"#, r#"{"h":9,"on":false}"#, r#"{"h":7,"on":true}"#);
        let adds = r#"{"path":"/alarms","adds":{"h":7}}"#;
        for items in [[six, nine, new], [six, new, nine], [new, six, nine]] {
            assert_eq!(judge(adds, &list(&items.join(","))), RIGHT);
        }
        for items in [&[six, nine][..], &[six, nine, six], &[six, new], &[six, new, new], &[nine, six, new]] {
            assert_eq!(judge(adds, &list(&items.join(","))), WRONG, "{items:?}");
        }
        let removes = r#"{"path":"/alarms","removes":{"h":9}}"#;
        assert_eq!(judge(removes, &list(six)), RIGHT);
        assert_eq!(judge(removes, &list(nine)), WRONG);
        assert_eq!(judge(removes, &list("")), WRONG);
        assert_eq!(judge(r#"{"path":"/alarms","has":{"on":false}}"#, START), RIGHT);
        assert_eq!(judge(r#"{"path":"/alarms","lacks":{"on":false}}"#, START), WRONG);
        assert_eq!(judge(r#"{"path":"/alarms","lacks":{"h":7}}"#, START), RIGHT);
        assert_eq!(judge(r#"{"path":"/alarms","count":2}"#, START), RIGHT);
        assert_eq!(judge(r#"{"path":"/wifi","count":2}"#, START), WRONG);
    }

    #[test]
    fn a_repeated_item_may_be_removed_wherever_it_is() {
        let spec = r#"{"want":[{"path":"","removes":1}],"start":[1,1,2]}"#;
        let state = State::new(&serde_json::from_str(spec).unwrap()).unwrap();
        assert_eq!(state.judge("[1,2]"), RIGHT);
        assert_eq!(state.judge("[1,1]"), WRONG);
    }

    #[test]
    fn side_effects_score_nothing() {
        let want = r#"{"path":"/wifi","is":false}"#;
        let off = START.replacen("true", "false", 1);
        for (change, to) in [
            ("\"h\":6", "\"h\":7"),
            (",\"b\":2", ""),
            ("\"b\":2", "\"b\":2,\"c\":3"),
            ("{\"h\":6,\"on\":true},", ""),
        ] {
            let end = off.replace(change, to);
            assert_ne!(end, off);
            assert_eq!(judge(want, &end), SIDE, "{end}");
            // Where no state before is given, nothing is compared with it.
            assert_eq!(grader(want, "").unwrap().judge(&end), RIGHT);
        }
        let allow = format!(r#","start":{START},"allow":["/x/b","/y/z"]"#);
        let state = grader(want, &allow).unwrap();
        assert_eq!(state.judge(&off.replace("\"b\":2", "\"b\":3")), RIGHT);
        assert_eq!(state.judge(&off.replace(",\"b\":2", "")), RIGHT);
        assert_eq!(state.judge(&off.replace("\"a\":1", "\"a\":3")), SIDE);
        assert_eq!(state.judge(&off.replace("\"wifi\"", "\"y\":{\"z\":1},\"wifi\"")), RIGHT);
        assert_eq!(state.judge(&off.replace("\"wifi\"", "\"y\":{\"u\":1},\"wifi\"")), SIDE);
        assert_eq!(state.judge("[]"), SIDE);
    }

    #[test]
    fn shares_count_predicates_and_side_effects_still_score_nothing() {
        let want = r#"{"path":"/wifi","is":true},{"path":"/x/a","is":5}"#;
        let state = grader(want, &format!(r#","partial":true,"start":{START}"#)).unwrap();
        assert_eq!(state.judge(START), (0.5, Label::Partial));
        assert_eq!(state.judge(&START.replace("\"a\":1", "\"a\":5")), RIGHT);
        assert_eq!(state.judge(&START.replace("\"b\":2", "\"b\":5")), SIDE);
    }

    #[test]
    fn predicates_without_sense_are_errors() {
        for want in [
            "",
            r#"{"path":"/a"}"#,
            r#"{"path":"/a","is":1,"not":2}"#,
            r#"{"path":"a","is":1}"#,
            r#"{"path":"/a","adds":1}"#,
        ] {
            let got = grader(want, "");
            assert!(matches!(got, Err(GraderError::BadOption { field: "want", .. })), "{got:?}");
        }
        assert!(grader(r#"{"path":"/a","is":null}"#, "").is_ok());
        assert!(grader(r#"{"path":"/a","is":1}"#, r#","allow":["a"]"#).is_err());
    }

    #[test]
    fn pointers_are_those_of_the_rfc() {
        let keys = |text: &str| pointer(text);
        assert_eq!(keys(""), Some(vec![]));
        assert_eq!(keys("/a~1b/m~0n/~01"), Some(vec!["a/b".to_owned(), "m~n".to_owned(), "~1".to_owned()]));
        assert_eq!(keys("a"), None);
    }
}
