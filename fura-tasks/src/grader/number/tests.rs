use super::*;
use proptest::prelude::*;

fn grader(spec: &str, answer: &str) -> Number {
    Number::new(&serde_json::from_str(spec).unwrap(), answer).unwrap()
}

fn judge(spec: &str, answer: &str, output: &str) -> Label {
    grader(spec, answer).judge(output)
}

#[test]
fn equal_values_are_right_however_they_are_written() {
    for output in ["18", "18.", "18.00", "$18", "18 €", "+18", "0018", "= 18", "36/2", "(18)"] {
        assert_eq!(judge("{}", "18", output), Label::Right, "{output}");
    }
    for output in [".5", "0.5", "0.50", "1/2", "2/4", "It is 0.5."] {
        assert_eq!(judge("{}", "1/2", output), Label::Right, "{output}");
    }
    for output in ["-3", "\u{2212}3", "x = -3", "(-3)", "-6/2"] {
        assert_eq!(judge("{}", "-3", output), Label::Right, "{output}");
    }
}

#[test]
fn integers_compare_exactly() {
    assert_eq!(judge("{}", "2000", "1995"), Label::Wrong);
    assert_eq!(judge("{}", "5", "-5"), Label::Wrong);
    assert_eq!(judge("{}", "999999999999999999", "999999999999999998"), Label::Wrong);
}

#[test]
fn uncertain_numbers_are_never_right() {
    for output in [
        "1e3", "1km", "1st", "1%", "1^2", "1\u{b2}", "1\u{bd}", "1_0", "1/0", "1:00", "1,0", "1.0.0",
        "1,000", "\u{661}", "1\u{661}", "1/1/1", "1x",
    ] {
        assert_eq!(judge("{}", "1", output), Label::Unreadable, "{output}");
    }
    assert_eq!(judge("{}", "1", &"1".repeat(10_000)), Label::Unreadable);
}

#[test]
fn digits_in_words_are_no_numbers() {
    assert_eq!(judge("{}", "2", "x2 is 2"), Label::Right);
    assert_eq!(judge("{}", "2", "x2"), Label::NoNumber);
    assert_eq!(judge("{}", "2", "v1.2"), Label::NoNumber);
    assert_eq!(judge("{}", "2", "Answer:2"), Label::Right);
    assert_eq!(judge("{}", "2", " \n"), Label::Empty);
}

