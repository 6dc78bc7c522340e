//! Good files load; every named kind of damage gives its own error and never a panic.

mod metadata;
mod tensors;

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
        writer.alignment(alignment).tensor("a", &[1], TensorKind::F32, vec![1; 4]).tensor(
            "b",
            &[1],
            TensorKind::F32,
            vec![2; 4],
        );
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
