//! Importers, on small samples of the public files in `tests/data` (see its README).

use fura_tasks::{GraderSpec, TaskSet, import};

fn data(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Imported tasks as a task file, read back.
fn read_back(imported: &import::Imported) {
    let lines: Vec<String> = imported.tasks.iter().map(fura_tasks::Task::to_line).collect();
    let set = TaskSet::read("imported.jsonl", lines.join("\n").as_bytes()).unwrap();
    assert_eq!(set.tasks(), imported.tasks);
}

#[test]
fn gsm8k_rows_are_tasks_whose_worked_answers_are_right() {
    let imported = import::gsm8k("gsm8k.jsonl", &data("gsm8k.jsonl")[..]).unwrap();
    assert_eq!((imported.tasks.len(), imported.skipped.len()), (20, 0));
    read_back(&imported);
    let task = &imported.tasks[0];
    assert!(task.prompt.starts_with("Question: Janet") && task.prompt.ends_with("\nAnswer:"));
    assert_eq!((task.answer.as_str(), &task.stop[..]), ("#### 18", &["\nQuestion:".to_owned()][..]));
    for (output, want) in [
        ("16 - 3 - 4 = 9, 9 * 2 = 18\n#### 18", 1.0),
        ("#### 18.", 1.0),
        ("#### $18.00", 1.0),
        ("18", 0.0),
        ("#### 17", 0.0),
        ("#### 17 #### 18", 0.0),
        ("#### 17 18 19", 0.0),
    ] {
        assert_eq!(task.grade(output).value(), Some(want), "{output}");
    }
}

#[test]
fn bfcl_rows_are_single_calls() {
    for (name, count) in [("simple_python", 10), ("multiple", 6)] {
        let (questions, answers) =
            (data(&format!("bfcl_{name}.jsonl")), data(&format!("bfcl_{name}_answers.jsonl")));
        let imported = import::bfcl(("q.jsonl", &questions[..]), ("a.jsonl", &answers[..])).unwrap();
        assert_eq!((imported.tasks.len(), imported.skipped.len()), (count, 0), "{:?}", imported.skipped);
        read_back(&imported);
    }
    let (questions, answers) = (data("bfcl_simple_python.jsonl"), data("bfcl_simple_python_answers.jsonl"));
    let imported = import::bfcl(("q.jsonl", &questions[..]), ("a.jsonl", &answers[..])).unwrap();
    let triangle = &imported.tasks[0];
    assert_eq!(triangle.answer, "calculate_triangle_area(base=10, height=5, unit=\"units\")");
    for (output, want) in [
        ("calculate_triangle_area(base=10, height=5)", 1.0),
        ("calculate_triangle_area(height=5.0, base=10, unit='units')", 1.0),
        ("calculate_triangle_area(base=10, height=5, unit='cm')", 0.0),
        ("calculate_triangle_area(base=-10, height=5)", 0.0),
        ("calculate_triangle_area(base='10', height=5)", 0.0),
        ("calculate_triangle_area(10, 5)", 0.0),
        ("triangle_area(base=10, height=5)", 0.0),
    ] {
        assert_eq!(triangle.grade(output).value(), Some(want), "{output}");
    }
}

#[test]
fn bfcl_rows_without_an_answer_or_with_a_wrong_one_are_left_out() {
    let function =
        r#"{"name":"f","parameters":{"type":"dict","properties":{"n":{"type":"integer"}},"required":["n"]}}"#;
    let question = |id: &str| {
        format!(r#"{{"id":"{id}","question":[[{{"role":"user","content":"Q"}}]],"function":[{function}]}}"#)
    };
    let answer = |id: &str, truth: &str| format!(r#"{{"id":"{id}","ground_truth":{truth}}}"#);
    let questions = ["right", "none", "text", "lacks", "two", "other"].map(question).join("\n");
    let answers = [
        answer("right", r#"[{"f":{"n":[1]}}]"#),
        answer("text", r#"[{"f":{"n":["1"]}}]"#),
        answer("lacks", r#"[{"f":{"n":[""]}}]"#),
        answer("two", r#"[{"f":{"n":[1]}},{"f":{"n":[1]}}]"#),
        answer("other", r#"[{"g":{"n":[1]}}]"#),
    ]
    .join("\n");
    let imported = import::bfcl(("q.jsonl", questions.as_bytes()), ("a.jsonl", answers.as_bytes())).unwrap();
    assert_eq!(imported.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["right"]);
    let whys: Vec<&str> = imported.skipped.iter().map(|skipped| skipped.why.as_str()).collect();
    for (why, part) in
        whys.iter().zip(["no answer", "wrong_type", "wrong_type", "one right call", "not listed"])
    {
        assert!(why.contains(part), "{why}: {part}");
    }
    assert_eq!(whys.len(), 5);
}

#[test]
fn columns_have_the_names_of_trl_and_verifiers() {
    let grade: GraderSpec = serde_json::from_str(r#"{"type":"exact","fold":"case"}"#).unwrap();
    let rows = [
        r#"{"prompt":"Sky?","answer":"blue"}"#,
        r#"{"prompt":[{"role":"system","content":"S"},{"role":"user","content":"Sky?"}],"solution":"Blue"}"#,
        r#"{"question":"Sky?","answer":"blue","info":{"a":1},"id":"named"}"#,
        r#"{"messages":[{"role":"user","content":"2+2?"}],"ground_truth":4,"answer":null,"id":7}"#,
        r#"{"prompt":"Sky?"}"#,
        r#"{"answer":"blue"}"#,
        r#"{"prompt":[{"role":"user","content":"U"},{"role":"assistant","content":"A"}],"answer":"x"}"#,
        r#"{"prompt":{"a":1},"answer":"x"}"#,
    ];
    let imported = import::columns("rows.jsonl", rows.join("\n").as_bytes(), &grade).unwrap();
    read_back(&imported);
    let ids: Vec<&str> = imported.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["row-1", "row-2", "named", "7"]);
    assert_eq!(imported.tasks[1].messages.len(), 2);
    assert_eq!(imported.tasks[2].meta["info"]["a"], 1);
    assert_eq!(imported.tasks[3].answer, "4");
    assert_eq!(imported.skipped.iter().map(|skipped| skipped.line).collect::<Vec<_>>(), [5, 6, 7, 8]);
}

#[test]
fn a_file_of_another_format_is_an_error() {
    for bytes in [&b"question,answer\n"[..], b"", b"[]", b"{\"question\":\xff}"] {
        let error = import::gsm8k("g.jsonl", bytes).unwrap_err().to_string();
        assert!(error.starts_with("g.jsonl: ") && !error.contains('\n'), "{error}");
    }
}
