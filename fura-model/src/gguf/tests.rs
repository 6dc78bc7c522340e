//! Good files load; every named kind of damage gives its own error and never a panic.

use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Writes records without any of the writer's checks.
struct Raw(Vec<u8>);

impl Raw {
    fn new(version: u32, tensors: u64, entries: u64) -> Self {
        let mut raw = Self(b"GGUF".to_vec());
        raw.u32(version).u64(tensors).u64(entries);
        raw
    }

    fn u32(&mut self, v: u32) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    fn u64(&mut self, v: u64) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }

    fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.0.extend(v);
        self
    }

    fn text(&mut self, v: &str) -> &mut Self {
        self.u64(v.len() as u64).bytes(v.as_bytes())
    }

    fn kv(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        self.text(key).u32(kind).bytes(value)
    }

    fn tensor(&mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> &mut Self {
        self.text(name).u32(dims.len() as u32);
        for &dim in dims {
            self.u64(dim);
        }
        self.u32(kind).u64(offset)
    }

    fn data(&mut self, len: usize) -> &mut Self {
        let end = self.0.len().next_multiple_of(DEFAULT_ALIGNMENT) + len;
        self.0.resize(end, 0);
        self
    }
}

fn parse(bytes: &[u8]) -> Result<Gguf<'_>, GgufError> {
    Gguf::parse(bytes, Path::new("model.gguf"))
}

/// The error, after checking what every message promises: one line that starts with the file's name.
fn error(bytes: &[u8]) -> GgufError {
    let error = parse(bytes).expect_err("a damaged file must be refused");
    let message = error.to_string();
    assert!(message.starts_with("model.gguf: ") && !message.contains('\n'), "{message}");
    error
}

/// A file with one metadata record.
fn one_kv(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    Raw::new(3, 0, 1).kv(key, kind, value).0.clone()
}

/// A file with one tensor and `len` bytes of data.
fn one_tensor(dims: &[u64], kind: u32, offset: u64, len: usize) -> Vec<u8> {
    Raw::new(3, 1, 0).tensor("t", dims, kind, offset).data(len).0.clone()
}

fn small_model() -> Vec<u8> {
    let mut writer = GgufWriter::new();
    writer
        .kv("general.architecture", "llama")
        .kv("a.u8", Value::U8(200))
        .kv("a.i8", Value::I8(-3))
        .kv("a.u16", Value::U16(60_000))
        .kv("a.i16", Value::I16(-30_000))
        .kv("a.u32", 7_u32)
        .kv("a.i32", Value::I32(-7))
        .kv("a.f32", 0.5_f32)
        .kv("a.bool", true)
        .kv("a.u64", Value::U64(u64::MAX))
        .kv("a.i64", Value::I64(i64::MIN))
        .kv("a.f64", Value::F64(0.1))
        .strings("a.strings", &["x", "", "\u{e9}"])
        .i32s("a.i32s", &[1, -2])
        .tensor("norm", &[3], TensorKind::F32, vec![1; 12])
        .tensor("w", &[32, 2], TensorKind::Q4_1, vec![2; 40]);
    writer.finish().unwrap()
}

