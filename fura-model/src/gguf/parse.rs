//! Reading the header, the metadata and the tensor records.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::cursor::{Cursor, Field, locate, printable};
use super::metadata::Entry;
use super::{Array, DEFAULT_ALIGNMENT, Gguf, GgufError, Part, TensorInfo, TensorKind, Value, ValueKind};

const MAGIC: &[u8; 4] = b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
/// Key length (8), a key of one byte, value type (4), a value of one byte.
const MIN_ENTRY: usize = 14;
/// Name length (8), a name of one byte, dimension count (4), one dimension (8), type (4), offset (8).
const MIN_TENSOR: usize = 33;
/// A record takes more memory than file; the limit keeps that bounded. Real models have a few thousand.
const MAX_RECORDS: u64 = 65_536;
const MAX_KEY: usize = 65_535;
const MAX_NAME: usize = 64;
const MAX_DIMS: u32 = 4;

pub(super) fn parse<'a>(bytes: &'a [u8], file: &Path) -> Result<Gguf<'a>, GgufError> {
    let mut cursor = Cursor::new(bytes, file);
    let version = header(&mut cursor)?;
    cursor.field = Field::Header("tensor count");
    let tensor_count = record_count(&mut cursor, MIN_TENSOR)?;
    cursor.field = Field::Header("metadata count");
    let entry_count = record_count(&mut cursor, MIN_ENTRY)?;

    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut by_key = HashMap::new();
    for i in 0..entry_count {
        let entry = entry(&mut cursor, i)?;
        if let Some(first) = by_key.insert(entry.key, entries.len()) {
            return Err(GgufError::DuplicateKey {
                at: cursor.at(entry.offset),
                first: entries[first].offset,
            });
        }
        entries.push(entry);
    }
    let alignment = match by_key.get(ALIGNMENT_KEY) {
        Some(&i) => alignment(&entries[i], file)?,
        None => DEFAULT_ALIGNMENT,
    };

    let mut records: Vec<Record<'a>> = Vec::new();
    let mut by_name = HashMap::new();
    for i in 0..tensor_count {
        let record = record(&mut cursor, i, alignment)?;
        if let Some(first) = by_name.insert(record.name, records.len()) {
            return Err(GgufError::DuplicateTensor {
                at: cursor.at(record.start),
                first: records[first].start,
            });
        }
        records.push(record);
    }
    let data_start = align_up(cursor.pos(), alignment);
    let tensors = records
        .into_iter()
        .map(|record| record.place(data_start, bytes.len(), file))
        .collect::<Result<Vec<_>, _>>()?;
    check_disjoint(&tensors, file)?;
    check_not_joined(bytes, &tensors, data_start, alignment, file)?;

    let parts = vec![Part { bytes, file: file.to_path_buf() }];
    let (file, grouped) = (file.to_path_buf(), BTreeMap::new());
    Ok(Gguf { parts, file, version, alignment, entries, by_key, tensors, by_name, grouped })
}

/// Checks magic and version; returns the version.
fn header(cursor: &mut Cursor<'_, '_>) -> Result<u32, GgufError> {
    let magic = cursor.take(MAGIC.len() as u64)?;
    if magic != MAGIC {
        return Err(GgufError::NotGguf { at: cursor.at(0), found: magic.escape_ascii().to_string() });
    }
    cursor.field = Field::Header("version");
    let start = cursor.pos();
    let version = cursor.u32()?;
    match (version, version.swap_bytes()) {
        (2 | 3, _) => Ok(version),
        (_, swapped @ 1..=3) => Err(GgufError::BigEndian { at: cursor.at(start), version: swapped }),
        _ => Err(GgufError::Version { at: cursor.at(start), version }),
    }
}

fn record_count(cursor: &mut Cursor<'_, '_>, min_size: usize) -> Result<u64, GgufError> {
    let start = cursor.pos();
    let count = cursor.count(min_size)?;
    if count > MAX_RECORDS {
        return Err(GgufError::TooMany { at: cursor.at(start), count, limit: MAX_RECORDS });
    }
    Ok(count)
}

