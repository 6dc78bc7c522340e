//! Folders whose linears are 4-bit groups already: AWQ, GPTQ, MLX.

use super::FolderError;
use super::fields::Fields;
use super::safetensors::Stored;
use crate::gguf::TensorKind;
use crate::grouped::{Grouped, Packing};
use fura_quant::GROUP;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Fields of `quantization_config` that say how the codes were found or which kernel runs them.
const HARMLESS: [&str; 30] = [
    "backend",
    "batch_size",
    "block_name_to_quantize",
    "cache_block_outputs",
    "damp_auto_increment",
    "damp_percent",
    "dataset",
    "do_fuse",
    "exllama_config",
    "fuse_max_seq_len",
    "is_marlin_format",
    "max_input_length",
    "meta",
    "model_file_base_name",
    "model_name_or_path",
    "model_seqlen",
    "module_name_preceding_first_block",
    "modules_in_block_to_quantize",
    "modules_to_fuse",
    "modules_to_not_convert",
    "pad_token_id",
    "quant_method",
    "static_groups",
    "sym",
    "tokenizer",
    "true_sequential",
    "use_cuda_fp16",
    "use_exllama",
    "zero_point",
    "lm_head",
];

/// What the configuration says of the codes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantization {
    pub(super) packing: Packing,
    /// Channels of a group; `None` for all of a row.
    group: Option<usize>,
}

/// Takes `quantization_config` or `quantization`, if there is one.
pub(super) fn describe(f: &mut Fields<'_>) -> Result<Option<Quantization>, FolderError> {
    let mlx = f.object("quantization")?;
    let config = f.object("quantization_config")?;
    let (mut q, packing) = match (mlx, config) {
        (None, None) => return Ok(None),
        // Newer files of MLX say it twice.
        (Some(q), _) => (q, Packing::Mlx),
        (None, Some(mut q)) => match q.text("quant_method")?.as_deref() {
            Some("awq") => (q, Packing::Awq),
            Some("gptq") => (q, Packing::Gptq { first_zero: 1 }),
            method => {
                let method = method.unwrap_or("missing").to_owned();
                return Err(q.unsupported("quant_method", method));
            }
        },
    };
    q.only("bits", &json!(4))?;
    let packing = match packing {
        Packing::Awq => {
            let version = q.text("version")?.unwrap_or_else(|| "gemm".to_owned());
            if !version.eq_ignore_ascii_case("gemm") {
                return Err(q.unsupported("version", version));
            }
            packing
        }
        Packing::Gptq { .. } => {
            q.only("desc_act", &json!(false))?;
            q.only("pack_dtype", &json!("int32"))?;
            match q.text("checkpoint_format")?.as_deref() {
                None | Some("gptq") => packing,
                Some("gptq_v2") => Packing::Gptq { first_zero: 0 },
                Some(other) => {
                    let other = other.to_owned();
                    return Err(q.unsupported("checkpoint_format", other));
                }
            }
        }
        Packing::Mlx => {
            q.only("mode", &json!("affine"))?;
            packing
        }
    };
    let group = match q.value("group_size") {
        Some(Value::Number(n)) if n.as_i64() == Some(-1) && packing != Packing::Mlx => None,
        Some(value) => match value.as_u64() {
            Some(n @ 32..=0x1_0000) if n.is_multiple_of(GROUP as u64) => Some(n as usize),
            _ => return Err(q.unsupported("group_size", value)),
        },
        None => return Err(q.bad("group_size", "missing", "a multiple of 32")),
    };
    q.finish(&HARMLESS)?;
    Ok(Some(Quantization { packing, group }))
}

/// A part of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Codes,
    Scales,
    Offsets,
    /// Which group each channel belongs to.
    Order,
}

/// The parts of matrices found so far, by module.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<String, BTreeMap<Part, (usize, Stored)>>);

/// A matrix whose parts have been checked against each other.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    quantization: Quantization,
    group: usize,
    shape: [usize; 2],
    kind: TensorKind,
    /// File and place of codes, scales and offsets.
    parts: [(usize, Range<usize>); 3],
}

impl Quantization {
    /// Takes a tensor that is part of a matrix in groups; gives back others.
    pub(super) fn take(&self, file: usize, stored: Stored, modules: &mut Modules) -> Option<Stored> {
        let Some((module, name)) = stored.name.rsplit_once('.') else { return Some(stored) };
        let part = match (self.packing, name) {
            (Packing::Mlx, "weight") if stored.dtype == "U32" => Part::Codes,
            (Packing::Mlx, "biases") | (Packing::Awq | Packing::Gptq { .. }, "qzeros") => Part::Offsets,
            (Packing::Awq | Packing::Gptq { .. }, "qweight") => Part::Codes,
            (Packing::Gptq { .. }, "g_idx") => Part::Order,
            (_, "scales") => Part::Scales,
            _ => return Some(stored),
        };
        modules.0.entry(module.to_owned()).or_default().insert(part, (file, stored));
        None
    }
}

impl Modules {
    /// The modules' names and matrices. `bytes` and `path` are those of a file.
    pub(super) fn matrices<'a>(
        self,
        quantization: Quantization,
        files: impl Fn(usize) -> (&'a Path, &'a [u8]),
    ) -> Result<Vec<(String, Matrix)>, FolderError> {
        let matrices = self.0.into_iter().map(|(module, parts)| {
            let matrix = matrix(quantization, &module, parts, &files)?;
            Ok((module, matrix))
        });
        matrices.collect()
    }
}

