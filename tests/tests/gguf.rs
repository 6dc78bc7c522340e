//! The GGUF reader on real files.

mod real_model;

use std::path::Path;

use fura_model::gguf::{Gguf, GgufError, TensorKind};

#[test]
fn smollm2_has_the_tensors_and_metadata_that_its_readme_states() {
    let bytes = real_model::bytes();
    let gguf = Gguf::parse(&bytes, Path::new("smollm2.gguf")).unwrap();
    let count = |kind| gguf.tensors().iter().filter(|tensor| tensor.kind == kind).count();
    assert_eq!(count(TensorKind::Q4_1), 210);
    assert_eq!(count(TensorKind::Q8_0), 1);
    assert_eq!(count(TensorKind::F32), 61);
    assert_eq!(gguf.tensors().len(), 272);
    assert_eq!(gguf.tensor("token_embd.weight").unwrap().dims, [576, 49152]);
    assert_eq!(gguf.tensor("blk.29.ffn_down.weight").unwrap().dims, [1536, 576]);
    assert_eq!(gguf.str("general.architecture").unwrap(), "llama");
    assert_eq!(gguf.u32("llama.block_count").unwrap(), 30);
    assert_eq!(gguf.u32("llama.attention.head_count_kv").unwrap(), 3);
    assert_eq!(gguf.f32("llama.rope.freq_base").unwrap(), 100_000.0);
    assert_eq!(gguf.f32("llama.attention.layer_norm_rms_epsilon").unwrap(), 1e-5);
    let covered: usize = gguf.tensors().iter().map(|tensor| tensor.range.len()).sum();
    let padding = gguf.alignment() * gguf.tensors().len();
    let first = gguf.tensors().iter().map(|tensor| tensor.range.start).min().unwrap();
    assert!(bytes.len() - first - covered < padding);
}

#[test]
fn smollm2_has_only_finite_scales() {
    let bytes = real_model::bytes();
    let gguf = Gguf::parse(&bytes, Path::new("smollm2.gguf")).unwrap();
    for tensor in gguf.tensors() {
        gguf.check_finite(tensor).unwrap();
    }
}

#[test]
fn smollm2_cut_by_a_byte_is_refused() {
    let bytes = real_model::bytes();
    let last = Gguf::parse(&bytes, Path::new("smollm2.gguf"))
        .unwrap()
        .tensors()
        .iter()
        .map(|tensor| tensor.range.end)
        .max()
        .unwrap();
    for len in [last - 1, last / 2] {
        let error = Gguf::parse(&bytes[..len], Path::new("smollm2.gguf")).unwrap_err();
        assert!(matches!(error, GgufError::PastEnd { len: l, .. } if l == len), "{error}");
    }
}
