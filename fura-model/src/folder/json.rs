//! Reading JSON of limited size, with objects that keep their order and refuse a key given twice.

use super::FolderError;
use crate::error::ModelError;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

/// The members of an object in order, no key twice.
#[derive(Debug)]
pub(super) struct Pairs<V>(pub(super) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let (mut seen, mut out) = (HashSet::new(), Vec::new());
                while let Some(key) = map.next_key::<String>()? {
                    if !seen.insert(key.clone()) {
                        let key = crate::gguf::printable(&key);
                        return Err(A::Error::custom(format_args!("key '{key}' is given twice")));
                    }
                    out.push((key, map.next_value()?));
                }
                Ok(Pairs(out))
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// The bytes of a file of at most `limit`.
pub(super) fn read(file: &Path, limit: usize) -> Result<Vec<u8>, ModelError> {
    let io = |source| ModelError::Io { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    let open = std::fs::File::open(file).map_err(io)?;
    open.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() > limit {
        return Err(io(std::io::Error::other(format!("larger than {limit} bytes, not what it should be"))));
    }
    Ok(bytes)
}

/// Parses `bytes`, which begin at byte `start` of the file.
pub(super) fn parse<T: DeserializeOwned>(file: &Path, start: usize, bytes: &[u8]) -> Result<T, FolderError> {
    serde_json::from_slice(bytes).map_err(|e| {
        let lines = bytes.split_inclusive(|b| *b == b'\n').take(e.line().saturating_sub(1));
        let offset = start + lines.map(<[u8]>::len).sum::<usize>() + e.column();
        let text = e.to_string();
        // The place is said once, in bytes.
        let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem);
        FolderError::Json { file: file.to_owned(), offset, problem: problem.replace('\n', " ") }
    })
}