#[test]
fn the_only_number_or_the_last() {
    assert_eq!(judge("{}", "21", "3*7=21"), Label::ManyNumbers);
    assert_eq!(judge(r#"{"which":"last"}"#, "21", "3*7=21"), Label::Right);
    assert_eq!(judge(r#"{"which":"last"}"#, "3", "3 or 4"), Label::Wrong);
    assert_eq!(judge(r#"{"which":"first"}"#, "3", "3 or 4"), Label::Right);
    // An unreadable last number must not uncover an earlier right one.
    assert_eq!(judge(r#"{"which":"last"}"#, "3", "3, no: 3e5"), Label::Unreadable);
    assert_eq!(judge(r#"{"which":"last"}"#, "3", "8-3"), Label::Right);
    assert_eq!(judge(r#"{"which":"last"}"#, "-3", "8-3"), Label::Wrong);
}

#[test]
fn thousands_are_groups_of_three_and_only_on_request() {
    let on = r#"{"thousands":true}"#;
    for (output, want) in [
        ("1,234.", Label::Right),
        ("$1,234.00", Label::Right),
        ("1234", Label::Right),
        ("12,34", Label::Unreadable),
        ("1,2345", Label::Unreadable),
        ("1234,000", Label::Unreadable),
        ("0,001,234", Label::Unreadable),
        ("1 234", Label::ManyNumbers),
    ] {
        assert_eq!(judge(on, "1,234", output), want, "{output}");
    }
    assert_eq!(judge("{}", "1234", "1,234"), Label::Unreadable);
}

#[test]
fn percent_is_a_hundredth_and_only_on_request() {
    assert_eq!(judge(r#"{"percent":true}"#, "18%", "0.18"), Label::Right);
    assert_eq!(judge(r#"{"percent":true}"#, "0.18", "18 %"), Label::Wrong);
    assert_eq!(judge(r#"{"percent":true}"#, "0.18", "18%."), Label::Right);
    assert_eq!(judge(r#"{"percent":true}"#, "18", "18%"), Label::Wrong);
}

#[test]
fn groups_need_one_sign_and_the_decimal_sign_is_a_choice() {
    let thousands = r#"{"thousands":true}"#;
    for (output, want) in [
        ("1'234'567", Label::Right),
        ("1\u{202f}234\u{202f}567", Label::Right),
        ("1\u{a0}234\u{a0}567.0", Label::Right),
        ("1,234'567", Label::Unreadable),
        ("1.234.567", Label::Unreadable),
    ] {
        assert_eq!(judge(thousands, "1234567", output), want, "{output}");
    }
    let comma = r#"{"decimal_comma":true}"#;
    assert_eq!(judge(comma, "1,22", "1,220"), Label::Right);
    assert_eq!(judge(comma, "1,22", "1.22"), Label::Unreadable);
    let both = r#"{"decimal_comma":true,"thousands":true}"#;
    assert_eq!(judge(both, "1234,5", "1.234,50"), Label::Right);
    assert_eq!(judge(both, "1234,5", "1,234.5"), Label::Unreadable);
}

#[test]
fn units_multiply_and_only_where_they_are_listed() {
    let spec = r#"{"units":{"m":1,"km":1000,"cm":0.01,"m\u00b2":1,"\u20ac":1,"miles":1609.344}}"#;
    for (answer, output, want) in [
        ("1500 m", "1.5 km", Label::Right),
        ("1500", "1.5km", Label::Right),
        ("1500", "It is 150000 cm long.", Label::Right),
        ("1500", "1500", Label::Right),
        ("1500", "1.5", Label::Wrong),
        ("1500", "1.5 m", Label::Wrong),
        ("1500", "-1.5 km", Label::Wrong),
        ("-1500", "-1.5 km", Label::Right),
        ("1", "1 miles", Label::Wrong),
        ("1609.344", "1 miles", Label::Right),
        ("1", "1mm", Label::Unreadable),
        ("1", "1m/s", Label::Unreadable),
        ("18", "18 m\u{b2}", Label::Right),
        ("18", "18m\u{b2}", Label::Right),
        ("18", "\u{20ac}18", Label::Right),
        ("18", "\u{20ac} 18.00", Label::Right),
        ("18", "18\u{20ac}", Label::Right),
        ("3/2", "1500 km/1", Label::ManyNumbers),
    ] {
        assert_eq!(judge(spec, answer, output), want, "{answer} {output}");
    }
    assert_eq!(judge("{}", "18", "18km"), Label::Unreadable);
    for units in [r#"{"":1}"#, r#"{" m":1}"#, r#"{"m":0}"#, r#"{"m":-1}"#, r#"{"2":1}"#, r#"{"%":1}"#] {
        let spec: NumberSpec = serde_json::from_str(&format!(r#"{{"units":{units}}}"#)).unwrap();
        let got = Number::new(&spec, "1");
        assert!(matches!(got, Err(GraderError::BadOption { field: "units", .. })), "{units}");
    }
}

#[test]
fn tolerances_are_exact_at_their_border() {
    let abs = r#"{"abs":0.1}"#;
    assert_eq!(judge(abs, "0.3", "0.4"), Label::Right);
    assert_eq!(judge(abs, "0.3", "0.40000000000000001"), Label::Wrong);
    let rel = r#"{"rel":0.01}"#;
    assert_eq!(judge(rel, "-2000", "-1980"), Label::Right);
    assert_eq!(judge(rel, "-2000", "-1979.999999999"), Label::Wrong);
    assert_eq!(judge(rel, "0", "0.000001"), Label::Wrong);
    assert_eq!(judge(r#"{"abs":1,"rel":0.01}"#, "2000", "2020"), Label::Right);
}

#[test]
fn a_tolerance_that_is_no_size_is_an_error() {
    for bad in [-0.1, f64::NAN, f64::INFINITY, 1e-30] {
        let spec = NumberSpec { abs: Some(bad), ..NumberSpec::default() };
        let got = Number::new(&spec, "1");
        assert!(matches!(got, Err(GraderError::BadTolerance { field: "abs", .. })), "{got:?}");
    }
}

#[test]
fn an_answer_that_is_not_one_number_is_an_error() {
    for answer in ["", "one", "1 or 2", "1e3", "1,234"] {
        let got = Number::new(&NumberSpec::default(), answer);
        assert!(matches!(got, Err(GraderError::NotOneNumber { .. })), "{answer}");
    }
}

proptest! {
    #[test]
    fn every_integer_is_right_only_for_itself(a in -10_i64.pow(17)..10_i64.pow(17), b in -9i64..9) {
        let want = if b == 0 { Label::Right } else { Label::Wrong };
        prop_assert_eq!(judge("{}", &a.to_string(), &(a + b).to_string()), want);
    }

    #[test]
    fn any_output_gets_a_label(output in any::<String>()) {
        let last = judge(r#"{"which":"last","thousands":true,"percent":true}"#, "7", &output);
        let only = judge(r#"{"thousands":true,"percent":true}"#, "7", &output);
        prop_assert!(last == only || only == Label::ManyNumbers);
    }
}
