//! Models split into several files, `NAME-00001-of-00003.gguf` and so on.
//!
//! Each file is a GGUF file of its own. The first has the metadata (and possibly no tensors); `split.no` counts
//! from 0, file names from 1, and `split.tensors.count` is that of all files together.

use std::path::{Path, PathBuf};

use super::cursor::{Field, locate};
use super::{Gguf, GgufError, Part, TensorInfo};

/// The name of one file of a split model.
///
/// ```
/// use fura_model::gguf::ShardName;
///
/// let name = ShardName::parse("models/m-00002-of-00003.gguf".as_ref()).unwrap();
/// assert_eq!(name.count(), 3);
/// assert_eq!(name.path(0), std::path::Path::new("models/m-00001-of-00003.gguf"));
/// assert!(ShardName::parse("models/m.gguf".as_ref()).is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardName {
    folder: PathBuf,
    stem: String,
    count: usize,
}

impl ShardName {
    /// The name as one of a split model's; `None` if it is not of that form.
    #[must_use]
    pub fn parse(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = name.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| {
            let five = text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
            five.then(|| text.parse::<usize>().ok()).flatten()
        };
        let (number, count) = (digits(number)?, digits(count)?);
        let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
        (1..=count).contains(&number).then(|| Self { folder, stem: stem.to_owned(), count })
    }

    /// The number of files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The path of file `index`, from 0.
    #[must_use]
    pub fn path(&self, index: usize) -> PathBuf {
        self.folder.join(format!("{}-{:05}-of-{:05}.gguf", self.stem, index + 1, self.count))
    }
}

impl<'a> Gguf<'a> {
    /// Joins the files of a split model, given in order: the metadata of the first, the tensors of all.
    ///
    /// A single file that is not a part of several is returned as it is.
    ///
    /// # Errors
    /// [`GgufError::Split`] if the files are not all of one model's, each in its place;
    /// [`GgufError::DuplicateTensor`].
    pub fn join(parts: Vec<Self>) -> Result<Self, GgufError> {
        let count = parts.len();
        let mut parts = parts.into_iter();
        let Some(mut whole) = parts.next() else {
            return Err(GgufError::Split { file: PathBuf::new(), problem: "there are no files".to_owned() });
        };
        whole.check_place(0, count)?;
        for (index, part) in (1..).zip(parts) {
            part.check_place(index, count)?;
            let mut names: Vec<(&str, usize)> = part.by_name.into_iter().collect();
            names.sort_unstable_by_key(|(_, i)| *i);
            whole.parts.extend(part.parts);
            for ((name, _), mut tensor) in names.into_iter().zip(part.tensors) {
                tensor.part = index;
                if let Some(&first) = whole.by_name.get(name) {
                    let at = locate(&part.file, Field::Tensor(name), tensor.record);
                    return Err(GgufError::DuplicateTensor { at, first: whole.tensors[first].record });
                }
                whole.by_name.insert(name, whole.tensors.len());
                whole.tensors.push(tensor);
            }
        }
        match whole.opt_count("split.tensors.count")? {
            Some(n) if count > 1 && n != whole.tensors.len() as u64 => {
                let found = whole.tensors.len();
                let problem = format!("'split.tensors.count' says {n} tensors, the files have {found}");
                Err(GgufError::Split { file: whole.file, problem })
            }
            _ => Ok(whole),
        }
    }

    /// This file with `tensors` of other files: part `i` of theirs, from 1, is `parts[i - 1]`.
    ///
    /// # Errors
    /// [`GgufError::DuplicateTensor`].
    pub(crate) fn with_tensors(
        mut self,
        parts: impl Iterator<Item = (&'a [u8], &'a Path)>,
        tensors: &'a [TensorInfo],
    ) -> Result<Self, GgufError> {
        self.parts.extend(parts.map(|(bytes, file)| Part { bytes, file: file.to_path_buf() }));
        for tensor in tensors {
            if let Some(first) = self.by_name.insert(&tensor.name, self.tensors.len()) {
                let file = &self.parts[tensor.part].file;
                let at = locate(file, Field::Tensor(&tensor.name), tensor.record);
                return Err(GgufError::DuplicateTensor { at, first: self.tensors[first].record });
            }
            self.tensors.push(tensor.clone());
        }
        Ok(self)
    }

    /// Whether the file is number `index` of `count`, by its own metadata.
    fn check_place(&self, index: usize, count: usize) -> Result<(), GgufError> {
        let of = self.opt_count("split.count")?.unwrap_or(1).max(1);
        let number = self.opt_count("split.no")?.unwrap_or(0);
        let problem = if of != count as u64 {
            format!("it is one of {of} files that make up a model, {count} found by its name")
        } else if number != index as u64 {
            format!("it is file {} of the model, expected {}", number.saturating_add(1), index + 1)
        } else {
            return Ok(());
        };
        Err(GgufError::Split { file: self.file.clone(), problem })
    }
}
