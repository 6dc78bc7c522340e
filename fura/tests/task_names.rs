//! Names of generated tasks, as the command takes them.

use std::process::Command;

fn error_of(tasks: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_fura"))
        .current_dir(folder.path())
        .args(["--cache", ".", "eval", "no-model.gguf", "--tasks", tasks])
        .output()
        .unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    error
}

#[test]
fn a_bad_name_is_refused_with_the_forms_of_good_ones() {
    for (tasks, form) in [
        ("habits:x", "habits:SEED"),
        ("phone:1/5", "phone:SEED/LEVEL"),
        ("countdown:1/5", "countdown:SEED/N"),
        ("calls:1/2", "calls:SEED"),
        ("extract:", "extract:SEED"),
    ] {
        let error = error_of(tasks);
        assert!(error.contains("--tasks") && error.contains(form) && error.contains(tasks), "{error}");
    }
}

#[test]
fn a_good_name_is_no_file() {
    for tasks in
        ["habits:1", "phone:1/2", "phone:1/4", "countdown:1", "countdown:1/4", "calls:1", "extract:1"]
    {
        // Only the model is missing.
        assert!(error_of(tasks).contains("no-model.gguf"), "{tasks}");
    }
    assert!(error_of("extract.jsonl").contains("extract.jsonl"));
}
