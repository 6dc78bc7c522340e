//! Copies of GGUF files with something left out or added.

use fura_model::gguf::{Gguf, GgufWriter};
use std::path::Path;

/// A writer holding the metadata and the tensors of `bytes` that the filters keep, in order.
///
/// # Panics
/// If `bytes` are no GGUF file.
pub fn rewrite(bytes: &[u8], key: impl Fn(&str) -> bool, tensor: impl Fn(&str) -> bool) -> GgufWriter {
    let gguf = Gguf::parse(bytes, Path::new("original.gguf")).unwrap();
    let mut writer = GgufWriter::new();
    for (name, value) in gguf.metadata().filter(|(name, _)| key(name)) {
        writer.kv(name, value);
    }
    for t in gguf.tensors().iter().filter(|t| tensor(&t.name)) {
        writer.tensor(&t.name, &t.dims, t.kind, gguf.tensor_data(&t.name).unwrap());
    }
    writer
}

/// The files of `bytes` split into `count`, without tensors in the first.
///
/// # Panics
/// If `bytes` are no GGUF file or `count` is less than 2.
pub fn split(bytes: &[u8], count: usize) -> Vec<Vec<u8>> {
    let gguf = Gguf::parse(bytes, Path::new("original.gguf")).unwrap();
    let names: Vec<&str> = gguf.tensors().iter().map(|t| t.name.as_str()).collect();
    let share = names.len().div_ceil(count - 1);
    (0..count)
        .map(|part| {
            let own = |name: &str| {
                let i = names.iter().position(|n| *n == name).unwrap();
                1 + i / share == part
            };
            let mut writer = rewrite(bytes, |_| part == 0, own);
            writer
                .kv("split.no", fura_model::gguf::Value::U16(part as u16))
                .kv("split.count", fura_model::gguf::Value::U16(count as u16))
                .kv("split.tensors.count", fura_model::gguf::Value::I32(names.len() as i32));
            writer.finish().unwrap()
        })
        .collect()
}
