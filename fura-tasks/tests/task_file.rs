//! Task files: what is read, and one test for each way to be wrong.

use fura_tasks::{Grade, LINE_LIMIT, Label, Split, TaskFileError, TaskSet, TaskSource};
use proptest::prelude::*;

const HEADER: &str = r#"{"fura_tasks":1,"defaults":{"grade":{"type":"exact"},"max_tokens":3}}"#;

fn task(id: &str, extra: &str) -> String {
    format!(r#"{{"id":"{id}","prompt":"Q:","answer":"yes"{extra}}}"#)
}

fn read(text: impl AsRef<[u8]>) -> Result<TaskSet, TaskFileError> {
    TaskSet::read("t.jsonl", text.as_ref())
}

/// The error of a header followed by one task with `extra` keys.
fn refused(extra: &str) -> String {
    message(format!("{HEADER}\n{}\n", task("a", extra)))
}

fn message(text: impl AsRef<[u8]>) -> String {
    let message = read(text).unwrap_err().to_string();
    assert!(message.starts_with("t.jsonl: "), "{message}");
    assert!(message.len() < 500 && !message.contains('\n'), "{message}");
    message
}

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn every_key_is_read() {
    let extra = r#","grade":{"type":"choice","fold":"space"},"choices":["yes","no"],"max_tokens":9,"stop":["\n"],"split":"phrasings","good":[" yes"],"bad":["no","?"],"tags":["x"]"#;
    let set = read(task("a", extra)).unwrap();
    let t = &set.tasks()[0];
    assert_eq!((t.id.as_str(), t.prompt.as_str(), t.answer.as_str()), ("a", "Q:", "yes"));
    assert_eq!((t.max_tokens, t.split), (9, Split::Phrasings));
    assert_eq!((&t.stop[..], &t.tags[..]), (&["\n".to_owned()][..], &["x".to_owned()][..]));
    assert_eq!(t.rewards().unwrap(), [1.0, 0.0]);
    assert_eq!(t.grade("maybe"), Grade::score(0.0, Label::NotLegal));
}

#[test]
fn defaults_fill_what_a_line_leaves_out() {
    let text = format!("\n{HEADER}\r\n\r\n{}\n  \n{}", task("a", ""), task("b", r#","max_tokens":5"#));
    let set = read(text).unwrap();
    assert_eq!(set.tasks().iter().map(|t| t.max_tokens).collect::<Vec<_>>(), [3, 5]);
    let set = read(task("a", r#","grade":{"type":"exact"}"#)).unwrap();
    assert_eq!((set.tasks()[0].max_tokens, set.tasks()[0].split), (16, Split::Train));
}

#[test]
fn the_description_identifies_the_bytes() {
    let one = read(format!("{HEADER}\n{}\n", task("a", ""))).unwrap();
    let same = read(format!("{HEADER}\n{}\n", task("a", ""))).unwrap();
    let other = read(format!("{HEADER}\n{}\n\n", task("a", ""))).unwrap();
    assert_eq!(one, same);
    assert_ne!(one.describe(), other.describe());
    assert_eq!(one.describe().len(), "t.jsonl blake3:".len() + 64);
}

#[test]
fn unknown_key() {
    assert_says(&refused(r#","weight":1"#), &["line 2", "field `weight`", "unknown field"]);
}

#[test]
fn unknown_key_of_the_grader() {
    let m = refused(r#","grade":{"type":"exact","folds":"case"}"#);
    assert_says(&m, &["line 2", "field `grade`", "unknown field `folds`"]);
}

#[test]
fn unknown_key_of_the_header() {
    let m = message(r#"{"fura_tasks":1,"default":{}}"#);
    assert_says(&m, &["line 1", "field `default`"]);
}

#[test]
fn unknown_version() {
    assert_says(&message(r#"{"fura_tasks":2}"#), &["line 1", "field `fura_tasks`", "expected 1"]);
}

#[test]
fn header_after_a_task() {
    let m = message(format!("{}\n{HEADER}", task("a", r#","grade":{"type":"exact"}"#)));
    assert_says(&m, &["line 2", "field `fura_tasks`"]);
}

#[test]
fn wrong_type_names_field_and_byte() {
    let line = task("a", r#","max_tokens":"x""#);
    let byte = line.len() - 1;
    let m = message(format!("{HEADER}\n{line}"));
    assert_says(&m, &[&format!("line 2, byte {byte}, field `max_tokens`: "), "expected u32"]);
}

#[test]
fn missing_key() {
    let m = message(format!("{HEADER}\n{}", r#"{"id":"a","prompt":"Q:"}"#));
    assert_says(&m, &["line 2", "missing field `answer`"]);
}

#[test]
fn missing_grader() {
    assert_says(&message(task("a", "")), &["line 1", "field `grade`", "missing"]);
}

#[test]
fn repeated_key() {
    assert_says(&refused(r#","id":"b""#), &["line 2", "field `id`", "duplicate field"]);
}

#[test]
fn repeated_id() {
    let m = message(format!("{HEADER}\n{}\n\n{}", task("a", ""), task("a", "")));
    assert_says(&m, &["line 4", "field `id`", "line 2"]);
}

#[test]
fn empty_id_or_prompt() {
    assert_says(&message(format!("{HEADER}\n{}", task(" ", ""))), &["field `id`", "empty"]);
    let m = message(format!("{HEADER}\n{}", r#"{"id":"a","prompt":"","answer":"b"}"#));
    assert_says(&m, &["field `prompt`", "empty"]);
}

#[test]
fn a_conversation_instead_of_a_prompt() {
    let line = |messages: &str, extra: &str| {
        format!(r#"{{"id":"a","messages":[{messages}],"answer":"yes","grade":{{"type":"exact"}}{extra}}}"#)
    };
    let (system, user) = (r#"{"role":"system","content":"S"}"#, r#"{"role":"user","content":"U"}"#);
    let assistant = r#"{"role":"assistant","content":"A"}"#;
    for turns in [&[user][..], &[system, user], &[system, user, assistant, user]] {
        let set = read(line(&turns.join(","), r#","meta":{"from":[1,null]}"#)).unwrap();
        let task = &set.tasks()[0];
        assert_eq!((task.messages.len(), task.prompt.as_str(), task.meta.len()), (turns.len(), "", 1));
        assert_eq!(read(task.to_line()).unwrap().tasks(), set.tasks());
    }
    for (turns, why) in [
        (&[][..], "field `prompt`: empty"),
        (&[system], "not the `user`'s"),
        (&[user, assistant], "not the `user`'s"),
        (&[user, system, user], "`system` turn after the first"),
        (&[r#"{"role":"user","content":" "}"#], "`content` is empty"),
        (&[r#"{"role":"tool","content":"x"}"#], "unknown variant `tool`"),
        (&[r#"{"role":"user","content":"x","name":"y"}"#], "unknown field `name`"),
    ] {
        assert_says(&message(line(&turns.join(","), "")), &["line 1", why]);
    }
    assert_says(&message(line(user, r#","prompt":"Q:""#)), &["field `messages`", "`prompt` too"]);
    assert_says(&message(line(user, r#","meta":1"#)), &["field `meta`"]);
}

#[test]
fn no_choices() {
    assert_says(&refused(r#","choices":[]"#), &["line 2", "field `choices`", "empty"]);
}

#[test]
fn empty_choice() {
    assert_says(&refused(r#","choices":["yes",""]"#), &["line 2", "field `choices`", "empty"]);
}

#[test]
fn repeated_choice() {
    assert_says(&refused(r#","choices":["no","yes","no"]"#), &["field `choices`", "twice"]);
}

#[test]
fn answer_not_a_choice() {
    assert_says(&refused(r#","choices":["no","maybe"]"#), &["field `answer`", "not one of"]);
}

#[test]
fn answer_its_own_grader_refuses() {
    let m = refused(r#","grade":{"type":"number"}"#);
    assert_says(&m, &["line 2", "task \"a\"", "field `answer`", "no_number"]);
}

#[test]
fn good_example_that_fails() {
    assert_says(&refused(r#","good":["yes","Yes"]"#), &["line 2", "field `good`", "scores 0"]);
}

#[test]
fn bad_example_that_passes() {
    assert_says(&refused(r#","bad":["no","yes"]"#), &["line 2", "field `bad`", "scores 1"]);
}

#[test]
fn token_counts_out_of_range() {
    for count in ["0", "65537"] {
        let m = refused(&format!(r#","max_tokens":{count}"#));
        assert_says(&m, &["line 2", "field `max_tokens`", "1 to 65536"]);
    }
    assert_says(&refused(r#","max_tokens":-1"#), &["field `max_tokens`"]);
}

#[test]
fn empty_stop() {
    assert_says(&refused(r#","stop":["\n",""]"#), &["line 2", "field `stop`"]);
}

#[test]
fn no_tasks() {
    assert_says(&message(""), &["no task"]);
    assert_says(&message(HEADER), &["no task"]);
}

#[test]
fn not_json() {
    assert_says(&message("id,prompt,answer"), &["line 1, byte 1"]);
    assert_says(&message("\u{feff}{}"), &["line 1, byte 1"]);
    assert_says(&message("[]"), &["line 1"]);
}

#[test]
fn cut_off() {
    let whole = task("a", r#","grade":{"type":"exact"}"#);
    for end in 1..whole.len() {
        let m = message(&whole[..end]);
        assert_says(&m, &["line 1, byte "]);
    }
}

#[test]
fn not_utf8() {
    let mut bytes = format!("{HEADER}\n").into_bytes();
    bytes.extend(b"{\"id\":\"\xff\"}");
    assert_says(&message(bytes), &["line 2, byte 8", "UTF-8"]);
}

#[test]
fn the_longest_line_and_one_byte_more() {
    let line = |length: usize| {
        let short = task("a", r#","grade":{"type":"exact"},"tags":[""]"#);
        short.replace(r#"[""]"#, &format!(r#"["{}"]"#, "x".repeat(length - short.len())))
    };
    for end in ["", "\n", "\r\n"] {
        assert!(read(line(LINE_LIMIT) + end).is_ok());
        assert_says(&message(line(LINE_LIMIT + 1) + end), &["line 1", "longer than 1048576"]);
    }
}

#[test]
fn endless_line() {
    let endless = std::io::BufReader::new(std::io::repeat(b'x'));
    let error = TaskSet::read("t.jsonl", endless).unwrap_err();
    assert_says(&error.to_string(), &["line 1", "longer than 1048576"]);
}

#[test]
fn deep_nesting() {
    assert_says(&refused(&format!(r#","tags":{}"#, "[".repeat(100_000))), &["field `tags`"]);
}

#[test]
fn huge_values_make_short_messages() {
    let huge = "y".repeat(500_000);
    refused(&format!(r#","max_tokens":"{huge}""#));
    refused(&format!(r#","{huge}":1"#));
    refused(&format!(r#","bad":["yes"],"good":["{huge}"]"#));
    let answer = format!(r#"{{"id":"{huge}","prompt":"Q:","answer":"{huge}","grade":{{"type":"number"}}}}"#);
    message(answer);
    let ids = [task(&huge, ""), task(&huge, "")].join("\n");
    message(format!("{HEADER}\n{ids}"));
}

#[test]
fn missing_file() {
    let dir = std::path::Path::new("no-such-folder").join("t.jsonl");
    let error = TaskSet::open(dir).unwrap_err();
    assert!(matches!(error, TaskFileError::Read { .. }));
    assert_says(&error.to_string(), &["t.jsonl", "cannot be read"]);
}

#[test]
fn a_source_deals_training_tasks_evenly_and_by_generation() {
    let mut text = format!("{HEADER}\n");
    for i in 0..10 {
        text += &format!("{}\n", task(&format!("t{i}"), ""));
    }
    text += &format!("{}\n", task("h", r#","split":"heldout""#));
    let source = TaskSource::File { set: read(text).unwrap(), seed: 5 };
    let ids = |generation, n| source.train(generation, n).into_iter().map(|task| task.id).collect::<Vec<_>>();
    for generation in 0..20 {
        let batch = ids(generation, 25);
        assert_eq!(batch, ids(generation, 25));
        for i in 0..10 {
            let count = batch.iter().filter(|id| **id == format!("t{i}")).count();
            assert!((2..=3).contains(&count));
        }
    }
    assert_ne!(ids(0, 10), ids(1, 10));
    assert_eq!(source.heldout(9).len(), 1);
    assert!(source.phrasings(9).is_empty());
    assert!(source.describe().ends_with(" seed:5"));
}

#[test]
fn a_source_without_training_tasks_deals_none() {
    let set = read(format!("{HEADER}\n{}", task("h", r#","split":"heldout""#))).unwrap();
    assert!(TaskSource::File { set, seed: 0 }.train(0, usize::MAX).is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_in_one_line(bytes in any::<Vec<u8>>()) {
        if let Err(error) = read(bytes) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn any_flipped_byte_is_read_or_refused_in_one_line(at in 0usize..200, byte in any::<u8>()) {
        let mut bytes = format!("{HEADER}\n{}", task("a", r#","good":["yes"]"#)).into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Err(error) = read(bytes) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
