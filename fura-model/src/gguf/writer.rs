//! Writing small GGUF files.

use std::path::Path;

use super::{DEFAULT_ALIGNMENT, Gguf, GgufError, TensorKind, Value, ValueKind};

/// Builds a GGUF file in memory: for tests, tiny models and vocabulary-only files.
///
/// Records keep the order of the calls. [`finish`](Self::finish) checks the result with [`Gguf::parse`],
/// so a file that this writes is one that this crate reads. See the [module's example](super).
#[derive(Debug, Clone)]
pub struct GgufWriter {
    version: u32,
    alignment: usize,
    entry_count: u64,
    entries: Vec<u8>,
    tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
struct Tensor {
    name: String,
    dims: Vec<usize>,
    kind: TensorKind,
    data: Vec<u8>,
}

impl Tensor {
    /// A shape that overflows is left for the reader to refuse.
    fn check_length(&self) -> Result<(), GgufError> {
        match self.kind.storage_bytes(&self.dims) {
            Some(expected) if expected != self.data.len() => {
                Err(GgufError::DataLength { name: self.name.clone(), expected, found: self.data.len() })
            }
            _ => Ok(()),
        }
    }
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl GgufWriter {
    /// An empty file of version 3 with the default alignment.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: 3,
            alignment: DEFAULT_ALIGNMENT,
            entry_count: 0,
            entries: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Sets the format version: 2 or 3, which differ in nothing else here.
    pub fn version(&mut self, version: u32) -> &mut Self {
        self.version = version;
        self
    }

    /// Aligns tensor data to `alignment` bytes (a power of two of at least 8) and records that in
    /// `general.alignment`. Call it at most once.
    pub fn alignment(&mut self, alignment: u32) -> &mut Self {
        self.alignment = alignment as usize;
        self.kv("general.alignment", alignment)
    }

    /// Adds a metadata record.
    pub fn kv<'a>(&mut self, key: &str, value: impl Into<Value<'a>>) -> &mut Self {
        let value = value.into();
        self.key(key, value.kind());
        let out = &mut self.entries;
        match value {
            Value::U8(v) => out.extend(v.to_le_bytes()),
            Value::I8(v) => out.extend(v.to_le_bytes()),
            Value::U16(v) => out.extend(v.to_le_bytes()),
            Value::I16(v) => out.extend(v.to_le_bytes()),
            Value::U32(v) => out.extend(v.to_le_bytes()),
            Value::I32(v) => out.extend(v.to_le_bytes()),
            Value::F32(v) => out.extend(v.to_le_bytes()),
            Value::Bool(v) => out.push(u8::from(v)),
            Value::String(v) => put_string(out, v),
            Value::Array(v) => {
                put_array_head(out, v.kind, v.len);
                out.extend(v.bytes);
            }
            Value::U64(v) => out.extend(v.to_le_bytes()),
            Value::I64(v) => out.extend(v.to_le_bytes()),
            Value::F64(v) => out.extend(v.to_le_bytes()),
        }
        self
    }

    /// Adds an array of strings.
    pub fn strings<S: AsRef<[u8]>>(&mut self, key: &str, values: &[S]) -> &mut Self {
        self.key(key, ValueKind::Array);
        put_array_head(&mut self.entries, ValueKind::String, values.len());
        for value in values {
            put_string(&mut self.entries, value.as_ref());
        }
        self
    }

    /// Adds an array of `i32`.
    pub fn i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        self.key(key, ValueKind::Array);
        put_array_head(&mut self.entries, ValueKind::I32, values.len());
        self.entries.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }

    /// Adds an array of `f32`.
    pub fn f32s(&mut self, key: &str, values: &[f32]) -> &mut Self {
        self.key(key, ValueKind::Array);
        put_array_head(&mut self.entries, ValueKind::F32, values.len());
        self.entries.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }

    /// Adds a tensor: `dims` fastest first, `data` as stored in the file.
    pub fn tensor(
        &mut self,
        name: &str,
        dims: &[usize],
        kind: TensorKind,
        data: impl Into<Vec<u8>>,
    ) -> &mut Self {
        self.tensors.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), kind, data: data.into() });
        self
    }

    /// The whole file.
    ///
    /// # Errors
    /// [`GgufError::DataLength`] if a tensor's data does not have the size of its shape; whatever
    /// [`Gguf::parse`] finds wrong, such as a duplicate name.
    pub fn finish(&self) -> Result<Vec<u8>, GgufError> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.entry_count.to_le_bytes());
        out.extend(&self.entries);

        let mut data = Vec::new();
        for tensor in &self.tensors {
            tensor.check_length()?;
            put_string(&mut out, tensor.name.as_bytes());
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|&dim| (dim as u64).to_le_bytes()));
            out.extend(tensor.kind.code().to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
            pad(&mut data, self.alignment);
        }
        pad(&mut out, self.alignment);
        out.extend(data);

        Gguf::parse(&out, Path::new("GgufWriter"))?;
        Ok(out)
    }

    fn key(&mut self, key: &str, kind: ValueKind) {
        self.entry_count += 1;
        put_string(&mut self.entries, key.as_bytes());
        self.entries.extend(kind.code().to_le_bytes());
    }
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

fn put_array_head(out: &mut Vec<u8>, kind: ValueKind, len: usize) {
    out.extend(kind.code().to_le_bytes());
    out.extend((len as u64).to_le_bytes());
}

/// Fills up with zeros; an alignment of 0 is left for the reader to refuse.
fn pad(out: &mut Vec<u8>, alignment: usize) {
    if let Some(len) = out.len().checked_next_multiple_of(alignment.max(1)) {
        out.resize(len, 0);
    }
}
