//! The Berkeley Function Calling Leaderboard's single calls.

use std::collections::HashMap;
use std::io::BufRead;

use serde_json::{Map, Value};

use super::{Ask, Imported, Row, rows, task};
use crate::grader::{CallSpec, GraderSpec, Schema, SchemaType, Syntax};
use crate::task_file::{Lines, TaskFileError, parse};

const MOST_TOKENS: u32 = 256;

/// The most values of one argument, once alternatives within objects are spelt out.
const MOST_VALUES: usize = 64;

/// Imports the categories of BFCL (version 4) with one right call, `simple_python` and `multiple`:
/// a file of questions with their functions, and the file of accepted answers.
///
/// The prompt lists the functions as JSON, one a line, then the request. An output must be one call
/// in Python's syntax with named arguments. Values are compared as typed values, against each
/// accepted value; `""` among them means that the argument may be left out. The function's
/// parameters become a schema: `dict` is `object`, `float` is `number`, `tuple` is `array`, `any`
/// is any type.
///
/// Rows are left out that have several turns or right calls, or whose accepted answer is not what
/// their own function allows.
///
/// # Errors
///
/// When a file cannot be read or a line is not a JSON object.
pub fn bfcl(
    questions: (&str, impl BufRead),
    answers: (&str, impl BufRead),
) -> Result<Imported, TaskFileError> {
    let mut truths = HashMap::new();
    let mut lines = Lines::new(answers.0, answers.1);
    while let Some((place, line)) = lines.next()? {
        let mut row: Row = parse(line, place)?;
        if let (Some(Value::String(id)), Some(truth)) = (row.remove("id"), row.remove("ground_truth")) {
            truths.insert(id, truth);
        }
    }
    rows(questions.0, questions.1, |row, _| {
        let Some(Value::String(id)) = row.get("id") else { return Err("column `id`: missing".to_owned()) };
        let truth = truths.remove(id).ok_or_else(|| format!("no answer for {id:?}"))?;
        one_call(&row, id, &truth)
    })
}

fn one_call(row: &Row, id: &str, truth: &Value) -> Result<crate::task::Task, String> {
    let call = match truth.as_array().map(Vec::as_slice) {
        Some([Value::Object(call)]) => call,
        _ => return Err("expected one right call".to_owned()),
    };
    let (name, arguments) = match call.iter().collect::<Vec<_>>()[..] {
        [(name, Value::Object(arguments))] => (name, arguments),
        _ => return Err("expected one function in the right call".to_owned()),
    };
    let request = match row.get("question").and_then(|turns| turns.pointer("/0/0/content")) {
        Some(Value::String(request)) if row["question"].as_array().is_some_and(|turns| turns.len() == 1) => {
            request
        }
        _ => return Err("expected one turn".to_owned()),
    };
    let functions =
        row.get("function").and_then(Value::as_array).ok_or("column `function`: expected a list")?;
    let function = functions.iter().find(|function| function["name"] == **name);
    let function = function.ok_or_else(|| format!("the right call's function {name:?} is not listed"))?;
    let parameters = Some(schema(&function["parameters"])?);
    let mut spec = CallSpec { syntax: Syntax::Python, parameters, ..CallSpec::default() };
    let mut written = Vec::new();
    for (argument, accepted) in arguments {
        let accepted =
            accepted.as_array().ok_or_else(|| format!("argument {argument:?}: expected a list"))?;
        let mut values = Vec::new();
        for value in accepted {
            match value {
                Value::String(text) if text.is_empty() => spec.optional.push(argument.clone()),
                value => values.extend(alternatives(value)?),
            }
        }
        if values.len() > MOST_VALUES {
            return Err(format!("argument {argument:?}: more than {MOST_VALUES} accepted values"));
        }
        if let Some(first) = values.first() {
            written.push(format!("{argument}={}", python(first)));
        }
        spec.accept.insert(argument.clone(), values);
    }
    let list: Vec<String> = functions.iter().map(Value::to_string).collect();
    let ask = Ask::Prompt(format!("Functions:\n{}\nRequest: {}\nCall:", list.join("\n"), request.trim()));
    let answer = format!("{name}({})", written.join(", "));
    let mut task = task(id.to_owned(), ask, answer, GraderSpec::Call(spec), MOST_TOKENS);
    task.stop.push("\n".to_owned());
    task.tags.push("bfcl".to_owned());
    Ok(task)
}

