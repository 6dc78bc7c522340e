//! The output must call a function with the right arguments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::find::{Kind, find};
use super::json::{Comparison, Extra};
use super::schema::Check;
use super::value::{Dialect, LONGEST, Parser, Value};
use super::{Fold, GraderError, Label, Schema, Which};

/// Right when the output calls the answer's function with the answer's arguments:
/// `{"type":"call","syntax":"python","fold":"space","accept":{"unit":["m","metre"]},"optional":["unit"]}`.
///
/// Answer and output are one call with named arguments, in one syntax. Arguments are compared as
/// typed values: numbers by exact value, texts up to `fold`, `5` is neither `"5"` nor `-5`.
/// An argument that the answer does not have is wrong.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallSpec {
    /// How the call is written.
    #[serde(default)]
    pub syntax: Syntax,
    /// Values of arguments that are right besides the answer's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accept: BTreeMap<String, Vec<serde_json::Value>>,
    /// Arguments that may be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
    /// What the object of all arguments must be, besides right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Schema>,
    /// Which differences between texts do not count; none by default.
    #[serde(default)]
    pub fold: Fold,
}

/// How a call is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    /// `{"name":"alarm","arguments":{"time":"06:15"}}`, or `parameters` for `arguments`; there may
    /// be text around it, but no second call.
    #[default]
    Json,
    /// `alarm(time="06:15")`, with Python's literals and nothing else in the output.
    Python,
}

/// See [`CallSpec`].
#[derive(Debug, Clone)]
pub(super) struct Call {
    name: String,
    /// The right values of each argument.
    arguments: BTreeMap<String, Vec<Value>>,
    optional: Vec<String>,
    check: Option<Check>,
    fold: Fold,
    syntax: Syntax,
}

impl Call {
    pub(super) fn new(spec: &CallSpec, answer: &str) -> Result<Self, GraderError> {
        let (name, arguments) = read(answer, spec.syntax).map_err(|found| {
            GraderError::answer(answer, found, "one call in the syntax of `grade.syntax`")
        })?;
        let check = spec.parameters.as_ref().map(Check::new);
        if check.as_ref().is_some_and(|check| !check.allows(&Value::Object(arguments.clone()))) {
            let expected = "arguments that `grade.parameters` allows";
            return Err(GraderError::answer(answer, Label::WrongType, expected));
        }
        let mut arguments: BTreeMap<_, _> =
            arguments.into_iter().map(|(name, value)| (name, vec![value])).collect();
        for (argument, values) in &spec.accept {
            // An optional argument may be one that the answer leaves out.
            if !arguments.contains_key(argument) && !spec.optional.contains(argument) {
                let why =
                    format!("{argument:?} is neither in the answer nor in `optional`; correct its name");
                return Err(GraderError::option("accept", why));
            }
            arguments.entry(argument.clone()).or_default().extend(values.iter().map(Value::from_json));
        }
        Ok(Self {
            name,
            arguments,
            optional: spec.optional.clone(),
            check,
            fold: spec.fold,
            syntax: spec.syntax,
        })
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        if output.trim().is_empty() {
            return Label::Empty;
        }
        let (name, arguments) = match read(output, self.syntax) {
            Ok(call) => call,
            Err(label) => return label,
        };
        if name != self.name {
            return Label::WrongName;
        }
        if arguments.keys().any(|name| !self.arguments.contains_key(name)) {
            return Label::Wrong;
        }
        let comparison = Comparison { fold: self.fold, extra: Extra::Forbid };
        let right = self.arguments.iter().all(|(name, golds)| match arguments.get(name) {
            Some(value) => golds.iter().any(|gold| comparison.equal(gold, value)),
            None => self.optional.contains(name),
        });
        let arguments = Value::Object(arguments);
        match &self.check {
            Some(check) if !check.allows(&arguments) => Label::WrongType,
            _ if right => Label::Right,
            _ => Label::Wrong,
        }
    }
}

