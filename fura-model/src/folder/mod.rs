//! A model in the folder layout of transformers: `config.json`, safetensors files, `tokenizer.json`.
//!
//! The folder is read as the GGUF file it stands for: its configuration and tokenizer become metadata, written to memory
//! once, and its tensors get their GGUF names and stay where they are, in the maps of their files. From there on
//! everything is the same for both. Two keys say what GGUF cannot: `fura.rotary_halves` (rows of queries and keys are in
//! the order of transformers) and `fura.quantize` (linears become 4-bit groups in the pack).

mod config;
mod error;
mod family;
mod fields;
mod json;
mod names;
mod quantization;
mod safetensors;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use error::FolderError;

use crate::error::ModelError;
use crate::gguf::{Gguf, GgufWriter, TensorInfo, TensorKind};
use crate::map::Map;
use crate::tokenizer::Tokenizer;
use fields::Fields;
use json::Pairs;
use names::Role;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

const CONFIG: &str = "config.json";
const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Configurations have a few kilobytes, indices of the largest models a few megabytes.
const MAX_CONFIG: usize = 1 << 20;
const MAX_INDEX: usize = 16 << 20;

/// The opened files of a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    config: PathBuf,
    /// A GGUF file of metadata and derived vectors.
    head: Vec<u8>,
    maps: Vec<(PathBuf, Map)>,
    /// The tensors of `maps`; part 0 is `head`.
    tensors: Vec<TensorInfo>,
    /// Matrices in 4-bit groups, by GGUF names.
    matrices: Vec<(String, quantization::Matrix)>,
}

impl Folder {
    /// Whether `path` is such a folder.
    pub(crate) fn is(path: &Path) -> bool {
        path.join(CONFIG).is_file() && [WHOLE, INDEX].iter().any(|name| path.join(name).is_file())
    }

    /// Opens the files of a folder and reads all but the weights.
    pub(crate) fn open(folder: &Path) -> Result<Self, ModelError> {
        let config = folder.join(CONFIG);
        let Pairs(members) = json::parse::<Pairs<Value>>(&config, 0, &json::read(&config, MAX_CONFIG)?)?;
        let mut fields = Fields::new(&config, "", members);
        let model_type = fields.text("model_type")?.unwrap_or_default();
        let Some(family) = family::FAMILIES.iter().find(|f| f.model_type == model_type) else {
            let expected = format!("one of {}", family::known());
            return Err(fields.bad("model_type", model_type, expected).into());
        };
        let quantization = quantization::describe(&mut fields)?;
        let mut head = GgufWriter::new();
        let ends = tokenizer::ids(fields.some("eos_token_id"), &config, "eos_token_id")?;
        let description = config::describe(fields, family, &mut head)?;
        tokenizer::describe(folder, family.architecture, Some(description.vocab), ends, &mut head)?;

        let maps = open_shards(folder)?;
        let mut tensors = Vec::new();
        let mut seen = HashSet::new();
        let mut modules = quantization::Modules::default();
        for (part, (file, map)) in (1..).zip(&maps) {
            for stored in safetensors::parse(map.bytes(), file)? {
                if !seen.insert(stored.name.clone()) {
                    let problem = "it is in several files".to_owned();
                    return Err(FolderError::Header {
                        file: file.clone(),
                        tensor: stored.name,
                        offset: 8,
                        problem,
                    }
                    .into());
                }
                let stored = match quantization {
                    Some(q) => match q.take(part - 1, stored, &mut modules) {
                        Some(stored) => stored,
                        None => continue,
                    },
                    None => stored,
                };
                let name = match names::role(&stored.name, family.four_norms) {
                    Some(Role::Tensor(name)) if name == "output.weight" && description.tied => stored.name,
                    Some(Role::Tensor(name)) => name,
                    Some(Role::Derived) => stored.name,
                    None => {
                        return Err(unsupported(
                            file,
                            format!("tensor '{}'", crate::gguf::printable(&stored.name)),
                        ));
                    }
                };
                let kind = match stored.dtype.as_str() {
                    "F32" => TensorKind::F32,
                    "F16" => TensorKind::F16,
                    "BF16" => TensorKind::BF16,
                    other => return Err(unsupported(file, format!("tensor '{name}' of type {other}"))),
                };
                if family.four_norms && name.ends_with("norm.weight") && stored.shape.len() == 1 {
                    // GGUF holds what the output is multiplied by.
                    let mut values = kind.floats(&map.bytes()[stored.range]).unwrap_or_default();
                    values.iter_mut().for_each(|v| *v += 1.0);
                    config::put_vector(&mut head, &name, &values);
                    continue;
                }
                let dims: Vec<usize> = stored.shape.iter().rev().copied().collect();
                tensors.push(TensorInfo { name, dims, kind, part, range: stored.range, record: 8 });
            }
        }
        let mut matrices = Vec::new();
        if let Some(quantization) = quantization {
            let files = |i: usize| (maps[i].0.as_path(), maps[i].1.bytes());
            for (module, matrix) in modules.matrices(quantization, files)? {
                let Some(Role::Tensor(name)) = names::role(&format!("{module}.weight"), family.four_norms)
                else {
                    return Err(unsupported(
                        &config,
                        format!("module '{}'", crate::gguf::printable(&module)),
                    ));
                };
                if seen.contains(&format!("{module}.weight")) && !matrix.is_named_weight() {
                    return Err(unsupported(&config, format!("module '{module}' stored twice")));
                }
                if !(description.tied && name == "output.weight") {
                    matrices.push((name, matrix));
                }
            }
        }
        let head_is_there = || matrices.iter().any(|(name, _)| name == "output.weight");
        if !description.tied && !seen.contains("lm_head.weight") && !head_is_there() {
            let expected = "true, or a tensor 'lm_head.weight'".to_owned();
            let (field, found) = ("tie_word_embeddings".to_owned(), "false".to_owned());
            return Err(FolderError::Field { file: config, field, found, expected }.into());
        }
        Ok(Self { config, head: head.finish()?, maps, tensors, matrices })
    }

