//! The pack: a training-ready copy of a model, written once and memory-mapped from then on.
//!
//! Layout: magic `FURAPACK`, `u32` version, `u32` header length, the header (JSON), its 32-byte BLAKE3, zero
//! padding to a multiple of 64, then the sections: packed matrices ([`fura_quant::Format::packed_group`]), for each
//! linear also its block bases `V` (f32, [`fura_simd::block`]) and singular values (f32), then vectors (f32): norm
//! weights, biases, frequency divisors; last the 32-byte BLAKE3 of everything from the padding's end to there. Sections
//! start on multiples of 64 bytes after the padding; all numbers are little-endian.

use crate::config::{LINEARS, ModelConfig};
use crate::error::ModelError;
use crate::gguf::{Gguf, TensorKind};
use crate::vectors::{self, VectorIndex};
use crate::weights::{Deviation, Weights};
use crate::{architecture, map::Map};
use fura_core::fingerprint::Fingerprint;
use fura_core::layout::{Layout, Linear};
use fura_quant::{Format, PackedMatrix};
use fura_simd::block::matrix_len;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::{ControlFlow, Range};
use std::path::Path;

mod progress;
mod write;

#[cfg(target_endian = "big")]
compile_error!("packs are little-endian and are mapped as they are");

/// Told of matrices done and in all; says whether to go on.
pub(crate) type Callback<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + Send + 'a;

const MAGIC: &[u8; 8] = b"FURAPACK";
const VERSION: u32 = 2;
/// The field that an error about a pack of another version names.
const VERSION_FIELD: &str = "version";
const ALIGN: usize = 64;
/// A header larger than this is not one of ours.
const MAX_HEADER: usize = 64 << 20;

/// Where a section lies, relative to the start of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    offset: usize,
    len: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixEntry {
    name: String,
    format: String,
    /// The type in the model's file.
    source: String,
    /// Absent if the file's blocks were packed as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deviation: Option<Deviation>,
    d_out: usize,
    d_in: usize,
    data: Section,
    /// Bases and singular values; absent for the embedding and the head.
    basis: Option<(Section, Section)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorEntry {
    name: String,
    data: Section,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    fingerprint: Fingerprint,
    block: usize,
    config: ModelConfig,
    matrices: Vec<MatrixEntry>,
    vectors: Vec<VectorEntry>,
    data_len: usize,
}

/// A matrix of a pack: format, shape and absolute byte ranges.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) source: TensorKind,
    pub(crate) deviation: Option<Deviation>,
    pub(crate) d_out: usize,
    pub(crate) d_in: usize,
    pub(crate) data: Range<usize>,
    pub(crate) basis: Option<(Range<usize>, Range<usize>)>,
}

/// A checked pack: every range lies within the file and has the length its shape says.
#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) config: ModelConfig,
    /// The linears of layer 0, 1, ..., then the embedding, then the head if it is not the embedding.
    pub(crate) matrices: Vec<Matrix>,
    /// In the order of `index`.
    pub(crate) vectors: Vec<Range<usize>>,
    pub(crate) index: VectorIndex,
}

/// Content fingerprint of a model: hyperparameters, and of every tensor its name, type, shape and data hash,
/// sorted by name. A file with the same contents in another order, or other metadata, has the same one.
pub(crate) fn fingerprint(gguf: &Gguf<'_>, config: &ModelConfig) -> Result<Fingerprint, ModelError> {
    let mut lines = gguf
        .tensors()
        .par_iter()
        .map(|t| {
            let data = gguf.tensor_data(&t.name)?;
            Ok(format!("{} {} {:?} {}\n", t.name, t.kind, t.dims, blake3::hash(data).to_hex()))
        })
        .collect::<Result<Vec<_>, ModelError>>()?;
    for (name, g) in &gguf.grouped {
        let hashes = g.parts().map(|part| blake3::hash(part).to_hex().to_string()).join(" ");
        lines.push(format!("{name} {:?} {} {} {:?} {hashes}\n", g.packing, g.group, g.kind, g.shape));
    }
    lines.sort();
    // Numbers and booleans in the order of the struct: always the same text.
    let mut config = serde_json::to_string(config).unwrap_or_default();
    if quantizes(gguf)? {
        // The same floats packed in another way are another base.
        config += "\nlinears q4";
    }
    Ok(Fingerprint::of_description("fura model 1", &format!("{config}\n{}", lines.concat())))
}

/// Whether the linears of floats become 4-bit groups.
fn quantizes(gguf: &Gguf<'_>) -> Result<bool, ModelError> {
    Ok(gguf.opt_bool("fura.quantize")? == Some(true))
}

/// Every matrix name of the pack in order, with its shape.
fn matrix_shapes(c: &ModelConfig) -> Vec<(String, usize, usize)> {
    let mut out = Vec::with_capacity(c.layers * LINEARS.len() + 2);
    for layer in 0..c.layers {
        for (k, name) in LINEARS.iter().enumerate() {
            let (d_out, d_in) = c.linear_shape(k);
            out.push((format!("blk.{layer}.{name}"), d_out, d_in));
        }
    }
    out.push(("token_embd".to_owned(), c.vocab, c.d_model));
    if !c.tied {
        out.push(("output".to_owned(), c.vocab, c.d_model));
    }
    out
}

