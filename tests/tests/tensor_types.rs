//! Every tensor type: its values are those of an independent implementation, bit for bit, and the pack keeps them as
//! closely as its formats can.

use fura_model::gguf::{DECODE_GROUP, TensorKind};

/// The types and their blocks and values in `golden/tensor_types.bin` (written by `scripts/golden/tensor_types.py`).
fn golden() -> Vec<(TensorKind, Vec<u8>, Vec<f32>)> {
    let mut rest = include_bytes!("../golden/tensor_types.bin").as_slice();
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at(n);
        rest = tail;
        head.to_vec()
    };
    let mut out = Vec::new();
    for _ in 0..15 {
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let kind = TensorKind::from_code(word(&take(4))).unwrap();
        let elements = word(&take(4)) as usize;
        let blocks = take(kind.storage_bytes(&[elements]).unwrap());
        let values = take(4 * elements).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        out.push((kind, blocks, values));
    }
    assert!(rest.is_empty());
    out
}

#[test]
fn values_equal_those_of_gguf_py() {
    let golden = golden();
    for kind in (0..64).filter_map(TensorKind::from_code) {
        assert_eq!(golden.iter().filter(|(k, ..)| *k == kind).count(), 1, "{kind} is covered");
    }
    for (kind, blocks, values) in golden {
        let mut out = [0.0; DECODE_GROUP];
        for (group, expected) in values.as_chunks::<DECODE_GROUP>().0.iter().enumerate() {
            kind.decode_group(&blocks, group, &mut out);
            // `==`: the sign of a zero may differ.
            assert_eq!(out, *expected, "{kind}, group {group}");
        }
    }
}
