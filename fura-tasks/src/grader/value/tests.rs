use super::*;
use proptest::prelude::*;

fn json(text: &str) -> Result<Value, Label> {
    parse(text, Dialect::Json)
}

#[test]
fn numbers_are_equal_by_value_and_only_to_numbers() {
    for text in ["1", "1.0", "10e-1", "0.1E+1", "1.000", "100e-00002"] {
        assert_eq!(json(text), json("1"), "{text}");
    }
    assert_eq!(json("-0.0"), json("0"));
    assert_ne!(json("-1"), json("1"));
    assert_ne!(json("9007199254740993"), json("9007199254740992"));
    assert_ne!(json("1e400"), json("1e401"));
    for other in ["\"1\"", "true", "[1]", "null"] {
        assert_ne!(json(other), json("1"), "{other}");
    }
    assert_eq!(json("1e9999999999"), Err(Label::Unreadable));
}

#[test]
fn integers_are_numbers_without_a_fraction() {
    let integer = |text| match json(text) {
        Ok(Value::Number(number)) => number.is_integer(),
        other => panic!("{other:?}"),
    };
    assert!(integer("10") && integer("1.0") && integer("0.5e1") && integer("0.0") && integer("-3"));
    assert!(!integer("1.5") && !integer("1e-1") && !integer("0.50"));
}

#[test]
fn what_is_not_json_is_malformed() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{'a':1}",
        "{a:1}",
        "[1 2]",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "nan",
        "True",
        "\"\u{1}\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"",
        "1 2",
        "[,1]",
        "{\"a\" 1}",
        "\u{feff}1",
        "// c\n1",
        "\"\\u12g4\"",
        "-",
        "--1",
        "{1:2}",
    ] {
        assert_eq!(json(text), Err(Label::Malformed), "{text}");
    }
    assert_eq!(json(r#"{"a":1,"a":1}"#), Err(Label::Ambiguous));
    let deep = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json(&deep(DEEPEST)).is_ok());
    assert_eq!(json(&deep(DEEPEST + 1)), Err(Label::TooLong));
    assert_eq!(json(&"[".repeat(LONGEST)), Err(Label::TooLong));
    assert!(json(&"1".repeat(LONGEST)).is_ok());
    assert_eq!(json(&"1".repeat(LONGEST + 1)), Err(Label::TooLong));
}

#[test]
fn python_literals_are_read_as_python() {
    let python = |text| parse(text, Dialect::Python);
    let want = json(r#"{"a":[true,false,null,"it's"],"b":"x\"y"}"#);
    assert_eq!(python(r#"{'a': [True, False, None, 'it\'s',], "b": 'x"y',}"#), want);
    for text in ["true", "(1,)", "[,]", "{'a'}", "1_000", "0x10", "'a' 'b'"] {
        assert_eq!(python(text), Err(Label::Malformed), "{text}");
    }
}

#[test]
fn pointers_walk_objects_and_lists() {
    let value = json(r#"{"a":[{"b":7}],"0":1}"#).unwrap();
    let at = |path: &[&str]| value.at(&path.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()).cloned();
    assert_eq!(at(&["a", "0", "b"]), json("7").ok());
    assert_eq!(at(&["0"]), json("1").ok());
    for path in [&["a", "00"][..], &["a", "+0"], &["a", "1"], &["b"], &["a", "0", "b", "c"]] {
        assert_eq!(at(path), None, "{path:?}");
    }
}

/// Values as the JSON library, an independent implementation, has them.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_the_json_library_writes_is_read(value in any_json()) {
        let want = Value::from_json(&value);
        prop_assert_eq!(json(&value.to_string()), Ok(want.clone()));
        prop_assert_eq!(json(&serde_json::to_string_pretty(&value).unwrap()), Ok(want));
    }

    #[test]
    fn what_is_read_the_json_library_reads_too(text in "[\\[\\]{}\",:0-9eE.\\-truefalsn \\\\]{0,20}") {
        // The library has no numbers beyond an f64's range; here they have an exact value.
        match (json(&text), serde_json::from_str::<serde_json::Value>(&text)) {
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{}", text),
            (Err(label), Ok(_)) => prop_assert_eq!(label, Label::Ambiguous, "{}", text),
            _ => {}
        }
    }
}