/// The layout of the coordinates: every linear of every layer, unfused.
pub(crate) fn layout(c: &ModelConfig, block: usize, file: &Path) -> Result<Layout, ModelError> {
    let linears = matrix_shapes(c)
        .into_iter()
        .take(c.layers * LINEARS.len())
        .map(|(name, d_out, d_in)| Linear::new(name, d_out, d_in));
    Layout::new(block, linears).map_err(|source| ModelError::Layout { file: file.to_owned(), source })
}

/// The tensor that holds a matrix and the rows of it that are the matrix: all of them, or a part of a fused one.
fn tensor_of(c: &ModelConfig, fused: bool, name: &str) -> (String, Range<usize>, usize) {
    let (q, kv, ff) = (c.d_query(), c.d_kv(), c.d_ff);
    let part = match name.rsplit_once('.').filter(|_| fused) {
        Some((layer, "attn_q")) => Some((layer, "attn_qkv", 0..q, q + 2 * kv)),
        Some((layer, "attn_k")) => Some((layer, "attn_qkv", q..q + kv, q + 2 * kv)),
        Some((layer, "attn_v")) => Some((layer, "attn_qkv", q + kv..q + 2 * kv, q + 2 * kv)),
        Some((layer, "ffn_gate")) => Some((layer, "ffn_up", 0..ff, 2 * ff)),
        Some((layer, "ffn_up")) => Some((layer, "ffn_up", ff..2 * ff, 2 * ff)),
        _ => None,
    };
    match part {
        Some((layer, tensor, rows, all)) => (format!("{layer}.{tensor}.weight"), rows, all),
        None => (format!("{name}.weight"), 0..usize::MAX, 0),
    }
}

/// A matrix of the file.
fn source<'a>(
    gguf: &Gguf<'a>,
    c: &ModelConfig,
    name: &str,
    d_out: usize,
    d_in: usize,
) -> Result<Weights<'a>, ModelError> {
    let fused = architecture::of(gguf)?.fused;
    let (tensor, rows, all) = tensor_of(c, fused, name);
    let (rows, all) = if all == 0 { (0..d_out, d_out) } else { (rows, all) };
    let file = || gguf.file().to_owned();
    if let Some(found) = gguf.shape(&tensor).filter(|s| *s != [d_in, all]) {
        return Err(ModelError::Shape { file: file(), tensor, found, expected: vec![d_in, all] });
    }
    if let Some(grouped) = gguf.grouped.get(&tensor) {
        return Ok(Weights::grouped(grouped.rows_from(rows.start), d_out));
    }
    let info = gguf.require_tensor(&tensor)?;
    let data = gguf.tensor_data(&tensor)?;
    // The reader has checked that the data is as long as the shape says: whole rows.
    let row = data.len() / all;
    let weights = Weights::new(info.kind, d_out, d_in, &data[rows.start * row..rows.end * row]);
    weights.map_err(|source| ModelError::Weights { file: file(), tensor, source })
}

/// The tensors of the file that nothing here reads.
///
/// # Errors
/// One that belongs to the language model, and so would change the answer, by name.
pub(crate) fn unused_tensors(gguf: &Gguf<'_>, c: &ModelConfig) -> Result<Vec<String>, ModelError> {
    let fused = architecture::of(gguf)?.fused;
    let matrices = matrix_shapes(c).into_iter().map(|(name, ..)| tensor_of(c, fused, &name).0);
    let mut known = matrices.collect::<std::collections::HashSet<String>>();
    for (name, _) in vectors::shapes(c) {
        known.insert(vectors::tensor_name(gguf, &name)?);
    }
    if fused {
        // For contexts beyond the original one, which the configuration excludes.
        known.insert("rope_factors_long.weight".to_owned());
    }
    let mut unused = Vec::new();
    let names = gguf.tensors().iter().map(|t| &t.name).chain(gguf.grouped.keys());
    for name in names.filter(|name| !known.contains(*name)) {
        let prefixes = ["blk.", "output", "rope", "token_", "position_"];
        if prefixes.iter().any(|p| name.starts_with(p)) {
            return Err(ModelError::Unsupported {
                file: gguf.file().to_owned(),
                feature: format!("tensor '{name}'"),
                advice: "this variant of the architecture is not computed; use a plain Llama-style model",
            });
        }
        unused.push(name.clone());
    }
    Ok(unused)
}

/// Opens the pack of a model at `path`. If there is none, or one of another version, it is written first.
pub(crate) fn open(
    gguf: &Gguf<'_>,
    config: &ModelConfig,
    fingerprint: Fingerprint,
    block: usize,
    path: &Path,
    progress: &mut Callback<'_>,
) -> Result<(Map, Pack), ModelError> {
    let read = || {
        let map = Map::open(path)?;
        let pack = Pack::parse(map.bytes(), path, config, fingerprint, block)?;
        Ok((map, pack))
    };
    if path.exists() {
        match read() {
            // A cache made by another version of this program.
            Err(ModelError::Pack { field: VERSION_FIELD, .. }) => {}
            result => return result,
        }
    }
    write::write(gguf, config, fingerprint, block, path, progress)?;
    read()
}

