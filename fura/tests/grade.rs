//! `fura grade`, as a process; no model is needed.

use serde_json::Value;
use std::process::{Command, Output};

const TASKS: &str = concat!(
    r#"{"id":"a","prompt":"2 + 2 =","answer":"4","grade":{"type":"number"},"bad":["5"]}"#,
    "\n",
    r#"{"id":"b","prompt":"Sky:","answer":"blue","grade":{"type":"exact"},"split":"heldout","good":["blue"]}"#,
    "\n",
);

fn run(folder: &tempfile::TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fura")).current_dir(folder.path()).args(arguments).output().unwrap()
}

fn json(folder: &tempfile::TempDir, arguments: &[&str]) -> Vec<Value> {
    let out = run(folder, &[&["--json"], arguments].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused(folder: &tempfile::TempDir, arguments: &[&str]) -> String {
    let out = run(folder, arguments);
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    error
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn check_counts_and_refuses_a_wrong_gold() {
    let folder =
        folder(&[("t.jsonl", TASKS), ("bad.jsonl", &TASKS.replace(r#""bad":["5"]"#, r#""bad":["4.0"]"#))]);
    let report = json(&folder, &["grade", "check", "t.jsonl"]);
    assert_eq!(report[0]["tasks"], 2);
    assert_eq!(report[0]["splits"]["heldout"], 1);
    assert_eq!(
        (&report[0]["graders"]["number"], &report[0]["good"], &report[0]["bad"]),
        (&1.into(), &1.into(), &1.into())
    );
    assert!(refused(&folder, &["grade", "check", "bad.jsonl"]).contains("line 1"));
}

#[test]
fn stress_fails_where_an_attack_earns_everything() {
    let loose = r#"{"id":"a","prompt":"P","answer":"4","grade":{"type":"length","max":9}}"#;
    let folder = folder(&[("t.jsonl", TASKS), ("loose.jsonl", loose)]);
    assert_eq!(json(&folder, &["grade", "stress", "t.jsonl"]).last().unwrap()["broken"], 0);
    assert!(refused(&folder, &["grade", "stress", "loose.jsonl"]).contains("1 of 1 graders"));
}

#[test]
fn outputs_are_graded_by_tasks_or_by_another_program() {
    let outputs = "{\"id\":\"a\",\"output\":\"4.0\"}\n{\"id\":\"b\",\"output\":\"red\"}\n";
    let folder =
        folder(&[("t.jsonl", TASKS), ("o.jsonl", outputs), ("x.jsonl", "{\"id\":\"c\",\"output\":\"\"}")]);
    let lines = json(&folder, &["grade", "run", "t.jsonl", "o.jsonl"]);
    assert_eq!((&lines[0]["grade"]["score"], &lines[1]["grade"]["label"]), (&1.0.into(), &"wrong".into()));
    assert_eq!((&lines[2]["mean"], &lines[2]["scores"]), (&0.5.into(), &2.into()));
    assert!(refused(&folder, &["grade", "run", "t.jsonl", "x.jsonl"]).contains("\"c\""));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../fura-tasks/examples/grader.py");
    if Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success()) {
        let limits: &[&str] =
            if cfg!(target_os = "linux") { &["--memory", "1G", "--cpu-seconds", "60"] } else { &[] };
        let external = ["grade", "run", "t.jsonl", "o.jsonl"].iter().chain(limits);
        let external: Vec<&str> = external.copied().chain(["--", "python3", example]).collect();
        let lines = json(&folder, &external);
        assert_eq!(
            (&lines.last().unwrap()["scores"], &lines.last().unwrap()["faults"]),
            (&2.into(), &0.into())
        );
    }
    // A command that ends at once has graded nothing: two faults, and no mean.
    let lines = json(&folder, &["grade", "run", "t.jsonl", "o.jsonl", "--", "true"]);
    let summary = lines.last().unwrap();
    assert_eq!(
        (&summary["faults"], &summary["mean"], &summary["labels"]["crashed"]),
        (&2.into(), &Value::Null, &2.into())
    );
}

#[test]
fn imports_write_task_files_that_pass_their_test() {
    let rows = "{\"question\":\"Two and two?\",\"answer\":\"2+2=4\\n#### 4\"}\n{\"question\":\"?\",\"answer\":\"none\"}\n";
    let folder = folder(&[("g.jsonl", rows)]);
    let report = json(&folder, &["grade", "import", "gsm8k", "g.jsonl", "--out", "t.jsonl"]);
    assert_eq!((&report[0]["tasks"], &report[0]["skipped"]), (&1.into(), &1.into()));
    assert_eq!(json(&folder, &["grade", "check", "t.jsonl"])[0]["good"], 1);
    // The files for training and for measuring, put together.
    json(&folder, &["grade", "import", "gsm8k", "g.jsonl", "--split", "heldout", "--out", "h.jsonl"]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    std::fs::write(folder.path().join("both.jsonl"), read("t.jsonl") + &read("h.jsonl")).unwrap();
    let report = &json(&folder, &["grade", "check", "both.jsonl"])[0];
    assert_eq!((&report["splits"]["train"], &report["splits"]["heldout"]), (&1.into(), &1.into()));
    let columns = ["grade", "import", "columns", "g.jsonl", "--out", "u.jsonl"];
    assert!(run(&folder, &columns).status.code() == Some(2));
    assert!(!folder.path().join("u.jsonl").exists());
}