fn entry<'a>(cursor: &mut Cursor<'a, '_>, index: u64) -> Result<Entry<'a>, GgufError> {
    cursor.field = Field::Record(index);
    let offset = cursor.pos();
    let key = cursor.string()?;
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(GgufError::KeyLength { at: cursor.at(offset), len: key.len() });
    }
    let key = std::str::from_utf8(key).map_err(|_| GgufError::Utf8 { at: cursor.at(offset) })?;
    cursor.field = Field::Key(key);
    let kind = value_kind(cursor)?;
    let value = value(cursor, kind)?;
    Ok(Entry { key, value, offset })
}

fn value_kind(cursor: &mut Cursor<'_, '_>) -> Result<ValueKind, GgufError> {
    let start = cursor.pos();
    let code = cursor.u32()?;
    ValueKind::from_code(code).ok_or_else(|| GgufError::ValueType { at: cursor.at(start), code })
}

fn value<'a>(cursor: &mut Cursor<'a, '_>, kind: ValueKind) -> Result<Value<'a>, GgufError> {
    Ok(match kind {
        ValueKind::U8 => Value::U8(cursor.u8()?),
        ValueKind::I8 => Value::I8(cursor.u8()?.cast_signed()),
        ValueKind::U16 => Value::U16(cursor.u16()?),
        ValueKind::I16 => Value::I16(cursor.u16()?.cast_signed()),
        ValueKind::U32 => Value::U32(cursor.u32()?),
        ValueKind::I32 => Value::I32(cursor.u32()?.cast_signed()),
        ValueKind::F32 => Value::F32(f32::from_bits(cursor.u32()?)),
        ValueKind::Bool => Value::Bool(boolean(cursor)?),
        ValueKind::String => Value::String(cursor.string()?),
        ValueKind::Array => Value::Array(array(cursor)?),
        ValueKind::U64 => Value::U64(cursor.u64()?),
        ValueKind::I64 => Value::I64(cursor.u64()?.cast_signed()),
        ValueKind::F64 => Value::F64(f64::from_bits(cursor.u64()?)),
    })
}

fn boolean(cursor: &mut Cursor<'_, '_>) -> Result<bool, GgufError> {
    let start = cursor.pos();
    match cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        byte => Err(GgufError::Bool { at: cursor.at(start), byte }),
    }
}

fn array<'a>(cursor: &mut Cursor<'a, '_>) -> Result<Array<'a>, GgufError> {
    let start = cursor.pos();
    let kind = value_kind(cursor)?;
    if kind == ValueKind::Array {
        return Err(GgufError::NestedArray { at: cursor.at(start) });
    }
    let count = cursor.count(kind.min_size())?;
    let elements = cursor.pos();
    match kind {
        // Walking them now is what lets `Strings` be infallible.
        ValueKind::String => (0..count).try_for_each(|_| cursor.string().map(drop))?,
        ValueKind::Bool => (0..count).try_for_each(|_| boolean(cursor).map(drop))?,
        _ => cursor.take(count * kind.min_size() as u64).map(drop)?,
    }
    // The count was checked against the file's length, so it fits.
    Ok(Array { kind, len: count as usize, bytes: cursor.since(elements) })
}

fn alignment(entry: &Entry<'_>, file: &Path) -> Result<usize, GgufError> {
    let at = || locate(file, Field::Key(entry.key), entry.offset);
    match entry.value {
        Value::U32(n) if n.is_power_of_two() && n >= 8 => Ok(n as usize),
        Value::U32(found) => Err(GgufError::Alignment { at: at(), found }),
        other => Err(GgufError::WrongType { at: at(), expected: "u32", found: other.type_name() }),
    }
}

/// A tensor record whose data's place in the file is not yet known.
struct Record<'a> {
    name: &'a str,
    dims: Vec<usize>,
    kind: TensorKind,
    bytes: usize,
    offset: u64,
    start: usize,
}