/// A function's parameters as a schema.
fn schema(parameters: &Value) -> Result<Schema, String> {
    let kind = match parameters["type"].as_str() {
        Some("dict" | "object") => Some(SchemaType::Object),
        Some("array" | "tuple") => Some(SchemaType::Array),
        Some("integer") => Some(SchemaType::Integer),
        Some("float" | "number") => Some(SchemaType::Number),
        Some("string") => Some(SchemaType::String),
        Some("boolean") => Some(SchemaType::Boolean),
        Some("any") | None => None,
        Some(other) => return Err(format!("parameter type {other:?} is not known")),
    };
    let mut schema = Schema { kind, ..Schema::default() };
    if let Some(properties) = parameters["properties"].as_object() {
        for (name, property) in properties {
            schema.properties.insert(name.clone(), self::schema(property)?);
        }
    }
    if let Some(required) = parameters["required"].as_array() {
        schema.required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    if parameters["items"].is_object() {
        schema.items = Some(Box::new(self::schema(&parameters["items"])?));
    }
    Ok(schema)
}

/// The values that an accepted value stands for: within objects, each member is a list of
/// accepted values, `""` among them meaning that it may be left out.
fn alternatives(accepted: &Value) -> Result<Vec<Value>, String> {
    let too_many = || format!("more than {MOST_VALUES} accepted values");
    match accepted {
        Value::Object(members) => {
            let mut objects = vec![Map::new()];
            for (key, accepted) in members {
                let accepted = accepted.as_array().ok_or("a member's accepted values are not a list")?;
                let mut next = Vec::new();
                for object in &objects {
                    for value in accepted {
                        if value.as_str() == Some("") {
                            next.push(object.clone());
                            continue;
                        }
                        for value in alternatives(value)? {
                            let mut object = object.clone();
                            object.insert(key.clone(), value);
                            next.push(object);
                        }
                    }
                    if next.len() > MOST_VALUES {
                        return Err(too_many());
                    }
                }
                objects = next;
            }
            Ok(objects.into_iter().map(Value::Object).collect())
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let mut lists = vec![vec![]];
            for item in items {
                let item = alternatives(item)?;
                let longer = |list: &Vec<Value>| {
                    item.iter().map(|v| [&list[..], std::slice::from_ref(v)].concat()).collect::<Vec<_>>()
                };
                lists = lists.iter().flat_map(longer).collect();
                if lists.len() > MOST_VALUES {
                    return Err(too_many());
                }
            }
            Ok(lists.into_iter().map(Value::Array).collect())
        }
        value => Ok(vec![value.clone()]),
    }
}

/// A value as a Python literal.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(list) => format!("[{}]", list.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let member =
                |(key, value): (&String, &Value)| format!("{}: {}", Value::from(key.as_str()), python(value));
            format!("{{{}}}", map.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        // JSON's numbers and texts are Python's too.
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn alternatives_within_objects_are_spelt_out() {
        let accepted = json!({"a": [1, 2], "b": ["x", ""]});
        let want = [json!({"a":1,"b":"x"}), json!({"a":1}), json!({"a":2,"b":"x"}), json!({"a":2})];
        assert_eq!(alternatives(&accepted).unwrap(), want);
        assert_eq!(alternatives(&json!([{"a": [1, 2]}])).unwrap(), [json!([{"a":1}]), json!([{"a":2}])]);
        assert_eq!(alternatives(&json!(["a", "b"])).unwrap(), [json!(["a", "b"])]);
        let many: Map<String, Value> = (0..10).map(|key| (key.to_string(), json!([1, 2]))).collect();
        assert!(alternatives(&Value::Object(many)).is_err());
    }

    #[test]
    fn literals_are_pythons() {
        let value = json!({"a": [true, false, null, 1.5, "it's \"so\"\n"]});
        assert_eq!(python(&value), r#"{"a": [True, False, None, 1.5, "it's \"so\"\n"]}"#);
    }
}
