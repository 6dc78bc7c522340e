//! What graders read: outputs, answers, options, and the replies of other programs.

use fura_tasks::{
    AnyGrader, Environment, External, ExternalSpec, Grade, GraderSpec, Label, Request, Task, TaskSet,
};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

use super::parts;

/// A grader of every kind with an answer.
const SPECS: [(&str, &str); 18] = [
    (r#"{"type":"number","which":"last","thousands":true,"percent":true,"units":{"m":1,"\u20ac":2}}"#, "1"),
    (r#"{"type":"number","decimal_comma":true,"thousands":true,"rel":0.1}"#, "1"),
    (r#"{"type":"number"}"#, "0.5"),
    (r#"{"type":"expr","numbers":[3,7,8],"target":29}"#, ""),
    (r#"{"type":"regex","pattern":"(\\w+)[ ,]+(?u:(\\w+))","group":"1"}"#, "a b"),
    (r#"{"type":"regex","pattern":"(a*)*b|(\\w+ )*x","search":true}"#, "b"),
    (r#"{"type":"json","partial":true,"which":"last","extra":"ignore"}"#, "{\"a\":[1,{\"b\":null}]}"),
    (r#"{"type":"json","fold":"case"}"#, "{\"a\":\"B\",\"c\":1.5}"),
    (r#"{"type":"call"}"#, "{\"name\":\"f\",\"arguments\":{\"a\":1}}"),
    (r#"{"type":"call","syntax":"python"}"#, "f(a=1)"),
    (
        r#"{"type":"state","partial":true,"want":[{"path":"/a/0","is":1},{"path":"/a","adds":2}],"start":{"a":[1]}}"#,
        "",
    ),
    (r#"{"type":"set","partial":true}"#, "a,b"),
    (r#"{"type":"choice","of":["yes","no"],"fold":"case_space"}"#, "yes"),
    (r#"{"type":"exact","fold":"case_space"}"#, "Yes"),
    (r#"{"type":"format","sections":[{"open":"<a>","close":"</a>"}]}"#, ""),
    (r#"{"type":"length","unit":"words","min":1,"max":3}"#, ""),
    (r#"{"type":"within","part":"boxed","which":"last","grade":{"type":"number"}}"#, "\\boxed{1}"),
    (r#"{"type":"within","part":"last_line","grade":{"type":"exact"}}"#, "1"),
];

thread_local! {
    /// The graders of the list, made once.
    static GRADERS: Vec<(GraderSpec, AnyGrader)> = SPECS
        .iter()
        .map(|(spec, answer)| {
            let spec: GraderSpec = serde_json::from_str(spec).expect("a grader of the list");
            let grader = spec.build(answer, &[]).expect("a grader of the list");
            (spec, grader)
        })
        .collect();
}

/// Kinds that take what they compare with from the answer, as from any output.
const KINDS_WITH_AN_ANSWER: [&str; 6] = ["number", "json", "call", "set", "exact", "within"];

/// A grader. The first byte chooses one with its answer and the others are an output; or they are an answer and an output;
/// or options, an answer and an output (zero bytes between).
pub fn grader(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy;
    let kind = usize::from(first & 63) % SPECS.len();
    match first >> 6 {
        0 | 1 => GRADERS.with(|graders| judge(&graders[kind].1, &text(data))),
        2 => {
            let [answer, output] = parts(data);
            let answer = text(answer);
            GRADERS.with(|graders| {
                let spec = &graders[kind].0;
                let Ok(grader) = spec.build(&answer, &[]) else { return };
                if KINDS_WITH_AN_ANSWER.contains(&spec.kind()) {
                    assert_eq!(grader.score(&answer), (1.0, Label::Right), "{} {answer:?}", spec.kind());
                }
                judge(&grader, &text(output));
            });
        }
        _ => {
            let [spec, answer, output] = parts(data);
            let Ok(spec) = serde_json::from_slice::<GraderSpec>(spec) else { return };
            let Ok(grader) = spec.build(&text(answer), &[]) else { return };
            judge(&grader, &text(output));
        }
    }
}

/// A score is in [0, 1], 1 if and only if it is right, and the same again.
fn judge(grader: &AnyGrader, output: &str) {
    let (score, label) = grader.score(output);
    assert!((0.0..=1.0).contains(&score), "{score} {label}");
    assert_eq!(score == 1.0, label == Label::Right, "{score} {label}");
    assert_eq!(grader.score(output), (score, label));
}

/// A file that a program of the system writes as its reply.
struct Reply {
    file: NamedTempFile,
    task: Task,
}

impl Reply {
    fn new() -> Self {
        let shared = Path::new("/dev/shm");
        let file = if shared.is_dir() { NamedTempFile::new_in(shared) } else { NamedTempFile::new() };
        let line = r#"{"id":"t","prompt":"Sky:","answer":"blue","grade":{"type":"exact"}}"#;
        let set = TaskSet::read("t.jsonl", line.as_bytes()).expect("a task");
        Self { file: file.expect("a temporary file"), task: set.tasks()[0].clone() }
    }

    /// The program: after the reply it says what it is told, which is no reply, so that nothing waits for more. It is not
    /// started again.
    fn spec(&self, reply: &[u8]) -> ExternalSpec {
        std::fs::write(self.file.path(), reply).expect("writing the reply");
        let path = PathBuf::from(self.file.path()).display().to_string();
        let mut spec = ExternalSpec::new(vec!["cat".to_owned(), path, "-".to_owned()]);
        spec.restarts = 0;
        spec
    }
}

thread_local! {
    static REPLY: Reply = Reply::new();
}

/// The replies of an external grader, or those of an external environment: the first byte chooses.
pub fn external(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    REPLY.with(|reply| {
        let spec = reply.spec(data);
        if first % 2 == 0 {
            let request = Request { task: &reply.task, output: "blue" };
            let grade = || External::start(&spec).expect("a command of the system").grade(&[request; 2]);
            let grades = grade();
            assert_eq!(grades.len(), 2);
            grades.iter().for_each(sound);
            assert_eq!(grade(), grades);
        } else {
            let mut environment = Environment::start(&spec).expect("a command of the system");
            if environment.reset(&reply.task, 7).is_ok() {
                let _ = environment.act("open Clock");
            }
            sound(&environment.end());
        }
    });
}

/// A grade is a score in [0, 1], an abstention, or a fault that says in one line what happened.
fn sound(grade: &Grade) {
    match grade {
        Grade::Score { score, .. } => assert!((0.0..=1.0).contains(score), "{score}"),
        Grade::Abstain { .. } => {}
        Grade::Fault { why, .. } => assert!(!why.contains('\n') && why.len() < 1000, "{why}"),
    }
}
