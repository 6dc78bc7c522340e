use super::*;
use proptest::prelude::*;

#[test]
fn answers_have_an_id_and_a_score_and_nothing_unknown() {
    let reply = |score, label| Ok(Reply { id: "0.1".to_owned(), score, label });
    assert_eq!(read(br#"{"id":"0.1","score":0.5}"#), reply(Some(0.5), None));
    assert_eq!(read(br#"{"id":"0.1","score":null,"why":"x"}"#), reply(None, None));
    assert_eq!(read(br#"{"id":"0.1","score":1,"label":"right"}"#), reply(Some(1.0), Some(Label::Right)));
    for line in [
        &br#"{"id":"0.1"}"#[..],
        br#"{"score":1}"#,
        br#"{"id":1,"score":1}"#,
        br#"{"id":"0.1","score":"1"}"#,
        br#"{"id":"0.1","score":NaN}"#,
        br#"{"id":"0.1","score":1,"label":"good"}"#,
        br#"{"id":"0.1","score":1,"reward":1}"#,
        b"debug",
        b"",
        b"\xff",
    ] {
        assert!(read(line).is_err(), "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn ids_are_taken_as_they_were_written() {
    let batch = Batch { number: 3, grades: vec![None; 11], open: 11 };
    assert!(matches!(batch.index_of("3.10"), Place::Here(10)));
    assert!(matches!(batch.index_of("2.10"), Place::Before));
    for id in ["3.11", "3.010", "03.1", "4.0", "3", "", "3.1.1", "+3.1"] {
        assert!(matches!(batch.index_of(id), Place::Nowhere), "{id}");
    }
}

/// Answers of all kinds, to be damaged.
const ANSWERS: [&str; 4] = [
    r#"{"id":"0.1","score":0.5,"label":"partial","why":"21 != 29"}"#,
    r#"{"id":"18446744073709551615.0","score":null}"#,
    r#"{"id":"0","observation":"Screen: Home\n0 Clock","state_hash":"3f1c","done":false}"#,
    r#"{"id":"3.10","score":1e0}"#,
];

proptest! {
    #[test]
    fn a_damaged_answer_is_an_answer_or_an_error(
        which in 0..ANSWERS.len(),
        at in 0.0..1.0f64,
        cut in 0usize..9,
        put in prop::sample::select(vec!["", "\"", "}", "{", ",", "null", "-1", "1e999", "NaN", "\\ud800", "0.1", "id", "\u{0}"]),
    ) {
        let mut line = ANSWERS[which].as_bytes().to_vec();
        let from = (at * line.len() as f64) as usize;
        let to = (from + cut).min(line.len());
        line.splice(from..to, put.bytes());
        let mut batch = Batch { number: 3, grades: vec![None; 11], open: 11 };
        match read(&line) {
            Err(why) => prop_assert!(!why.contains('\n') && why.len() < 300, "{}", why),
            Ok(reply) => {
                if let Place::Here(index) = batch.index_of(&reply.id) {
                    batch.answer(index, reply);
                    prop_assert_eq!(batch.open, 10);
                }
                // Whatever was answered, a number is one in [0, 1] and all others are faults.
                let grades = batch.finish(Label::Crashed, "it ended");
                prop_assert!(grades.iter().filter(|grade| grade.value().is_some()).count() <= 1);
            }
        }
    }

    #[test]
    fn any_line_is_an_answer_or_an_error(line in any::<Vec<u8>>()) {
        let _ = read(&line);
    }
}
