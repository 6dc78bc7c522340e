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

proptest! {
    #[test]
    fn any_line_is_an_answer_or_an_error(line in any::<Vec<u8>>()) {
        let _ = read(&line);
    }
}