#[test]
fn every_value_type_and_tensor_reads_back() {
    let bytes = small_model();
    let gguf = parse(&bytes).unwrap();
    assert_eq!(gguf.version(), 3);
    assert_eq!(gguf.str("general.architecture").unwrap(), "llama");
    assert_eq!(gguf.value("a.u8"), Some(Value::U8(200)));
    assert_eq!(gguf.value("a.i8"), Some(Value::I8(-3)));
    assert_eq!(gguf.value("a.u16"), Some(Value::U16(60_000)));
    assert_eq!(gguf.value("a.i16"), Some(Value::I16(-30_000)));
    assert_eq!(gguf.u32("a.u32").unwrap(), 7);
    assert_eq!(gguf.value("a.i32"), Some(Value::I32(-7)));
    assert_eq!(gguf.f32("a.f32").unwrap(), 0.5);
    assert!(gguf.bool("a.bool").unwrap());
    assert_eq!(gguf.value("a.u64"), Some(Value::U64(u64::MAX)));
    assert_eq!(gguf.value("a.i64"), Some(Value::I64(i64::MIN)));
    assert_eq!(gguf.value("a.f64"), Some(Value::F64(0.1)));
    let strings = gguf.strings("a.strings").unwrap();
    assert_eq!(strings.len(), 3);
    assert_eq!(strings.collect::<Vec<_>>(), [b"x".as_slice(), b"", "\u{e9}".as_bytes()]);
    assert_eq!(gguf.i32s("a.i32s").unwrap().collect::<Vec<_>>(), [1, -2]);
    assert_eq!(gguf.metadata().len(), 14);

    assert_eq!(gguf.tensors().len(), 2);
    assert_eq!(gguf.tensor_data("norm").unwrap(), [1; 12]);
    assert_eq!(gguf.tensor_data("w").unwrap(), [2; 40]);
    let w = gguf.tensor("w").unwrap();
    assert_eq!((w.dims.as_slice(), w.elements(), w.kind), ([32, 2].as_slice(), 64, TensorKind::Q4_1));
    assert!(w.range.start.is_multiple_of(DEFAULT_ALIGNMENT));
}

#[test]
fn optional_getters_tell_missing_from_wrong() {
    let bytes = small_model();
    let gguf = parse(&bytes).unwrap();
    assert_eq!(gguf.opt_u32("no").unwrap(), None);
    assert_eq!(gguf.opt_str("no").unwrap(), None);
    assert!(matches!(gguf.u32("no"), Err(GgufError::MissingKey { expected: "u32", .. })));
    assert!(matches!(gguf.opt_u32("a.i32"), Err(GgufError::WrongType { expected: "u32", .. })));
    assert!(matches!(gguf.opt_bool("a.u8"), Err(GgufError::WrongType { .. })));
    assert!(matches!(gguf.opt_f32("a.f64"), Err(GgufError::WrongType { .. })));
    assert!(matches!(gguf.tensor_data("no"), Err(GgufError::MissingTensor { .. })));
    let message = gguf.strings("a.i32s").unwrap_err().to_string();
    assert!(message.contains("'a.i32s'") && message.contains("must be array of string"), "{message}");
    assert!(message.contains("found array of i32"), "{message}");
}

#[test]
fn version_2_loads() {
    let mut writer = GgufWriter::new();
    writer.version(2).kv("k", 1_u32).tensor("t", &[8], TensorKind::F16, vec![0; 16]);
    let bytes = writer.finish().unwrap();
    assert_eq!(parse(&bytes).unwrap().version(), 2);
}

#[test]
fn custom_alignment_loads() {
    for alignment in [8, 64, 4096] {
        let mut writer = GgufWriter::new();
        writer
            .alignment(alignment)
            .tensor("a", &[1], TensorKind::F32, vec![1; 4])
            .tensor("b", &[1], TensorKind::F32, vec![2; 4]);
        let bytes = writer.finish().unwrap();
        let gguf = parse(&bytes).unwrap();
        assert_eq!(gguf.alignment(), alignment as usize);
        assert_eq!(gguf.tensor_data("b").unwrap(), [2; 4]);
        assert!(gguf.tensor("b").unwrap().range.start.is_multiple_of(alignment as usize));
    }
}

#[test]
fn empty_file_of_version_3_loads() {
    assert!(parse(&Raw::new(3, 0, 0).0).unwrap().tensors().is_empty());
}

#[test]
fn last_tensor_needs_no_padding() {
    assert!(parse(&one_tensor(&[3], 0, 0, 12)).is_ok());
}

#[test]
fn every_tensor_kind_round_trips_its_code_and_loads() {
    for code in 0..64 {
        let Some(kind) = TensorKind::from_code(code) else { continue };
        assert_eq!(kind.code(), code);
        let bytes = one_tensor(&[256], code, 0, 256 / kind.block_len() * kind.block_bytes());
        assert_eq!(parse(&bytes).unwrap().tensors()[0].kind, kind);
    }
}

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

#[test]
fn empty_tensor_name() {
    let bytes = Raw::new(3, 1, 0).tensor("", &[1], 0, 0).data(8).0.clone();
    assert!(matches!(error(&bytes), GgufError::NameLength { len: 0, .. }));
}