fn matrix<'a>(
    quantization: Quantization,
    module: &str,
    mut parts: BTreeMap<Part, (usize, Stored)>,
    files: &impl Fn(usize) -> (&'a Path, &'a [u8]),
) -> Result<Matrix, FolderError> {
    let Quantization { packing, group } = quantization;
    // There is at least one.
    let any = parts.values().next().map_or(0, |(file, _)| *file);
    let bad = |file: usize, tensor: &str, problem: String| FolderError::Header {
        file: files(file).0.to_owned(),
        tensor: crate::gguf::printable(tensor),
        offset: 8,
        problem,
    };
    let mut part = |part: Part| {
        let expected = format!("codes, scales and offsets of a matrix of {}, one is missing", packing.name());
        parts.remove(&part).ok_or_else(|| bad(any, module, expected))
    };
    let (codes, scales, offsets) = (part(Part::Codes)?, part(Part::Scales)?, part(Part::Offsets)?);
    let kind = match scales.1.dtype.as_str() {
        "F16" => TensorKind::F16,
        "BF16" => TensorKind::BF16,
        "F32" => TensorKind::F32,
        other => return Err(bad(scales.0, &scales.1.name, format!("scales of type {other}"))),
    };
    let &[first, second] = &codes.1.shape[..] else {
        return Err(bad(
            codes.0,
            &codes.1.name,
            format!("shape {:?}, expected two dimensions", codes.1.shape),
        ));
    };
    // Sizes of tensors that exist, times eight.
    let [d_out, d_in] = match packing {
        Packing::Awq => [second * 8, first],
        Packing::Gptq { .. } => [second, first * 8],
        Packing::Mlx => [first, second * 8],
    };
    let group = group.unwrap_or(d_in);
    if d_in == 0 || d_out == 0 || d_in % group != 0 || d_out % 8 != 0 || group % GROUP != 0 {
        let problem =
            format!("{d_out} x {d_in}, expected whole groups of {group} inputs and outputs in eights");
        return Err(bad(codes.0, &codes.1.name, problem));
    }
    let groups = d_in / group;
    let words: &[&str] = if packing == Packing::Mlx { &["U32"] } else { &["I32", "U32"] };
    let (scale_shape, offset_shape, offset_types): ([usize; 2], [usize; 2], &[&str]) = match packing {
        Packing::Mlx => ([d_out, groups], [d_out, groups], &[scales.1.dtype.as_str()]),
        _ => ([groups, d_out], [groups, d_out / 8], words),
    };
    for ((file, stored), shape, types) in [
        (&codes, [first, second], words),
        (&scales, scale_shape, &[scales.1.dtype.as_str()]),
        (&offsets, offset_shape, offset_types),
    ] {
        if stored.shape != shape || !types.contains(&stored.dtype.as_str()) {
            let found = format!("{:?} of {}", stored.shape, stored.dtype);
            return Err(bad(
                *file,
                &stored.name,
                format!("{found}, expected {shape:?} of {}", types.join(" or ")),
            ));
        }
    }
    if let Some((file, order)) = parts.remove(&Part::Order) {
        let (path, bytes) = files(file);
        let (words, _) = bytes[order.range.clone()].as_chunks::<4>();
        let in_order = words.iter().enumerate().all(|(i, w)| u32::from_le_bytes(*w) as usize == i / group);
        if order.dtype != "I32" || order.shape != [d_in] || !in_order {
            return Err(FolderError::Unsupported {
                file: path.to_owned(),
                feature: format!(
                    "'{}' with channels out of order (act-order)",
                    crate::gguf::printable(&order.name)
                ),
                advice: "use a file that was made with desc_act false",
            });
        }
    }
    let parts = [&codes, &scales, &offsets].map(|(file, stored)| (*file, stored.range.clone()));
    let matrix = Matrix { quantization, group, shape: [d_out, d_in], kind, parts };
    matrix.grouped(|file| files(file).1).check().map_err(|e| FolderError::Unsupported {
        file: files(scales.0).0.to_owned(),
        feature: format!(
            "'{}', row {}, group {}: {}",
            crate::gguf::printable(module),
            e.row,
            e.group,
            e.problem
        ),
        advice: "use a file of the same model in another format",
    })?;
    Ok(matrix)
}

impl Matrix {
    /// Whether its codes are a tensor `weight`.
    pub(super) fn is_named_weight(&self) -> bool {
        self.quantization.packing == Packing::Mlx
    }

    /// Its data in the bytes of the files.
    pub(super) fn grouped<'a>(&self, bytes: impl Fn(usize) -> &'a [u8]) -> Grouped<'a> {
        let [codes, scales, offsets] = &self.parts;
        let of = |part: &(usize, Range<usize>)| &bytes(part.0)[part.1.clone()];
        Grouped {
            packing: self.quantization.packing,
            group: self.group,
            shape: self.shape,
            first: 0,
            kind: self.kind,
            codes: of(codes),
            scales: of(scales),
            offsets: of(offsets),
        }
    }
}
