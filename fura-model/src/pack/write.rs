//! Making a pack.

use super::progress::Progress;
use super::{
    ALIGN, Callback, Header, MAGIC, MatrixEntry, Section, VERSION, VectorEntry, matrix_shapes, quantizes,
    source,
};
use crate::config::{LINEARS, ModelConfig};
use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::vectors;
use crate::weights::{Quantized, Weights};
use fura_core::fingerprint::Fingerprint;
use fura_core::spectrum::{Decomposer, SpectrumError};
use fura_quant::GROUP;
use fura_simd::block::matrix_len;
use rayon::prelude::*;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Tiles packed before they are written: some for every thread, a few MiB at most.
const TILES: usize = 16;

/// Writes the pack of a model: to a temporary file beside `path`, synced, then renamed over it. `callback` is
/// called with (matrices done, matrices in all), between matrices and many times within; where it says so, all work
/// ends and the temporary file is removed. Tiles, blocks and rows are shared out over the threads of the current
/// rayon pool; what they make is written in order, so the file is the same for any number of threads.
pub(super) fn write(
    gguf: &Gguf<'_>,
    config: &ModelConfig,
    fingerprint: Fingerprint,
    block: usize,
    path: &Path,
    callback: &mut Callback<'_>,
) -> Result<(), ModelError> {
    let mut data_len = 0usize;
    let mut section = |len: usize| {
        let offset = data_len;
        data_len = (offset + len).next_multiple_of(ALIGN);
        Section { offset, len }
    };
    let linears = config.layers * LINEARS.len();
    let quantize = quantizes(gguf)?;
    let shapes = matrix_shapes(config);
    let progress = Progress::new(gguf.file(), shapes.len(), callback);
    let mut matrices = Vec::new();
    let mut sources = Vec::new();
    for (i, (name, d_out, d_in)) in shapes.into_iter().enumerate() {
        progress.report(0)?;
        let source = source(gguf, config, &name, d_out, d_in)?;
        let quantized = source.converted(i < linears && quantize);
        let format = quantized.as_ref().map_or(source.format(), |q| q.format());
        let deviation = quantized.map_or_else(|| source.deviation(), |q| Some(q.deviation()));
        // The source's bytes exist, and packing adds at most 15 rows.
        let data = section(format.packed_len(d_out, d_in).unwrap_or(usize::MAX));
        let basis = (i < linears).then(|| (section(4 * matrix_len(d_in, block)), section(4 * d_in)));
        let (format, kind) = (format.name().to_owned(), source.kind().name().to_owned());
        matrices.push(MatrixEntry { name, format, source: kind, deviation, d_out, d_in, data, basis });
        sources.push(source);
    }
    let mut vectors = Vec::new();
    let mut vector_values = Vec::new();
    for (name, len) in vectors::shapes(config) {
        let values = vectors::read(gguf, &name, len)?;
        vectors.push(VectorEntry { name, data: section(4 * values.len()) });
        vector_values.push(values);
    }
    let header = Header { fingerprint, block, config: config.clone(), matrices, vectors, data_len };

    let io = |source| ModelError::Io { file: path.to_owned(), source };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(folder).map_err(io)?;
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
    let mut out =
        Counted { out: BufWriter::with_capacity(1 << 20, temporary), at: 0, hasher: blake3::Hasher::new() };
    let json = serde_json::to_vec(&header).map_err(|e| io(e.into()))?;
    out.put(MAGIC).map_err(io)?;
    out.put(&VERSION.to_le_bytes()).map_err(io)?;
    out.put(&(json.len() as u32).to_le_bytes()).map_err(io)?;
    out.put(&json).map_err(io)?;
    out.put(blake3::hash(&json).as_bytes()).map_err(io)?;
    out.pad().map_err(io)?;
    out.hasher = blake3::Hasher::new();

    let mut tiles = Vec::new();
    for (i, (entry, source)) in header.matrices.iter().zip(&sources).enumerate() {
        let weights_error = |source| ModelError::Weights {
            file: gguf.file().to_owned(),
            tensor: format!("{}.weight", entry.name),
            source,
        };
        // Again, rather than to keep the codes of all of them.
        let quantized = source.converted(i < linears && quantize);
        let source = &quantized.as_ref().map_or(*source, Quantized::weights);
        let (tile, count) =
            (source.format().packed_tile(source.d_in()), source.d_out().div_ceil(fura_quant::TILE));
        tiles.resize(TILES * tile, 0);
        for first in (0..count).step_by(TILES) {
            progress.report(i)?;
            let part = &mut tiles[..TILES.min(count - first) * tile];
            let packed = part
                .par_chunks_exact_mut(tile)
                .enumerate()
                .map_init(Vec::new, |blocks, (t, tile)| source.pack_tile(first + t, blocks, tile));
            // The first one, whatever the threads.
            if let Some(result) = packed.find_first(Result::is_err) {
                result.map_err(weights_error)?;
            }
            out.put(part).map_err(io)?;
        }
        out.pad().map_err(io)?;
        if entry.basis.is_some() {
            let spectrum_error = |source| ModelError::Spectrum {
                file: gguf.file().to_owned(),
                tensor: format!("{}.weight", entry.name),
                source,
            };
            let (v, s) = bases(source, block, &|| progress.report(i), &spectrum_error)?;
            out.put(bytemuck::cast_slice(&v)).map_err(io)?;
            out.pad().map_err(io)?;
            out.put(bytemuck::cast_slice(&s)).map_err(io)?;
            out.pad().map_err(io)?;
        }
        progress.report(i + 1)?;
    }
    for values in &vector_values {
        out.put(bytemuck::cast_slice(values)).map_err(io)?;
        out.pad().map_err(io)?;
    }
    let checksum = out.hasher.finalize();
    out.put(checksum.as_bytes()).map_err(io)?;
    let temporary = out.out.into_inner().map_err(|e| io(e.into_error()))?;
    temporary.as_file().sync_all().map_err(io)?;
    temporary.persist(path).map_err(|e| io(e.error))?;
    Ok(())
}

