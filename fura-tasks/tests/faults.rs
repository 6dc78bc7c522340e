//! Public faults of graders, one test each: what went wrong elsewhere, and the right behaviour.
//!
//! The names are those of the project's list of faults (R: training loops, M: graders).

use fura_tasks::{Grade, GraderSpec, Label, Task, TaskSet};

fn task(rest: &str) -> Task {
    let line = format!(r#"{{"id":"t","prompt":"Q:",{rest}}}"#);
    TaskSet::read("t.jsonl", line.as_bytes()).unwrap_or_else(|error| panic!("{error}")).tasks()[0].clone()
}

/// Grades outputs; the expectation is a label, and that only `right` earns anything.
fn expect(fault: &str, task: &Task, outputs: &[(&str, Label)]) {
    for (output, want) in outputs {
        let grade = task.grade(output);
        assert_eq!(grade.label(), *want, "{fault}: {output:?}");
        let score = if *want == Label::Right { 1.0 } else { 0.0 };
        assert_eq!(grade.value(), Some(score), "{fault}: {output:?}");
    }
}

#[test]
fn m1_powers_hang_and_other_digits_cheat() {
    let task = task(r#""answer":"4+4","grade":{"type":"expr","numbers":[4,4],"target":8}"#);
    expect(
        "M1",
        &task,
        &[
            ("4 + 4", Label::Right),
            ("9**9**9**9", Label::Malformed),
            ("4**4", Label::Malformed),
            ("4//4", Label::Malformed),
            ("4.4", Label::Malformed),
            ("\u{664}+4", Label::Malformed),
            ("\u{ff14}+\u{ff14}", Label::Malformed),
            ("__import__('os')", Label::Malformed),
            ("44", Label::WrongNumbers),
            ("4+4 = 8", Label::Malformed),
            ("4/(4-4)", Label::WrongNumbers),
        ],
    );
}

#[test]
fn m2_a_format_without_content_earns_nothing() {
    let sections = r#"{"type":"format","sections":[{"open":"<think>","close":"</think>"},{"open":"<answer>","close":"</answer>"}]}"#;
    let within = r#"{"type":"within","part":{"between":["<answer>","</answer>"]},"grade":{"type":"number"}}"#;
    let task = task(&format!(
        r#""answer":"<think>so</think><answer>2</answer>","grade":{{"type":"gate","when":{sections},"then":{within}}}"#
    ));
    expect(
        "M2",
        &task,
        &[
            ("</think>\n<answer>1</answer>", Label::BadFormat),
            ("</think>\n<answer>2</answer>", Label::BadFormat),
            ("<think></think>\n<answer>2</answer>", Label::BadLength),
            ("<think>so</think>\n<answer>1</answer>", Label::Wrong),
            ("<think>so</think>\n<answer>2</answer>", Label::Right),
        ],
    );
}

#[test]
fn m3_targets_are_whole_numbers() {
    for target in ["27.4", "266.67", "\"98\""] {
        let spec = format!(r#"{{"type":"expr","numbers":[44,19,35],"target":{target}}}"#);
        assert!(serde_json::from_str::<GraderSpec>(&spec).is_err(), "M3: {target}");
    }
    // A task whose target its own answer does not reach is refused, so that every task is solvable.
    let line = r#"{"id":"t","prompt":"Q:","answer":"44+19+35","grade":{"type":"expr","numbers":[44,19,35],"target":99}}"#;
    assert!(TaskSet::read("t.jsonl", line.as_bytes()).is_err());
}

#[test]
fn m4_a_right_number_is_right_however_it_is_written() {
    let grade =
        r#####"{"type":"within","part":{"after":"####"},"grade":{"type":"number","thousands":true}}"#####;
    let eighteen = task(&format!(r#""answer":"\u0023### 18","grade":{grade}"#));
    for output in ["#### 18", "#### 18.", "#### 18.00", "#### $18", "so\n####18"] {
        expect("M4", &eighteen, &[(output, Label::Right)]);
    }
    let thousand = task(&format!(r#""answer":"\u0023### 1234","grade":{grade}"#));
    expect(
        "M4",
        &thousand,
        &[("#### 1,234.", Label::Right), ("#### 1,23", Label::Unreadable), ("#### 123", Label::Wrong)],
    );
}

/// The number and percent rows that Math-Verify's tests name, by their form, with options written
/// out. Differences are deliberate and listed: a decimal comma and a thousands comma are never
/// both possible in one task, and `%` is a hundredth or unreadable.
#[test]
fn m7_locales_are_options() {
    let task = |answer: &str, options: &str| {
        task(&format!(r#""answer":"{answer}","grade":{{"type":"number"{options}}}"#))
    };
    let grouped = r#","thousands":true"#;
    let last = r#","thousands":true,"which":"last","units":{"m²":1,"$":1,"€":1}"#;
    let comma = r#","decimal_comma":true,"thousands":true"#;
    for (answer, options, output) in [
        ("-5", "", "-5"),
        ("7425000", grouped, "7,425,000"),
        ("1000", "", "1000.0"),
        ("1000.0", grouped, "1,000.0"),
        ("1000,99", comma, "1000,99"),
        ("1,22", comma, "1,22"),
        ("2,74", comma, "Soucis : 2,74 $ a.."),
        ("0.4", "", ".4"),
        ("1000.99", grouped, "1,000.99"),
        ("1000.99", grouped, "$1,000.99"),
        ("1000.99", grouped, "1,000.99$"),
        ("1000.99", last, "the number is not 10 which is 1,000.99€"),
        ("1000.99", last, "so the number is 10 which is 1,000.99m²"),
        ("1000.99", last, "not it's not 10 it's 1,000.99m²"),
        ("10/9", "", "10/9"),
        ("28%", r#","percent":true"#, "28%"),
        ("0.28", r#","percent":true"#, "28%"),
    ] {
        expect("M7", &task(answer, options), &[(output, Label::Right)]);
    }
    // Deliberate differences: ambiguous or unlisted notation is not guessed at.
    for (answer, options, output, label) in [
        ("1000", grouped, "1 000", Label::ManyNumbers),
        ("1000.99", grouped, "1000,99", Label::Unreadable),
        ("1.22", "", "1,22", Label::Unreadable),
        ("1.22", grouped, "1,22", Label::Unreadable),
        ("1000", "", "1,000", Label::Unreadable),
        ("1000", comma, "1,000", Label::Wrong),
        ("28", "", "28%", Label::Unreadable),
        ("2", "", "AZYUK2A", Label::NoNumber),
        ("1000.99", grouped, "1,000.99m²", Label::Unreadable),
        ("1/3", "", r"\frac13", Label::NoNumber),
    ] {
        expect("M7", &task(answer, options), &[(output, label)]);
    }
}

#[test]
fn m8_containing_the_answer_is_not_giving_it() {
    let task = task(r#""answer":"yes","grade":{"type":"exact","fold":"case_space"}"#);
    expect("M8", &task, &[("yes no", Label::Wrong), ("no yes", Label::Wrong), (" Yes\n", Label::Right)]);
    // Containment on request is binary.
    let contains =
        self::task(r#""answer":"yes","grade":{"type":"regex","pattern":"\\byes\\b","search":true}"#);
    expect("M8", &contains, &[("yes no", Label::Right), ("no", Label::Wrong)]);
}

#[test]
fn m9_integers_compare_exactly() {
    let task = task(r#""answer":"2000","grade":{"type":"number"}"#);
    expect("M9", &task, &[("1995", Label::Wrong), ("2000.000001", Label::Wrong), ("2000", Label::Right)]);
}

#[test]
fn m11_similar_is_not_equal() {
    let task = task(r#""answer":"See you at 19:00 tomorrow","grade":{"type":"exact","fold":"case_space"}"#);
    expect(
        "M11",
        &task,
        &[("See you at 18:00 tomorrow", Label::Wrong), ("see you  at 19:00 tomorrow", Label::Right)],
    );
    let state = self::task(
        r#""answer":"{\"to\":\"+1 555 0100\"}","grade":{"type":"state","want":[{"path":"/to","is":"+1 555 0100"}]}"#,
    );
    expect(
        "M11",
        &state,
        &[(r#"{"to":"+1 555 0101"}"#, Label::Wrong), (r#"{"to":"+1 555 0100"}"#, Label::Right)],
    );
}

#[test]
fn m12_arguments_are_typed_and_punctuation_counts() {
    for (argument, others) in [
        ("-5", &["5", "\"-5\"", "-5.1"][..]),
        ("1.5", &["15", "\"1.5\""]),
        ("\"-5\"", &["\"5\"", "-5"]),
        ("\"1.5\"", &["\"15\"", "\"1 5\"", "\"1,5\""]),
        ("\"a-b\"", &["\"ab\"", "\"a b\"", "\"a_b\"", "\"a/b\""]),
        ("[[1,2],[3]]", &["[[1,2],[\"3\"]]", "[[1,2],3]", "[[1,2,3]]"]),
        ("{\"a\":{\"b\":1}}", &["{\"a\":{\"b\":\"1\"}}", "{\"a\":{\"b\":true}}"]),
    ] {
        let call = |argument: &str| format!(r#"{{"name":"f","arguments":{{"x":{argument}}}}}"#);
        let answer = serde_json::to_string(&call(argument)).unwrap();
        let task = task(&format!(r#""answer":{answer},"grade":{{"type":"call","fold":"case_space"}}"#));
        expect("M12", &task, &[(&call(argument), Label::Right)]);
        for other in others {
            expect("M12", &task, &[(&call(other), Label::Wrong)]);
        }
    }
    let folded =
        task(r#""answer":"f(x='New York')","grade":{"type":"call","syntax":"python","fold":"case_space"}"#);
    expect("M12", &folded, &[("f(x=' new york ')", Label::Right), ("f(x='newyork')", Label::Wrong)]);
    let any = task(
        r#""answer":"f(x=1)","grade":{"type":"call","syntax":"python","parameters":{"properties":{"x":{"type":"integer"}}}}"#,
    );
    expect(
        "M12",
        &any,
        &[("f(x='1')", Label::WrongType), ("f(x=1.5)", Label::WrongType), ("f(x=1)", Label::Right)],
    );
}

#[test]
fn m14_a_gold_answer_that_its_grader_refuses_is_found() {
    for rest in [
        r#""answer":"17","grade":{"type":"expr","numbers":[8,9],"target":17}"#,
        r#""answer":"f(n='1')","grade":{"type":"call","syntax":"python","parameters":{"properties":{"n":{"type":"integer"}}}}"#,
        r#""answer":"18","good":["18 apples, 3 pears"],"grade":{"type":"number"}"#,
        r#""answer":"18","bad":["18.0"],"grade":{"type":"number"}"#,
    ] {
        let line = format!(r#"{{"id":"t","prompt":"Q:",{rest}}}"#);
        let why = TaskSet::read("t.jsonl", line.as_bytes()).unwrap_err().to_string();
        assert!(why.starts_with("t.jsonl: line 1") && !why.contains('\n'), "M14: {why}");
    }
}

#[test]
fn m15_json_is_found_by_brackets_that_know_strings() {
    let answer = serde_json::to_string(r#"{"a":1}"#).unwrap();
    let one = task(&format!(r#""answer":{answer},"grade":{{"type":"json"}}"#));
    expect(
        "M15",
        &one,
        &[
            (r#"text {"a":1} and } more"#, Label::Right),
            ("```json\n{\"a\":1}\n```\nor\n```json\n{\"a\":2}\n```", Label::Ambiguous),
            ("for example {\"a\":2}, so {\"a\":1}", Label::Ambiguous),
            ("{\"a\":1} {\"a\":1}", Label::Right),
            (r#"{"a":1"#, Label::Malformed),
            (r#"{"a":1,"a":1}"#, Label::Ambiguous),
            (r#"{"a":1,}"#, Label::Malformed),
            (r#"{'a':1}"#, Label::Absent),
        ],
    );
    let ticks = serde_json::to_string(r#"{"code":"```x```}"}"#).unwrap();
    let code = task(&format!(r#""answer":{ticks},"grade":{{"type":"json"}}"#));
    expect("M15", &code, &[("```json\n{\"code\": \"```x```}\"}\n```", Label::Right)]);
    for (which, want) in [("first", "{\"a\":1} {\"a\":2}"), ("last", "{\"a\":2} {\"a\":1}")] {
        let task = task(&format!(r#""answer":{answer},"grade":{{"type":"json","which":"{which}"}}"#));
        expect("M15", &task, &[(want, Label::Right)]);
    }
}

#[test]
fn m17_a_format_that_can_be_had_for_nothing_is_found() {
    let empty = r#"{"type":"format","sections":[{"open":"<think>","close":"</think>","min":0},{"open":"","close":""}]}"#;
    let spec: GraderSpec = serde_json::from_str(empty).unwrap();
    assert!(spec.build("<think></think>a", &[]).is_err(), "M17: an empty section is no demand");
    let format = task(
        r#""answer":"<think>because</think><a>1</a>","grade":{"type":"format","sections":[{"open":"<think>","close":"</think>"},{"open":"<a>","close":"</a>"}]}"#,
    );
    expect(
        "M17",
        &format,
        &[("<think></think>a", Label::BadLength), ("<think>b</think>a", Label::BadFormat)],
    );
    // The attacks know the marks, and find that form alone is paid for.
    assert!(fura_tasks::stress(&format).unwrap().is_broken());
}

#[test]
fn m18_graders_work_on_any_thread_and_have_no_clock() {
    let task = task(r#""answer":"1+2","grade":{"type":"expr","numbers":[1,2],"target":3}"#);
    let grader = task.grader().unwrap();
    let hostile = ["(".repeat(100_000), "9".repeat(100_000), "1+".repeat(100_000)];
    std::thread::scope(|scope| {
        for output in &hostile {
            let grader = &grader;
            scope.spawn(move || assert_eq!(grader.score(output), (0.0, Label::TooLong)));
        }
    });
}

#[test]
fn r6_what_is_no_number_stays_no_number() {
    assert_eq!(Grade::score(f64::NAN, Label::Right).value(), None);
    assert_eq!(Grade::score(f64::NAN, Label::Right).label(), Label::BadScore);
    assert_eq!(Grade::score(f64::INFINITY, Label::Right).value(), None);
    assert_eq!(Grade::Abstain { label: Label::NotApplicable }.value(), None);
}

#[test]
fn r8_more_of_the_answer_never_scores_lower() {
    // Each list goes from worse to better.
    for (rest, outputs) in [
        (r#""answer":"a,b,c","grade":{"type":"set","partial":true}"#, &["x", "x,a", "a", "a,b", "a,b,c"][..]),
        (
            r#""answer":"{\"a\":1,\"b\":{\"c\":2,\"d\":3}}","grade":{"type":"json","partial":true}"#,
            &["", "{}", r#"{"a":1}"#, r#"{"a":1,"b":{"c":2}}"#, r#"{"a":1,"b":{"c":2,"d":3}}"#],
        ),
        (
            r#""answer":"{\"a\":1,\"b\":2}","grade":{"type":"state","partial":true,"want":[{"path":"/a","is":1},{"path":"/b","is":2}]}"#,
            &["{}", r#"{"a":1}"#, r#"{"a":1,"b":2}"#],
        ),
        (
            r#""answer":"3*7+8","grade":{"type":"expr","numbers":[3,7,8],"target":29}"#,
            &["", "29", "3*7", "3+7+8", "3*7+8"],
        ),
        (r#""answer":"100","grade":{"type":"number","abs":5}"#, &["x", "90", "94.999", "95", "100"]),
    ] {
        let task = task(rest);
        let scores: Vec<f64> = outputs.iter().map(|output| task.grade(output).value().unwrap()).collect();
        assert!(scores.windows(2).all(|pair| pair[0] <= pair[1]), "R8: {rest}: {scores:?}");
        assert_eq!(scores.last(), Some(&1.0));
        assert!(scores[0] < 1.0);
    }
}