/// The name and the arguments of the only call in a text.
fn read(text: &str, syntax: Syntax) -> Result<(String, BTreeMap<String, Value>), Label> {
    match syntax {
        Syntax::Json => {
            let Value::Object(mut call) = find(text, Kind::Object, Which::Only)? else {
                return Err(Label::Malformed);
            };
            let arguments = call.remove("arguments").or_else(|| call.remove("parameters"));
            match (call.remove("name"), arguments, call.is_empty()) {
                (Some(Value::Text(name)), Some(Value::Object(arguments)), true) => Ok((name, arguments)),
                _ => Err(Label::Malformed),
            }
        }
        Syntax::Python if text.len() > LONGEST => Err(Label::TooLong),
        Syntax::Python => {
            let mut parser = Parser::new(text, Dialect::Python);
            let name = parser.name().ok_or(Label::Malformed)?.to_owned();
            let mut arguments = BTreeMap::new();
            if !parser.take(b'(') {
                return Err(Label::Malformed);
            }
            while !parser.take(b')') {
                if !arguments.is_empty() && !(parser.take(b',')) {
                    return Err(Label::Malformed);
                }
                if !arguments.is_empty() && parser.take(b')') {
                    break;
                }
                let argument = parser.name().ok_or(Label::Malformed)?.to_owned();
                if !parser.take(b'=') {
                    return Err(Label::Malformed);
                }
                if arguments.insert(argument, parser.value()?).is_some() {
                    return Err(Label::Ambiguous);
                }
            }
            parser.space();
            if parser.byte().is_some() { Err(Label::Malformed) } else { Ok((name, arguments)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grader(spec: &str, answer: &str) -> Result<Call, GraderError> {
        Call::new(&serde_json::from_str(spec).unwrap(), answer)
    }

    const JSON: &str = r#"{"name":"alarm","arguments":{"time":"06:15","days":["mo"],"loud":5}}"#;
    const PYTHON: &str = r#"alarm(time="06:15", days=["mo"], loud=5)"#;

    #[test]
    fn the_same_call_is_right_however_it_is_laid_out() {
        let json = grader("{}", JSON).unwrap();
        for output in [
            JSON,
            "<tool_call>\n{\"arguments\": {\"loud\": 5.0, \"days\": [\"mo\"], \"time\": \"06:15\"}, \"name\": \"alarm\"}\n</tool_call>",
            r#"{"name":"alarm","parameters":{"time":"06:15","days":["mo"],"loud":5}}"#,
        ] {
            assert_eq!(json.judge(output), Label::Right, "{output}");
        }
        let python = grader(r#"{"syntax":"python"}"#, PYTHON).unwrap();
        for output in [PYTHON, " alarm( loud=5,days=['mo'],time='06:15', )\n"] {
            assert_eq!(python.judge(output), Label::Right, "{output}");
        }
    }

    #[test]
    fn every_difference_has_its_label() {
        let json = grader("{}", JSON).unwrap();
        for (output, want) in [
            (r#"{"name":"timer","arguments":{"time":"06:15","days":["mo"],"loud":5}}"#, Label::WrongName),
            (r#"{"name":"alarm","arguments":{"time":"06:16","days":["mo"],"loud":5}}"#, Label::Wrong),
            (r#"{"name":"alarm","arguments":{"time":"06:15","days":["mo"],"loud":"5"}}"#, Label::Wrong),
            (r#"{"name":"alarm","arguments":{"time":"06:15","days":["mo"],"loud":-5}}"#, Label::Wrong),
            (r#"{"name":"alarm","arguments":{"time":"06:15","days":["mo"]}}"#, Label::Wrong),
            (r#"{"name":"alarm","arguments":{"time":"06:15","days":["mo"],"loud":5,"x":1}}"#, Label::Wrong),
            (
                r#"{"name":"alarm","arguments":{"time":"06:15","days":["mo"],"loud":5},"x":1}"#,
                Label::Malformed,
            ),
            (r#"{"name":"alarm","arguments":"{}"}"#, Label::Malformed),
            (r#"{"name":"alarm"}"#, Label::Malformed),
            ("alarm", Label::Absent),
            (" ", Label::Empty),
        ] {
            assert_eq!(json.judge(output), want, "{output}");
        }
        assert_eq!(
            json.judge(&format!("{JSON} {{\"name\":\"alarm\",\"arguments\":{{}}}}")),
            Label::Ambiguous
        );
        let python = grader(r#"{"syntax":"python"}"#, PYTHON).unwrap();
        for (output, want) in [
            ("alarm(\"06:15\", [\"mo\"], 5)", Label::Malformed),
            ("alarm(time=\"06:15\", days=[\"mo\"], loud=5) # done", Label::Malformed),
            ("alarm(time=\"06:15\" days=[\"mo\"], loud=5)", Label::Malformed),
            ("alarm(,)", Label::Malformed),
            ("alarm(time=now())", Label::Malformed),
            ("alarm(time=\"06:15\", time=\"06:15\")", Label::Ambiguous),
            ("x.alarm()", Label::WrongName),
            ("alarm()", Label::Wrong),
        ] {
            assert_eq!(python.judge(output), want, "{output}");
        }
    }

    #[test]
    fn accepted_values_and_optional_arguments() {
        let spec = r#"{"syntax":"python","accept":{"unit":["m","metre"]},"optional":["unit"],"fold":"case"}"#;
        let call = grader(spec, "area(base=10)").unwrap();
        for (output, want) in [
            ("area(base=10)", Label::Right),
            ("area(base=10, unit='Metre')", Label::Right),
            ("area(base=10, unit='km')", Label::Wrong),
            ("area(unit='m')", Label::Wrong),
        ] {
            assert_eq!(call.judge(output), want, "{output}");
        }
        let misspelt = grader(r#"{"syntax":"python","accept":{"units":["m"]}}"#, "area(base=10)");
        assert!(matches!(misspelt, Err(GraderError::BadOption { field: "accept", .. })));
    }

    #[test]
    fn parameters_are_typed() {
        let spec = r#"{"syntax":"python","accept":{"n":["2"]},"parameters":{"properties":{"n":{"type":"integer"}}}}"#;
        let call = grader(spec, "f(n=2)").unwrap();
        assert_eq!(call.judge("f(n=2.0)"), Label::Right);
        assert_eq!(call.judge("f(n='2')"), Label::WrongType);
        assert!(grader(spec, "f(n=2.5)").is_err());
        assert!(grader(spec, "2").is_err());
    }
}