impl Pack {
    /// Reads a pack's header and checks it against the model it should be of and the bytes that exist.
    fn parse(
        bytes: &[u8],
        file: &Path,
        config: &ModelConfig,
        fingerprint: Fingerprint,
        block: usize,
    ) -> Result<Pack, ModelError> {
        let bad = |field, offset, problem: String| ModelError::Pack {
            file: file.to_owned(),
            field,
            offset,
            problem,
        };
        if bytes.len() < 16 || &bytes[..8] != MAGIC {
            return Err(bad("magic", 0, "not a fura pack".to_owned()));
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(8) != VERSION {
            return Err(bad(VERSION_FIELD, 8, format!("{}, expected {VERSION}", word(8))));
        }
        let len = word(12) as usize;
        if len > MAX_HEADER || bytes.len() < 16 + len + 32 {
            return Err(bad("header length", 12, format!("{len} bytes, the file has {}", bytes.len())));
        }
        let json = &bytes[16..16 + len];
        if blake3::hash(json).as_bytes() != &bytes[16 + len..16 + len + 32] {
            return Err(bad("header", 16, "its checksum does not match".to_owned()));
        }
        let header: Header = serde_json::from_slice(json)
            .map_err(|e| bad("header", 16 + e.column(), format!("unreadable: {e}")))?;
        let start = (16 + len + 32).next_multiple_of(ALIGN);
        let end = start.saturating_add(header.data_len);
        if end.checked_add(32) != Some(bytes.len()) {
            let expected = end.saturating_add(32);
            let problem = format!("the file has {} bytes, expected {expected}", bytes.len());
            return Err(bad("length", bytes.len(), problem));
        }
        if blake3::hash(&bytes[start..end]).as_bytes() != &bytes[end..] {
            return Err(bad("checksum", end, "the weights or bases are damaged".to_owned()));
        }
        // Before any of its sizes is used: those of the model's file have been checked, these have not.
        if header.fingerprint != fingerprint || header.block != block || header.config != *config {
            return Err(bad("fingerprint", 16, "it belongs to another model".to_owned()));
        }
        // The checksum only says that the header is what was written; the ranges are checked all the same.
        let range = |s: &Section, len: Option<usize>, field| match s.offset.checked_add(s.len) {
            Some(end) if end <= header.data_len && s.offset.is_multiple_of(ALIGN) && Some(s.len) == len => {
                Ok(start + s.offset..start + end)
            }
            _ => Err(bad(field, start.saturating_add(s.offset), format!("{} bytes do not fit", s.len))),
        };
        let c = &header.config;
        let shapes = matrix_shapes(c);
        let lengths = vectors::shapes(c);
        let counts = (header.matrices.len(), header.vectors.len());
        if counts != (shapes.len(), lengths.len()) {
            return Err(bad("sections", 16, "their number does not match the model".to_owned()));
        }
        let mut matrices = Vec::with_capacity(shapes.len());
        for (i, (m, (name, d_out, d_in))) in header.matrices.iter().zip(shapes).enumerate() {
            let formats = Format::from_name(&m.format).zip(TensorKind::from_name(&m.source));
            let (Some((format, source)), true) =
                (formats, (&m.name, m.d_out, m.d_in) == (&name, d_out, d_in))
            else {
                return Err(bad("matrix", 16, format!("'{}' is not the expected '{name}'", m.name)));
            };
            let basis = match (&m.basis, i < c.layers * LINEARS.len()) {
                (Some((v, s)), true) => Some((
                    range(v, matrix_len(d_in, header.block).checked_mul(4), "basis")?,
                    range(s, Some(4 * d_in), "singular values")?,
                )),
                (None, false) => None,
                _ => return Err(bad("basis", 16, format!("'{name}' lacks it or should not have it"))),
            };
            let data = range(&m.data, format.packed_len(d_out, d_in), "matrix")?;
            PackedMatrix::new(format, d_out, d_in, &bytes[data.clone()])
                .map_err(|e| bad("matrix", data.start, e.to_string()))?;
            let deviation = m.deviation;
            matrices.push(Matrix { name, format, source, deviation, d_out, d_in, data, basis });
        }
        let mut vectors = Vec::with_capacity(lengths.len());
        for (v, (name, len)) in header.vectors.iter().zip(lengths) {
            if v.name != name {
                return Err(bad("vector", 16, format!("'{}' is not the expected '{name}'", v.name)));
            }
            vectors.push(range(&v.data, Some(4 * len), "vector")?);
        }
        Ok(Pack {
            fingerprint: header.fingerprint,
            index: VectorIndex::new(&header.config),
            config: header.config,
            matrices,
            vectors,
        })
    }
}