#[test]
fn overlong_tensor_name() {
    let bytes = Raw::new(3, 1, 0).tensor(&"n".repeat(65), &[1], 0, 0).data(8).0.clone();
    assert!(matches!(error(&bytes), GgufError::NameLength { len: 65, .. }));
}

#[test]
fn tensor_name_length_beyond_the_file() {
    let bytes = Raw::new(3, 1, 0).u64(u64::MAX - 4).bytes(&[0; 64]).0.clone();
    assert!(matches!(error(&bytes), GgufError::Truncated { .. }));
}

#[test]
fn dimension_counts_outside_1_to_4() {
    for count in [0, 5, 9, u32::MAX] {
        let bytes = Raw::new(3, 1, 0).text("t").u32(count).bytes(&[1; 128]).0.clone();
        match error(&bytes) {
            GgufError::DimensionCount { count: c, .. } => assert_eq!(c, count),
            other => panic!("{other}"),
        }
    }
}

/// The file of `ggml-org/llama.cpp#25596`, which made readers divide by zero.
#[test]
fn zero_dimension() {
    let mut bytes = Raw::new(3, 1, 0);
    bytes.tensor("t", &[1, 0], 0, 0);
    assert_eq!(bytes.0.len(), 65);
    let e = error(&bytes.0);
    assert!(matches!(e, GgufError::ZeroDimension { index: 1, .. }));
    assert!(e.to_string().contains("tensor 't'"));
}

#[test]
fn negative_dimension() {
    let bytes = one_tensor(&[32, (-2_i64).cast_unsigned()], 0, 0, 64);
    assert!(matches!(error(&bytes), GgufError::ShapeOverflow { .. }));
}

#[test]
fn element_count_overflow() {
    let bytes = one_tensor(&[1 << 32, 1 << 32, 1 << 32], 0, 0, 64);
    assert!(matches!(error(&bytes), GgufError::ShapeOverflow { .. }));
}

#[test]
fn byte_count_overflow() {
    let bytes = one_tensor(&[1 << 62, 2], 0, 0, 64);
    assert!(matches!(error(&bytes), GgufError::ShapeOverflow { .. }));
}

#[test]
fn two_tensors_whose_sizes_overflow_together() {
    let size = 0x1fff_ffff_ffff_fff0;
    let bytes =
        Raw::new(3, 2, 0).tensor("a", &[size], 0, 0).tensor("b", &[size], 0, size * 4).data(64).0.clone();
    assert!(matches!(error(&bytes), GgufError::PastEnd { .. }));
}

