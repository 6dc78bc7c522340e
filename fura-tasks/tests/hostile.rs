//! Hostile outputs against every grader: up to a megabyte, no panic, a score in [0, 1].
//!
//! Work is bounded by limits that the unit tests of the graders assert. What that is in time is
//! printed, not asserted:
//! `cargo test --release -p fura-tasks --test hostile -- --nocapture`.

use fura_tasks::grader::OUTPUT_LIMIT;
use fura_tasks::{AnyGrader, GraderSpec, Label};
use std::time::{Duration, Instant};

/// The processor time of this thread where Linux tells it, which other programs do not lengthen;
/// elsewhere the time since `begin`.
fn now(begin: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

/// Graders of every kind, with an answer that each finds right.
fn graders() -> Vec<(&'static str, AnyGrader, String)> {
    let alternatives = (0..200).map(|i| format!("{{\"a\":{i}}}")).collect::<Vec<_>>().join(",");
    let eight = (0..7).map(|_| r#"{"type":"exact","fold":"case_space"}"#).collect::<Vec<_>>().join(",");
    let wants =
        (0..64).map(|i| format!(r#"{{"path":"/a","lacks":{{"b":{i}}}}}"#)).collect::<Vec<_>>().join(",");
    [
        ("exact", r#"{"type":"exact","fold":"case_space"}"#.to_owned(), "yes"),
        ("choice", r#"{"type":"choice","of":["yes","no"],"fold":"case_space"}"#.to_owned(), "yes"),
        ("set", r#"{"type":"set","fold":"case_space","partial":true}"#.to_owned(), "a,b,c"),
        ("regex", r#"{"type":"regex","pattern":"(a*)*b|(\\w+ )*x"}"#.to_owned(), "b"),
        (
            "regex group",
            r#"{"type":"regex","pattern":"(?:.*a){1,9}([0-9]{1,40})","group":"1"}"#.to_owned(),
            "a1",
        ),
        (
            "regex large",
            r#"{"type":"regex","pattern":"(?:[a-z]{1,30} ?){1,30}b","search":true}"#.to_owned(),
            "ab",
        ),
        (
            "number",
            r#"{"type":"number","which":"last","thousands":true,"percent":true,"units":{"m":1,"km":1000}}"#
                .to_owned(),
            "1 km",
        ),
        ("expr", r#"{"type":"expr","numbers":[1,2],"target":3}"#.to_owned(), "1+2"),
        (
            "json",
            format!(r#"{{"type":"json","partial":true,"schema":{{"items":{{"enum":[1,{alternatives}]}}}}}}"#),
            "[1,1]",
        ),
        (
            "json object",
            r#"{"type":"json","which":"last","extra":"ignore","fold":"case"}"#.to_owned(),
            r#"{"a":{}}"#,
        ),
        ("call", r#"{"type":"call"}"#.to_owned(), r#"{"name":"f","arguments":{"a":1}}"#),
        ("call python", r#"{"type":"call","syntax":"python"}"#.to_owned(), "f(a=1)"),
        (
            "state",
            format!(
                r#"{{"type":"state","partial":true,"want":[{wants}],"start":{{"a":[]}},"allow":["/b/c"]}}"#
            ),
            r#"{"a":[]}"#,
        ),
        (
            "format",
            r#"{"type":"format","sections":[{"open":"<a>","close":"</a>"},{"open":"<b>","close":"</b>"}]}"#
                .to_owned(),
            "<a>1</a><b>2</b>",
        ),
        ("length", r#"{"type":"length","unit":"words","max":3}"#.to_owned(), "a b"),
        (
            "within",
            r#"{"type":"within","part":"boxed","which":"last","grade":{"type":"number"}}"#.to_owned(),
            r"\boxed{1}",
        ),
        ("eight", format!(r#"{{"type":"all","of":[{eight}]}}"#), "yes"),
    ]
    .into_iter()
    .map(|(name, spec, answer)| {
        let spec: GraderSpec = serde_json::from_str(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        let grader = spec.build(answer, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, grader, answer.to_owned())
    })
    .collect()
}

fn outputs(length: usize, answer: &str) -> Vec<String> {
    let units = [
        "a",
        "9",
        "1,",
        "(",
        "[",
        "[[1,",
        "{\"a\":",
        "{\"a\":1},",
        "{\"",
        "[\"",
        "\"",
        "\\",
        "1+",
        "-",
        " ",
        "\n",
        ".",
        "a ",
        "\u{661}",
        "\u{130}",
        "\u{1f600}",
        "\\boxed{",
        "}",
        "<a>",
        "</a>",
        "<a>1</a>",
        "a,b,",
        "f(a=",
        "1 km ",
        "1'",
        "%",
        "1e9,",
        "/1",
        "{\"a\":[{\"b\":1}],\"b\":",
        "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,",
    ];
    let mut out: Vec<String> = units.iter().map(|unit| unit.repeat(length / unit.len())).collect();
    let many = "1,".repeat(length / 2 - 20);
    out.push(format!("[{many}1]"));
    let objects = "{\"b\":1},".repeat(length / 8 - 20);
    out.push(format!("{{\"a\":[{objects}{{}}]}}"));
    // Many brackets, each of which could begin a long value.
    out.push(format!("{}{many}", "[".repeat(40)));
    out.push(format!("{}{}", "a".repeat(length - answer.len()), answer));
    out
}

#[test]
fn no_output_panics_or_earns_by_its_size() {
    let start = Instant::now();
    for (name, grader, answer) in graders() {
        assert_eq!(grader.score(&answer), (1.0, Label::Right), "{name}");
        let mut slowest = (Duration::ZERO, String::new());
        for length in [1 << 20, OUTPUT_LIMIT, 1 << 16, 1 << 13] {
            for output in outputs(length, &answer) {
                let from = now(start);
                let (score, label) = grader.score(&output);
                let time = now(start).saturating_sub(from);
                assert!((0.0..=1.0).contains(&score), "{name}: {score}");
                assert_eq!(score == 1.0, label == Label::Right, "{name}: {score} {label}");
                if output.len() > OUTPUT_LIMIT {
                    assert_eq!((score, label), (0.0, Label::TooLong), "{name}");
                }
                if time > slowest.0 {
                    slowest = (time, output);
                }
            }
        }
        let (time, output) = slowest;
        let begin: String = output.chars().take(20).collect();
        let (time, length) = (time.as_secs_f64() * 1e3, output.len());
        println!("{name:12} {time:8.3} ms for {length} bytes of {begin:?}");
    }
}