/// `V` and `s` of every block of a linear, blocks side by side on the current rayon pool; `go_on` is asked before each.
fn bases(
    source: &Weights<'_>,
    block: usize,
    go_on: &(dyn Fn() -> Result<(), ModelError> + Sync),
    error: &(dyn Fn(SpectrumError) -> ModelError + Sync),
) -> Result<(Vec<f32>, Vec<f32>), ModelError> {
    let (d_out, d_in) = (source.d_out(), source.d_in());
    let spectra = (0..d_in.div_ceil(block))
        .into_par_iter()
        .map_init(
            || (Decomposer::default(), Vec::new(), Vec::new()),
            |(decomposer, groups, weights), k| {
                go_on()?;
                let columns = k * block..((k + 1) * block).min(d_in);
                let first = columns.start / GROUP * GROUP;
                groups.resize(columns.end.next_multiple_of(GROUP) - first, 0.0);
                weights.clear();
                for row in 0..d_out {
                    source.decode(row, first, groups);
                    weights.extend_from_slice(&groups[columns.start - first..columns.end - first]);
                }
                decomposer.decompose_block(weights, d_out, columns.len()).map_err(error)
            },
        )
        .collect::<Result<Vec<_>, _>>()?;
    let mut v = Vec::with_capacity(matrix_len(d_in, block));
    let mut s = Vec::with_capacity(d_in);
    for spectrum in spectra {
        v.extend(spectrum.v);
        s.extend(spectrum.s);
    }
    Ok((v, s))
}

struct Counted<W: Write> {
    out: W,
    at: usize,
    hasher: blake3::Hasher,
}

impl<W: Write> Counted<W> {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.at += bytes.len();
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }

    fn pad(&mut self) -> std::io::Result<()> {
        let n = self.at.next_multiple_of(ALIGN) - self.at;
        self.put(&[0; ALIGN][..n])
    }
}
