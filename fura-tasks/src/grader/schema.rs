//! A subset of JSON Schema: the types of values.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::value::Value;

/// What a value may be, in a subset of [JSON Schema](https://json-schema.org): `type`,
/// `properties`, `required`, `additionalProperties` (a boolean), `items`, `enum`; `description` is
/// ignored, other keys are errors.
///
/// ```
/// use fura_tasks::grader::Schema;
/// let text = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
/// assert!(serde_json::from_str::<Schema>(text).is_ok());
/// assert!(serde_json::from_str::<Schema>(r#"{"pattern":"a"}"#).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Schema {
    /// The type; any when absent.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SchemaType>,
    /// The schemas of an object's members.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Schema>,
    /// The members that an object must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// Whether an object may have members that are not in `properties`; yes by default.
    #[serde(rename = "additionalProperties", default = "yes", skip_serializing_if = "is_yes")]
    pub additional_properties: bool,
    /// The schema of a list's items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// The values that are allowed; any when absent.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<serde_json::Value>>,
    /// For people; ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// The types of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SchemaType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction, however it is written: `1.0` is one.
    Integer,
    /// Any number.
    Number,
    /// A text.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

impl Default for Schema {
    /// The schema that allows every value.
    fn default() -> Self {
        Self {
            kind: None,
            properties: BTreeMap::new(),
            required: Vec::new(),
            additional_properties: true,
            items: None,
            values: None,
            description: None,
        }
    }
}

/// A schema, ready to check values.
#[derive(Debug, Clone)]
pub(super) struct Check {
    kind: Option<SchemaType>,
    properties: BTreeMap<String, Check>,
    required: Vec<String>,
    additional_properties: bool,
    items: Option<Box<Check>>,
    values: Option<BTreeSet<Value>>,
}

impl Check {
    pub(super) fn new(schema: &Schema) -> Self {
        let properties = schema.properties.iter().map(|(key, schema)| (key.clone(), Self::new(schema)));
        Self {
            kind: schema.kind,
            properties: properties.collect(),
            required: schema.required.clone(),
            additional_properties: schema.additional_properties,
            items: schema.items.as_ref().map(|items| Box::new(Self::new(items))),
            values: schema.values.as_ref().map(|values| values.iter().map(Value::from_json).collect()),
        }
    }

    /// Whether a value is what the schema allows.
    pub(super) fn allows(&self, value: &Value) -> bool {
        let of_kind = match self.kind {
            None => true,
            Some(SchemaType::Null) => *value == Value::Null,
            Some(SchemaType::Boolean) => matches!(value, Value::Bool(_)),
            Some(SchemaType::Integer) => matches!(value, Value::Number(number) if number.is_integer()),
            Some(SchemaType::Number) => matches!(value, Value::Number(_)),
            Some(SchemaType::String) => matches!(value, Value::Text(_)),
            Some(SchemaType::Array) => matches!(value, Value::List(_)),
            Some(SchemaType::Object) => matches!(value, Value::Object(_)),
        };
        of_kind
            && self.values.as_ref().is_none_or(|values| values.contains(value))
            && self.allows_within(value)
    }

    fn allows_within(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => {
                self.required.iter().all(|key| map.contains_key(key))
                    && map.iter().all(|(key, value)| match self.properties.get(key) {
                        Some(check) => check.allows(value),
                        None => self.additional_properties,
                    })
            }
            Value::List(list) => {
                self.items.as_ref().is_none_or(|items| list.iter().all(|item| items.allows(item)))
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::{Dialect, parse};
    use super::*;

    fn allows(schema: &str, value: &str) -> bool {
        let schema: Schema = serde_json::from_str(schema).unwrap();
        Check::new(&schema).allows(&parse(value, Dialect::Json).unwrap())
    }

    #[test]
    fn each_type_allows_its_values_only() {
        let values = ["null", "true", "1", "1.5", "\"1\"", "[1]", "{}"];
        for (kind, allowed) in [
            ("null", &[0][..]),
            ("boolean", &[1]),
            ("integer", &[2]),
            ("number", &[2, 3]),
            ("string", &[4]),
            ("array", &[5]),
            ("object", &[6]),
        ] {
            for (index, value) in values.iter().enumerate() {
                let got = allows(&format!(r#"{{"type":"{kind}"}}"#), value);
                assert_eq!(got, allowed.contains(&index), "{kind} {value}");
            }
        }
        assert!(values.iter().all(|value| allows("{}", value)));
    }

    #[test]
    fn members_items_and_enums() {
        let schema = r#"{"type":"object","required":["a"],"additionalProperties":false,
            "properties":{"a":{"type":"array","items":{"enum":[1,"x"]}},"b":{"type":"string"}}}"#;
        assert!(allows(schema, r#"{"a":[1,"x",1.0]}"#));
        assert!(allows(schema, r#"{"a":[],"b":""}"#));
        for value in
            [r#"{}"#, r#"{"a":[2]}"#, r#"{"a":["1"]}"#, r#"{"a":[],"b":1}"#, r#"{"a":[],"c":1}"#, "[]"]
        {
            assert!(!allows(schema, value), "{value}");
        }
        assert!(allows(r#"{"properties":{"a":{"type":"null"}}}"#, r#"{"b":1}"#));
    }

    #[test]
    fn other_keywords_are_errors_and_schemas_survive_a_round_trip() {
        for text in [
            r#"{"type":"dict"}"#,
            r#"{"minimum":1}"#,
            r#"{"additionalProperties":{}}"#,
            r#"{"type":["null"]}"#,
        ] {
            assert!(serde_json::from_str::<Schema>(text).is_err(), "{text}");
        }
        let text = r#"{"type":"object","properties":{"a":{"enum":[1]}},"required":["a"],"additionalProperties":false}"#;
        let schema: Schema = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&schema).unwrap(), text);
    }
}
