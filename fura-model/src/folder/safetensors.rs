//! Headers of safetensors files, which are not to be trusted.
//!
//! A file is a `u64` header length, a JSON object of that length, and data. The object says of each tensor its type,
//! shape and range of the data; the ranges cover all of it and do not overlap. (The `safetensors` crate reads the same,
//! but not every fault of a file has a place in its errors, and a name given twice is the last one there.)

use super::FolderError;
use super::json::{self, Pairs};
use serde::Deserialize;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;

/// Real headers have a few megabytes.
const MAX_HEADER: usize = 8 << 20;
/// As for GGUF: real models have a few thousand.
const MAX_TENSORS: usize = 65_536;
const MAX_DIMS: usize = 8;

/// A tensor of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: String,
    /// Slowest dimension first.
    pub(super) shape: Vec<usize>,
    /// Where in the file.
    pub(super) range: Range<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Bytes of an element.
fn width(dtype: &str) -> Option<usize> {
    Some(match dtype {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" => 8,
        _ => return None,
    })
}

/// Reads the header of a whole file, in the order of the data.
pub(super) fn parse(bytes: &[u8], file: &Path) -> Result<Vec<Stored>, FolderError> {
    let bad = |tensor: &str, problem: String| FolderError::Header {
        file: file.to_owned(),
        tensor: crate::gguf::printable(tensor),
        offset: 8,
        problem,
    };
    let at_length = |problem: String| FolderError::Header {
        file: file.to_owned(),
        tensor: "header length".to_owned(),
        offset: 0,
        problem,
    };
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(at_length(format!("the file has {} bytes", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER as u64 || length > rest.len() as u64 {
        return Err(at_length(format!("{length} bytes, the file has {} more", rest.len())));
    }
    // Just checked.
    let (header, data) = rest.split_at(length as usize);
    let Pairs(entries) = json::parse::<Pairs<Value>>(file, 8, header)?;
    if entries.len() > MAX_TENSORS {
        return Err(bad("header", format!("{} tensors, expected at most {MAX_TENSORS}", entries.len())));
    }
    let start = bytes.len() - data.len();
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        if name == "__metadata__" {
            continue;
        }
        let entry = Entry::deserialize(value).map_err(|e| bad(&name, e.to_string()))?;
        let [from, to] = entry.data_offsets;
        if from > to || to > data.len() as u64 {
            let problem = format!("data from {from} to {to}, the file has {} bytes of data", data.len());
            return Err(bad(&name, problem));
        }
        let Some(width) = width(&entry.dtype) else {
            return Err(bad(&name, format!("type '{}' is unknown", crate::gguf::printable(&entry.dtype))));
        };
        let shape = entry.shape.iter().map(|n| usize::try_from(*n)).collect::<Result<Vec<_>, _>>();
        let shape = shape.ok().filter(|s| s.len() <= MAX_DIMS);
        let size = shape.as_ref().and_then(|s| s.iter().try_fold(width, |n, d| n.checked_mul(*d)));
        let (Some(shape), Some(size)) = (shape, size) else {
            return Err(bad(&name, format!("shape {:?} is too large", entry.shape)));
        };
        if size as u64 != to - from {
            let problem = format!("{shape:?} of {} take {size} bytes, found {}", entry.dtype, to - from);
            return Err(bad(&name, problem));
        }
        // Within the file, as checked above.
        let range = start + from as usize..start + to as usize;
        tensors.push(Stored { name, dtype: entry.dtype, shape, range });
    }
    tensors.sort_by_key(|t| (t.range.start, t.range.end));
    let mut end = start;
    for t in &tensors {
        if t.range.start != end {
            let word =
                if t.range.start < end { "overlaps the tensor before it" } else { "leaves a gap before it" };
            return Err(bad(&t.name, format!("its data {word}, expected byte {end} of the file")));
        }
        end = t.range.end;
    }
    if end != bytes.len() {
        let problem = format!("the tensors end at byte {end}, the file at {}", bytes.len());
        return Err(bad("data", problem));
    }
    Ok(tensors)
}
