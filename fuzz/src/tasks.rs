//! Files of tasks, ours and those of others.

use fura_tasks::import::{self, Imported, OpenAiGrader};
use fura_tasks::{GraderSpec, Output, TaskFileError, TaskSet};

use super::parts;

/// Errors are one short line, whatever the file holds.
fn one_line(error: &TaskFileError) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 700, "{text}");
}

/// A task file: a task that is read can be written and read again, and its answer is right.
pub fn task_file(data: &[u8]) {
    if let Err(error) = Output::read("outputs.jsonl", data) {
        one_line(&error);
    }
    let set = match TaskSet::read("fuzz.jsonl", data) {
        Ok(set) => set,
        Err(error) => return one_line(&error),
    };
    for task in set.tasks() {
        let again = TaskSet::read("again.jsonl", task.to_line().as_bytes()).expect("what was written");
        assert_eq!(again.tasks(), std::slice::from_ref(task));
        assert_eq!(task.grade(&task.answer).value(), Some(1.0));
    }
}

/// Files of others, which the first byte chooses: what is imported passes its own test.
pub fn import(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let [rows, other] = parts(data);
    let imported: Result<Imported, TaskFileError> = match first % 4 {
        0 => import::gsm8k("f.jsonl", rows),
        1 => match serde_json::from_slice::<GraderSpec>(other) {
            Ok(grade) => import::columns("f.jsonl", rows, &grade),
            Err(_) => return,
        },
        2 => match serde_json::from_slice::<OpenAiGrader>(other) {
            Ok(grader) => import::openai("f.jsonl", rows, &grader),
            Err(_) => return,
        },
        _ => import::bfcl(("f.jsonl", rows), ("a.jsonl", other)),
    };
    match imported {
        Err(error) => one_line(&error),
        Ok(imported) => {
            for task in &imported.tasks {
                assert_eq!(task.grade(&task.answer).value(), Some(1.0));
            }
            for skipped in &imported.skipped {
                assert!(skipped.line > 0 && !skipped.why.is_empty());
            }
        }
    }
}
