//! Hostile tensor records and data, one kind of damage per test.

use super::*;

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