fn record<'a>(cursor: &mut Cursor<'a, '_>, index: u64, alignment: usize) -> Result<Record<'a>, GgufError> {
    cursor.field = Field::TensorRecord(index);
    let start = cursor.pos();
    let name = cursor.string()?;
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(GgufError::NameLength { at: cursor.at(start), len: name.len() });
    }
    let name = std::str::from_utf8(name).map_err(|_| GgufError::Utf8 { at: cursor.at(start) })?;
    cursor.field = Field::Tensor(name);

    let at = cursor.pos();
    let count = cursor.u32()?;
    if !(1..=MAX_DIMS).contains(&count) {
        return Err(GgufError::DimensionCount { at: cursor.at(at), count });
    }
    let dims_at = cursor.pos();
    let raw_dims = (0..count).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>()?;
    if let Some(index) = raw_dims.iter().position(|&dim| dim == 0) {
        return Err(GgufError::ZeroDimension { at: cursor.at(dims_at + 8 * index), index });
    }
    let at = cursor.pos();
    let code = cursor.u32()?;
    let kind =
        TensorKind::from_code(code).ok_or_else(|| GgufError::TensorKind { at: cursor.at(at), code })?;
    let Some((dims, bytes)) = size(&raw_dims, kind) else {
        return Err(GgufError::ShapeOverflow { at: cursor.at(dims_at), dims: raw_dims });
    };
    if !dims[0].is_multiple_of(kind.block_len()) {
        let (row, block) = (dims[0], kind.block_len());
        return Err(GgufError::PartialBlock { at: cursor.at(dims_at), row, kind, block });
    }
    let at = cursor.pos();
    let offset = cursor.u64()?;
    if !offset.is_multiple_of(alignment as u64) {
        return Err(GgufError::Misaligned { at: cursor.at(at), found: offset, alignment });
    }
    Ok(Record { name, dims, kind, bytes, offset, start })
}

/// The shape, and its size in bytes, if both can be addressed.
fn size(dims: &[u64], kind: TensorKind) -> Option<(Vec<usize>, usize)> {
    let dims = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<Vec<_>>>()?;
    let bytes = kind.storage_bytes(&dims)?;
    Some((dims, bytes))
}

impl Record<'_> {
    /// Turns the offset into an absolute range, which must lie in the file.
    fn place(self, data_start: usize, len: usize, file: &Path) -> Result<TensorInfo, GgufError> {
        // Saturation is past the end of any file.
        let start = (data_start as u64).saturating_add(self.offset);
        let end = start.saturating_add(self.bytes as u64);
        if end > len as u64 {
            let at = locate(file, Field::Tensor(self.name), self.start);
            return Err(GgufError::PastEnd { at, end, len });
        }
        Ok(TensorInfo {
            name: self.name.to_owned(),
            dims: self.dims,
            kind: self.kind,
            part: 0,
            range: start as usize..end as usize,
            record: self.start,
        })
    }
}

fn check_disjoint(tensors: &[TensorInfo], file: &Path) -> Result<(), GgufError> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_unstable_by_key(|tensor| tensor.range.start);
    for pair in order.windows(2) {
        if pair[1].range.start < pair[0].range.end {
            return Err(GgufError::Overlap {
                at: locate(file, Field::Tensor(&pair[1].name), pair[1].record),
                other: printable(&pair[0].name),
            });
        }
    }
    Ok(())
}

/// Refuses shards joined by `cat`: another magic right after the data, padded or not.
fn check_not_joined(
    bytes: &[u8],
    tensors: &[TensorInfo],
    data_start: usize,
    alignment: usize,
    file: &Path,
) -> Result<(), GgufError> {
    let end = tensors.iter().map(|tensor| tensor.range.end).max().unwrap_or(data_start);
    for offset in [end, align_up(end, alignment)] {
        if bytes.get(offset..).is_some_and(|rest| rest.starts_with(MAGIC)) {
            return Err(GgufError::Joined { at: locate(file, Field::Header("end of data"), offset) });
        }
    }
    Ok(())
}

/// The next multiple of `alignment`, saturating: past the end of any file.
fn align_up(offset: usize, alignment: usize) -> usize {
    offset.checked_next_multiple_of(alignment).unwrap_or(usize::MAX)
}