#[test]
fn unknown_tensor_type() {
    for code in [4, 5, 31, 200, u32::MAX] {
        match error(&one_tensor(&[32], code, 0, 64)) {
            GgufError::TensorKind { code: c, .. } => assert_eq!(c, code),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn rows_of_partial_blocks() {
    let e = error(&one_tensor(&[172, 32], 8, 0, 8192));
    assert!(matches!(e, GgufError::PartialBlock { row: 172, block: 32, kind: TensorKind::Q8_0, .. }));
}

#[test]
fn misaligned_offset() {
    let bytes = one_tensor(&[4], 0, 1, 64);
    assert!(matches!(error(&bytes), GgufError::Misaligned { found: 1, alignment: 32, .. }));
}

#[test]
fn offset_beyond_the_file() {
    for offset in [64, 1 << 40, u64::MAX - 31] {
        assert!(matches!(error(&one_tensor(&[4], 0, offset, 64)), GgufError::PastEnd { .. }));
    }
}

#[test]
fn offsets_for_another_alignment_than_declared() {
    let bytes = Raw::new(3, 2, 1)
        .kv("general.alignment", 4, &64_u32.to_le_bytes())
        .tensor("a", &[4], 0, 0)
        .tensor("b", &[4], 0, 32)
        .data(256)
        .0
        .clone();
    assert!(matches!(error(&bytes), GgufError::Misaligned { found: 32, alignment: 64, .. }));
}

#[test]
fn duplicate_tensor_name() {
    let bytes = Raw::new(3, 2, 0).tensor("t", &[4], 0, 0).tensor("t", &[4], 0, 32).data(64).0.clone();
    assert!(matches!(error(&bytes), GgufError::DuplicateTensor { first: 24, .. }));
}

#[test]
fn overlapping_tensors() {
    let bytes = Raw::new(3, 2, 0).tensor("b", &[4], 0, 32).tensor("a", &[12], 0, 0).data(64).0.clone();
    match error(&bytes) {
        GgufError::Overlap { at, other } => {
            assert_eq!((at.field.as_str(), other.as_str()), ("tensor 'b'", "a"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn truncation_is_reported_with_both_lengths() {
    let whole = one_tensor(&[32, 2], 3, 0, 40);
    for cut in [1, 20, 40] {
        let bytes = &whole[..whole.len() - cut];
        match error(bytes) {
            GgufError::PastEnd { end, len, .. } => {
                assert_eq!((end, len), (whole.len() as u64, bytes.len()));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let whole = small_model();
    let end = parse(&whole).unwrap().tensor("w").unwrap().range.end;
    for len in 0..end {
        error(&whole[..len]);
    }
}

#[test]
fn shards_joined_by_cat() {
    let whole = small_model();
    let twice = [whole.as_slice(), &whole].concat();
    assert!(matches!(error(&twice), GgufError::Joined { .. }));
    let without_tensors = [&Raw::new(3, 0, 0).data(0).0, whole.as_slice()].concat();
    assert!(matches!(error(&without_tensors), GgufError::Joined { .. }));
}

#[test]
fn scales_that_are_not_finite_are_named() {
    for code in 0..64 {
        let Some(kind) = TensorKind::from_code(code) else { continue };
        let blocks = 512 / kind.block_len();
        let zeros = vec![0; blocks * kind.block_bytes()];
        let check = |data: Vec<u8>| {
            let mut writer = GgufWriter::new();
            let bytes = writer.tensor("t", &[512], kind, data).finish().unwrap();
            let gguf = parse(&bytes).unwrap();
            gguf.check_finite(&gguf.tensors()[0])
        };
        assert!(check(zeros.clone()).is_ok(), "{kind}: zero weights with finite scales are good");
        let mut bad = zeros;
        let last = bad.len() - kind.block_bytes();
        bad[last..].fill(0xff);
        match check(bad) {
            Err(GgufError::NonFinite { block, .. }) => assert_eq!(block, blocks - 1, "{kind}"),
            other => panic!("{kind}: {other:?}"),
        }
    }
}

#[test]
fn infinite_minimum_of_q4_1() {
    let mut data = vec![0; 40];
    data[22..24].copy_from_slice(&0x7c00_u16.to_le_bytes());
    let bytes = GgufWriter::new().tensor("t", &[64], TensorKind::Q4_1, data).finish().unwrap();
    let gguf = parse(&bytes).unwrap();
    let e = gguf.check_finite(&gguf.tensors()[0]).unwrap_err();
    match &e {
        GgufError::NonFinite { at, block: 1 } => assert_eq!(at.offset, gguf.tensors()[0].range.start + 22),
        other => panic!("{other}"),
    }
}

#[test]
fn writer_refuses_data_of_the_wrong_length() {
    for len in [15, 17] {
        let result = GgufWriter::new().tensor("t", &[4], TensorKind::F32, vec![0; len]).finish();
        assert!(matches!(result, Err(GgufError::DataLength { expected: 16, .. })));
    }
}

proptest! {
    /// Any change of any bytes gives a file or an error; never a panic, never an unbounded allocation.
    #[test]
    fn arbitrary_damage_never_panics(changes in prop::collection::vec((0_usize..800, any::<u8>()), 1..6)) {
        let mut bytes = small_model();
        for (at, byte) in changes {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        if let Ok(gguf) = parse(&bytes) {
            for tensor in gguf.tensors() {
                prop_assert_eq!(gguf.tensor_data(&tensor.name).unwrap().len(), tensor.range.len());
            }
            let _ = gguf.strings("a.strings").map(Iterator::count);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&[b"GGUF\x03\0\0\0".as_slice(), &body].concat());
    }
}