    /// The GGUF file that the folder stands for.
    pub(crate) fn gguf(&self) -> Result<Gguf<'_>, ModelError> {
        let parts = self.maps.iter().map(|(file, map)| (map.bytes(), file.as_path()));
        let mut gguf = Gguf::parse(&self.head, &self.config)?.with_tensors(parts, &self.tensors)?;
        let bytes = |i: usize| self.maps[i].1.bytes();
        gguf.grouped.extend(self.matrices.iter().map(|(name, m)| (name.clone(), m.grouped(bytes))));
        Ok(gguf)
    }
}

/// The tokenizer of a folder that needs no model: what the files of tokenizers say. (Phi-3's rule for white space after
/// markers comes with the model's configuration.)
pub(crate) fn tokenizer(folder: &Path) -> Result<Tokenizer, ModelError> {
    let mut head = GgufWriter::new();
    tokenizer::describe(folder, "", None, Vec::new(), &mut head)?;
    let bytes = head.finish()?;
    Ok(Tokenizer::from_gguf(&Gguf::parse(&bytes, &folder.join("tokenizer.json"))?)?)
}

fn unsupported(file: &Path, feature: String) -> ModelError {
    let advice = "this variant of the architecture is not computed; use another model";
    FolderError::Unsupported { file: file.to_owned(), feature, advice }.into()
}

/// Maps the files that hold the tensors: one, or those that the index names, each with just the tensors it says.
fn open_shards(folder: &Path) -> Result<Vec<(PathBuf, Map)>, ModelError> {
    let index = folder.join(INDEX);
    if !index.is_file() {
        let file = folder.join(WHOLE);
        return Ok(vec![(file.clone(), Map::open(&file)?)]);
    }
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: Pairs<String>,
    }
    let Index { weight_map: Pairs(weight_map) } = json::parse(&index, 0, &json::read(&index, MAX_INDEX)?)?;
    let mut by_file: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (tensor, file) in &weight_map {
        by_file.entry(file).or_default().insert(tensor);
    }
    let bad = |field: &str, found: &str, expected: String| {
        let (field, found) = (crate::gguf::printable(field), crate::gguf::printable(found));
        ModelError::from(FolderError::Field { file: index.clone(), field, found, expected })
    };
    let mut names: Vec<&str> = by_file.keys().copied().collect();
    names.sort_unstable();
    let mut maps = Vec::with_capacity(names.len());
    for name in names {
        // A file of this folder and no other.
        if Path::new(name).file_name().is_none_or(|n| n != name) || !name.ends_with(".safetensors") {
            return Err(bad(
                "weight_map",
                name,
                "the name of a .safetensors file in the same folder".to_owned(),
            ));
        }
        let file = folder.join(name);
        let map = Map::open(&file)?;
        let mut missing = by_file[name].clone();
        for stored in safetensors::parse(map.bytes(), &file)? {
            if !missing.remove(stored.name.as_str()) {
                return Err(bad(&stored.name, "missing", format!("'{name}', which holds it")));
            }
        }
        if let Some(tensor) = missing.iter().min() {
            return Err(bad(tensor, name, "a file that holds it".to_owned()));
        }
        maps.push((file, map));
    }
    Ok(maps)
}
