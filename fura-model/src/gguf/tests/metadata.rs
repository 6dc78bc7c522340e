//! Hostile headers and metadata, one kind of damage per test.

use super::*;

#[test]
fn no_bytes_at_all() {
    assert!(matches!(error(b""), GgufError::Truncated { need: 4, left: 0, .. }));
}

#[test]
fn bad_magic() {
    assert!(matches!(error(b"FUGG\x03\0\0\0"), GgufError::NotGguf { .. }));
    assert!(error(b"\n\0GGUF").to_string().contains(r"\n\x00GG"));
}

#[test]
fn version_0() {
    assert!(matches!(error(&Raw::new(0, 0, 0).0), GgufError::Version { version: 0, .. }));
}

#[test]
fn version_1() {
    assert!(matches!(error(&Raw::new(1, 0, 0).0), GgufError::Version { version: 1, .. }));
}

#[test]
fn future_version() {
    assert!(matches!(error(&Raw::new(4, 0, 0).0), GgufError::Version { version: 4, .. }));
}

#[test]
fn big_endian_file() {
    let error = error(&Raw::new(3_u32.swap_bytes(), 0, 0).0);
    assert!(matches!(error, GgufError::BigEndian { version: 3, .. }));
    assert!(error.to_string().contains("big-endian"));
}

#[test]
fn tensor_count_beyond_the_file() {
    let e = error(&Raw::new(3, u64::MAX, 0).0);
    assert!(matches!(e, GgufError::Count { count: u64::MAX, .. }));
    assert!(e.to_string().contains("tensor count (at byte 8)"));
}

#[test]
fn metadata_count_beyond_the_file() {
    let e = error(&Raw::new(3, 0, u64::MAX).0);
    assert!(matches!(e, GgufError::Count { count: u64::MAX, .. }));
    assert!(e.to_string().contains("metadata count (at byte 16)"));
}

#[test]
fn more_records_than_the_limit() {
    let bytes = Raw::new(3, 0, 65_537).bytes(&vec![0; 14 * 65_537]).0.clone();
    assert!(matches!(error(&bytes), GgufError::TooMany { count: 65_537, .. }));
}

#[test]
fn empty_key() {
    assert!(matches!(error(&one_kv("", 4, &[0; 8])), GgufError::KeyLength { len: 0, .. }));
}

#[test]
fn overlong_key() {
    assert!(matches!(
        error(&one_kv(&"k".repeat(65_536), 4, &[0; 4])),
        GgufError::KeyLength { len: 65_536, .. }
    ));
}

#[test]
fn key_length_beyond_the_file() {
    let bytes = Raw::new(3, 0, 1).u64(u64::MAX).bytes(&[0; 16]).0.clone();
    assert!(matches!(error(&bytes), GgufError::Truncated { need: u64::MAX, left: 16, .. }));
}

#[test]
fn key_that_is_not_utf8() {
    let bytes = Raw::new(3, 0, 1).u64(2).bytes(b"\xff\xfe").u32(4).u32(0).0.clone();
    assert!(matches!(error(&bytes), GgufError::Utf8 { .. }));
}

#[test]
fn key_with_line_breaks_is_escaped_in_messages() {
    assert!(error(&one_kv("a\nb", 99, &[0; 8])).to_string().contains(r"'a\nb'"));
}

#[test]
fn unknown_value_type() {
    assert!(matches!(error(&one_kv("k", 13, &[0; 8])), GgufError::ValueType { code: 13, .. }));
}

#[test]
fn unknown_array_element_type() {
    let mut value = 13_u32.to_le_bytes().to_vec();
    value.extend(0_u64.to_le_bytes());
    assert!(matches!(error(&one_kv("k", 9, &value)), GgufError::ValueType { code: 13, .. }));
}

#[test]
fn nested_array() {
    let mut value = 9_u32.to_le_bytes().to_vec();
    value.extend([0; 64]);
    assert!(matches!(error(&one_kv("k", 9, &value)), GgufError::NestedArray { .. }));
}

#[test]
fn array_longer_than_the_file() {
    for (kind, count) in [(4_u32, 3_u64), (8, 2), (0, 9), (10, u64::MAX), (0, u64::MAX)] {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend(count.to_le_bytes());
        value.extend([0; 8]);
        assert!(matches!(error(&one_kv("k", 9, &value)), GgufError::Count { .. }));
    }
}

#[test]
fn string_in_an_array_longer_than_the_file() {
    let mut value = 8_u32.to_le_bytes().to_vec();
    value.extend(1_u64.to_le_bytes());
    value.extend(9_u64.to_le_bytes());
    value.extend([b'x'; 8]);
    assert!(matches!(error(&one_kv("k", 9, &value)), GgufError::Truncated { need: 9, left: 8, .. }));
}

#[test]
fn string_value_longer_than_the_file() {
    let bytes = one_kv("k", 8, &u64::MAX.to_le_bytes());
    assert!(matches!(error(&bytes), GgufError::Truncated { need: u64::MAX, left: 0, .. }));
}

#[test]
fn boolean_of_2() {
    assert!(matches!(error(&one_kv("k", 7, &[2])), GgufError::Bool { byte: 2, .. }));
    let mut value = 7_u32.to_le_bytes().to_vec();
    value.extend(1_u64.to_le_bytes());
    value.push(3);
    assert!(matches!(error(&one_kv("k", 9, &value)), GgufError::Bool { byte: 3, .. }));
}

#[test]
fn string_value_that_is_not_utf8_is_refused_when_asked_for() {
    let mut value = 1_u64.to_le_bytes().to_vec();
    value.push(0xff);
    let bytes = one_kv("k", 8, &value);
    let gguf = parse(&bytes).unwrap();
    assert_eq!(gguf.value("k"), Some(Value::String(b"\xff")));
    assert!(matches!(gguf.str("k"), Err(GgufError::Utf8 { .. })));
}

#[test]
fn duplicate_key() {
    let bytes = Raw::new(3, 0, 2).kv("k", 4, &[0; 4]).kv("k", 0, &[0; 4]).0.clone();
    assert!(matches!(error(&bytes), GgufError::DuplicateKey { first: 24, .. }));
}

#[test]
fn alignment_not_a_power_of_two_of_at_least_8() {
    for found in [0, 1, 3, 4, 13, 33, u32::MAX] {
        let bytes = one_kv("general.alignment", 4, &found.to_le_bytes());
        match error(&bytes) {
            GgufError::Alignment { found: f, .. } => assert_eq!(f, found),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn alignment_of_the_wrong_type() {
    for (kind, value) in [(5, 32_u64.to_le_bytes().to_vec()), (10, vec![32; 8]), (9, vec![0; 12])] {
        let e = error(&one_kv("general.alignment", kind, &value));
        assert!(matches!(e, GgufError::WrongType { expected: "u32", .. }));
        assert!(e.to_string().contains("must be u32"));
    }
}

#[test]
fn huge_alignment_with_a_tensor() {
    let alignment = 1_u32 << 31;
    let bytes = Raw::new(3, 1, 1)
        .kv("general.alignment", 4, &alignment.to_le_bytes())
        .tensor("t", &[1], 0, 0)
        .data(64)
        .0
        .clone();
    assert!(matches!(error(&bytes), GgufError::PastEnd { .. }));
}
