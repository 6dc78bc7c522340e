//! The specialist file: trained coordinates, and proof of which model they belong to.
//!
//! A safetensors file, so any tool that opens those can read it: one 1-D tensor per linear, all `F32` or
//! all `F16`, named as the linear, in layout order; the metadata are strings:
//!
//! | key | value |
//! |---|---|
//! | `format` | `fura-specialist` |
//! | `version` | `1` |
//! | `base` | fingerprint of the base model, 64 hexadecimal digits |
//! | `block` | column block size |
//! | `layout` | [`Layout::canonical`]: every linear's name and shape |
//! | `layout_hash` | [`Layout::fingerprint`] |
//! | `name`, `task`, `created_by` | free text |
//!
//! A coordinate means something only with the base model's own block spectra, hence the content
//! fingerprint: [`Specialist::check_base`] refuses anything but a full match. Files are written
//! byte for byte the same from the same specialist, through a temporary file and a rename, so
//! saving over a file that is memory-mapped or in use is safe.
//!
//! A specialist may also travel as the log of the run that trained it, which is smaller by far for a large
//! model: [`Specialist::from_run_log`].

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

mod arithmetic;
mod half;

use crate::durable::{parent, sync_entry};
use crate::fingerprint::Fingerprint;
use crate::layout::{Layout, MAX_COORDINATES};
use crate::runlog::{RunHistory, replay};

const FORMAT: &str = "fura-specialist";
const VERSION: &str = "1";

/// Largest file read: every coordinate a layout may have, and a header of 64 MiB.
const MAX_BYTES: u64 = 4 * MAX_COORDINATES as u64 + (64 << 20);

/// Why a specialist was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecialistError {
    /// Reading or writing failed.
    #[error("specialist {path}: {action} failed: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The bytes are not a whole safetensors file.
    #[error(
        "specialist {path}: {file_bytes} bytes are not a whole safetensors file ({reason}); download or train it again"
    )]
    Container {
        /// The file.
        path: PathBuf,
        /// Its length.
        file_bytes: u64,
        /// The container's reason.
        reason: String,
    },
    /// A metadata field is missing or wrong.
    #[error("specialist {path}: metadata {field:?}: {problem}")]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A tensor does not fit the layout.
    #[error("specialist {path}: tensor {tensor:?}: {problem}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// A coordinate is not a number in `(-1, 1)`.
    #[error(
        "specialist: tensor {tensor:?}, index {index}: coordinate {value}, expected a number strictly between -1 and 1; train it again"
    )]
    Value {
        /// The linear.
        tensor: String,
        /// Input channel.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The number of coordinates is not the layout's.
    #[error("specialist: {found} coordinates, expected {expected} by its layout")]
    Length {
        /// Coordinates given.
        found: usize,
        /// Coordinates of the layout.
        expected: usize,
    },
    /// Nothing to average.
    #[error("specialist: an average of no specialists; give at least one")]
    Empty,
    /// Two specialists are not of one base and layout.
    #[error("specialists {left:?} and {right:?} cannot be combined: {difference}")]
    Mismatch {
        /// The first one's name.
        left: String,
        /// The second one's name.
        right: String,
        /// Everything that differs, and what to do.
        difference: String,
    },
    /// A run cannot be replayed.
    #[error("specialist of a run log: {0}")]
    Replay(#[from] crate::estimator::EstimatorError),
    /// The specialist was trained on another model or layout.
    #[error("specialist {name:?} does not fit this model: {difference}")]
    WrongBase {
        /// The specialist's name.
        name: String,
        /// Everything that differs, and what to do.
        difference: String,
    },
}

/// How a file stores coordinates. In memory they are `f32` always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Rounded to the nearest binary16, ties to even, in half the space. The relative error is at most
    /// 2^-11 down to 6e-5, and the absolute one 2^-25 below. What would round to 1 or -1 becomes the
    /// nearest number inside.
    F16,
}

impl Precision {
    fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    fn dtype(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
        }
    }
}

/// Free text a specialist carries about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// What to call it.
    pub name: String,
    /// What it was trained to do.
    pub task: String,
    /// Program and version that made it.
    pub created_by: String,
}

/// Trained coordinates with the identity of their base model.
///
/// ```
/// use fura_core::fingerprint::Fingerprint;
/// use fura_core::layout::{Layout, Linear};
/// use fura_core::specialist::{Provenance, Specialist};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("phone.safetensors");
/// let base = Fingerprint::of(b"model");
/// let layout = Layout::new(32, [Linear::new("blk.0.attn_q.weight", 64, 64)])?;
/// let specialist = Specialist::new(base, layout.clone(), vec![0.01; 64], Provenance::default())?;
/// specialist.save(&path)?;
/// let loaded = Specialist::load(&path)?;
/// loaded.check_base(&base, &layout)?;
/// assert!(loaded.check_base(&Fingerprint::of(b"other"), &layout).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Specialist {
    base: Fingerprint,
    layout: Layout,
    coordinates: Vec<f32>,
    provenance: Provenance,
}

impl Specialist {
    /// A specialist of the model `base` with these coordinates in flat layout order.
    ///
    /// # Errors
    /// A wrong number of coordinates, or a value outside `(-1, 1)`.
    pub fn new(
        base: Fingerprint,
        layout: Layout,
        coordinates: Vec<f32>,
        provenance: Provenance,
    ) -> Result<Self, SpecialistError> {
        let (found, expected) = (coordinates.len(), layout.coordinates());
        if found != expected {
            return Err(SpecialistError::Length { found, expected });
        }
        for (l, linear) in layout.linears().iter().enumerate() {
            for (index, &value) in coordinates[layout.range(l)].iter().enumerate() {
                if value.is_nan() || value.abs() >= 1.0 {
                    return Err(SpecialistError::Value { tensor: linear.name.clone(), index, value });
                }
            }
        }
        Ok(Self { base, layout, coordinates, provenance })
    }

    /// Rebuilds the specialist of a run from its log alone, without the model: bit for bit what training
    /// arrived at. The log may end anywhere; its header says what the provenance does not.
    ///
    /// ```
    /// use fura_core::estimator::EsConfig;
    /// use fura_core::fingerprint::Fingerprint;
    /// use fura_core::layout::{Layout, Linear};
    /// use fura_core::runlog::{RunHeader, RunLog};
    /// use fura_core::specialist::Specialist;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("run.furalog");
    /// let layout = Layout::new(4, [Linear::new("w", 8, 8)])?;
    /// let config = EsConfig { pairs: 1, ..EsConfig::default() };
    /// let header = RunHeader::new(Fingerprint::of(b"model"), layout, config, "toy");
    /// RunLog::create(&path, &header)?.append_generation(&[1.0, 0.0])?;
    /// let history = RunLog::read(&std::fs::read(&path)?, &path)?;
    /// let specialist = Specialist::from_run_log(&history)?;
    /// assert_eq!(specialist.base(), Fingerprint::of(b"model"));
    /// assert!(specialist.coordinates().iter().any(|&c| c != 0.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpecialistError::Replay`] for a history that does not fit its header, or one of
    /// [absolute](crate::estimator::Coordinates::Absolute) coordinates, which needs the singular values:
    /// [`replay_absolute`](crate::runlog::replay_absolute).
    pub fn from_run_log(history: &RunHistory) -> Result<Self, SpecialistError> {
        let RunHistory { header, generations, .. } = history;
        let coordinates = replay(header, generations)?.final_coordinates();
        let provenance = Provenance {
            name: String::new(),
            task: header.task.clone(),
            created_by: header.created_by.clone(),
        };
        Self::new(header.base, header.layout.clone(), coordinates, provenance)
    }

    /// Fingerprint of the base model.
    pub fn base(&self) -> Fingerprint {
        self.base
    }

    /// The linears it adapts.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The coordinates, in flat layout order.
    pub fn coordinates(&self) -> &[f32] {
        &self.coordinates
    }

    /// What it says about itself.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Checks that this specialist belongs to the model at hand: content fingerprint, block
    /// size, and every linear's name, shape and place.
    ///
    /// # Errors
    /// [`SpecialistError::WrongBase`] listing everything that differs.
    pub fn check_base(&self, base: &Fingerprint, layout: &Layout) -> Result<(), SpecialistError> {
        let difference = self.difference_from(base, layout, "this model");
        match difference.is_empty() {
            true => Ok(()),
            false => Err(SpecialistError::WrongBase { name: self.provenance.name.clone(), difference }),
        }
    }

    /// Everything in which its base differs from that of `whom`; empty if nothing does.
    fn difference_from(&self, base: &Fingerprint, layout: &Layout, whom: &str) -> String {
        let mut difference = String::new();
        let mut add = |text: String| {
            let separator = if difference.is_empty() { "" } else { "; " };
            // Writing to a String does not fail.
            let _ = write!(difference, "{separator}{text}");
        };
        if self.base != *base {
            let its = self.base;
            add(format!(
                "it was trained on base {its}, {whom} is {base}: use the very file it was trained on"
            ));
        }
        if self.layout.block() != layout.block() {
            let (its, ours) = (self.layout.block(), layout.block());
            add(format!("its block size is {its}, that of {whom} {ours}: load the model with its block"));
        }
        let (its, ours) = (self.layout.linears(), layout.linears());
        let only_its: Vec<&str> = names_missing(&self.layout, layout);
        let only_ours: Vec<&str> = names_missing(layout, &self.layout);
        if !only_its.is_empty() || !only_ours.is_empty() {
            let (its, ours) = (shortened(&only_its), shortened(&only_ours));
            add(format!("linears only it has: {its}; only {whom} has: {ours}"));
        } else if let Some((a, b)) = its.iter().zip(ours).find(|(a, b)| a != b) {
            add(match a.name == b.name {
                true => format!(
                    "linear {:?} is {} x {} in it, {} x {} in {whom}",
                    a.name, a.d_out, a.d_in, b.d_out, b.d_in
                ),
                false => format!("it lists linear {:?} where {whom} lists {:?}", a.name, b.name),
            });
        }
        difference
    }

    /// The bytes of its file in `f32`; equal specialists give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_as(Precision::F32)
    }

    /// The bytes of its file; equal specialists give equal bytes.
    pub fn to_bytes_as(&self, precision: Precision) -> Vec<u8> {
        // Written here because the safetensors crate takes metadata in a hash map, whose order
        // differs from run to run.
        let block = self.layout.block().to_string();
        let (base, layout) = (self.base.to_string(), self.layout.canonical());
        let layout_hash = self.layout.fingerprint().to_string();
        let metadata = [
            ("format", FORMAT),
            ("version", VERSION),
            ("base", &base),
            ("block", &block),
            ("layout", &layout),
            ("layout_hash", &layout_hash),
            ("name", &self.provenance.name),
            ("task", &self.provenance.task),
            ("created_by", &self.provenance.created_by),
        ];
        let mut header = String::from("{\"__metadata__\":{");
        for (i, (key, value)) in metadata.into_iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let _ = write!(header, "{comma}{}:{}", quoted(key), quoted(value));
        }
        header.push('}');
        for (l, linear) in self.layout.linears().iter().enumerate() {
            let range = self.layout.range(l);
            let (width, dtype) = (precision.bytes(), precision.dtype());
            let _ = write!(
                header,
                ",{}:{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                quoted(&linear.name),
                linear.d_in,
                width * range.start,
                width * range.end
            );
        }
        header.push('}');
        // Spaces bring the data to a multiple of 8, as the format asks.
        header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
        let mut bytes = Vec::with_capacity(8 + header.len() + precision.bytes() * self.coordinates.len());
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header.as_bytes());
        let coordinates = self.coordinates.iter();
        match precision {
            Precision::F32 => bytes.extend(coordinates.flat_map(|c| c.to_le_bytes())),
            Precision::F16 => bytes.extend(coordinates.flat_map(|&c| half::from_f32(c).to_le_bytes())),
        }
        bytes
    }

    /// Reads a specialist from a file's bytes; `path` is only for messages.
    ///
    /// # Errors
    /// Anything that is not a whole, consistent specialist of a version this crate knows.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, SpecialistError> {
        let container = |error: safetensors::SafeTensorError| SpecialistError::Container {
            path: path.to_path_buf(),
            file_bytes: bytes.len() as u64,
            reason: error.to_string(),
        };
        let metadata_error =
            |field, problem| SpecialistError::Metadata { path: path.to_path_buf(), field, problem };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(container)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(container)?;
        let field = |field: &'static str| {
            (header.metadata().as_ref().and_then(|metadata| metadata.get(field)))
                .ok_or_else(|| metadata_error(field, "missing; is this a fura specialist?".into()))
        };
        for (key, expected) in [("format", FORMAT), ("version", VERSION)] {
            let found = field(key)?;
            if found != expected {
                let problem = format!("is {found:?}, expected {expected:?}; use the fura that wrote it");
                return Err(metadata_error(key, problem));
            }
        }
        let base = (field("base")?.parse()).map_err(|e| metadata_error("base", format!("{e}")))?;
        let layout: Layout = serde_json::from_str(field("layout")?)
            .map_err(|error| metadata_error("layout", error.to_string()))?;
        for (key, expected) in
            [("block", layout.block().to_string()), ("layout_hash", layout.fingerprint().to_string())]
        {
            let found = field(key)?;
            if *found != expected {
                let problem = format!("is {found:?}, but the layout says {expected:?}; the file was altered");
                return Err(metadata_error(key, problem));
            }
        }
        let provenance = Provenance {
            name: field("name")?.clone(),
            task: field("task")?.clone(),
            created_by: field("created_by")?.clone(),
        };
        let coordinates = gather(&tensors, &layout, path)?;
        Self::new(base, layout, coordinates, provenance)
    }

    /// Writes the file in `f32`: to a temporary file beside it, flushed, then renamed into place.
    ///
    /// # Errors
    /// I/O; whatever was at `path` is then untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SpecialistError> {
        self.save_as(path, Precision::F32)
    }

    /// As [`save`](Self::save), in a chosen precision.
    ///
    /// ```
    /// use fura_core::fingerprint::Fingerprint;
    /// use fura_core::layout::{Layout, Linear};
    /// use fura_core::specialist::{Precision, Provenance, Specialist};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("half.safetensors");
    /// let layout = Layout::new(2, [Linear::new("w", 2, 2)])?;
    /// let exact = Specialist::new(Fingerprint::of(b"m"), layout, vec![0.1, 0.5], Provenance::default())?;
    /// exact.save_as(&path, Precision::F16)?;
    /// let read = Specialist::load(&path)?; // nothing to say: the file knows
    /// assert_eq!(read.coordinates(), [0.099975586, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn save_as(&self, path: impl AsRef<Path>, precision: Precision) -> Result<(), SpecialistError> {
        let path = path.as_ref();
        let failed = |action: &'static str| {
            move |source: io::Error| SpecialistError::Io { path: path.to_path_buf(), action, source }
        };
        let mut builder = tempfile::Builder::new();
        // Temporary files are private by default; this one becomes an ordinary file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(parent(path)).map_err(failed("creating a temporary file"))?;
        (file.write_all(&self.to_bytes_as(precision)).and_then(|()| file.as_file().sync_all()))
            .map_err(failed("writing"))?;
        file.persist(path).map_err(|error| failed("renaming into place")(error.error))?;
        sync_entry(path).map_err(failed("flushing the directory"))
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// I/O, a file too large to be a specialist, or as [`from_bytes`](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SpecialistError> {
        let path = path.as_ref();
        let failed = |source| SpecialistError::Io { path: path.to_path_buf(), action: "reading", source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(SpecialistError::Container {
                path: path.to_path_buf(),
                file_bytes: bytes.len() as u64,
                reason: "too large for a specialist".into(),
            });
        }
        Self::from_bytes(&bytes, path)
    }
}

/// A string as JSON.
fn quoted(text: &str) -> String {
    // Serializing a string has no failing case.
    serde_json::to_string(text).expect("a string is JSON")
}

/// The coordinates in layout order from a file that has exactly the layout's tensors.
fn gather(tensors: &SafeTensors<'_>, layout: &Layout, path: &Path) -> Result<Vec<f32>, SpecialistError> {
    let wrong = |tensor: &str, problem: String| SpecialistError::Tensor {
        path: path.to_path_buf(),
        tensor: tensor.to_owned(),
        problem,
    };
    // All shapes are checked against the file's bytes before anything is reserved.
    let mut data = Vec::new();
    let mut precision = None;
    for linear in layout.linears() {
        let name = linear.name.as_str();
        let Ok(tensor) = tensors.tensor(name) else {
            let mut names = tensors.names();
            names.sort_unstable();
            let problem = format!("missing; the file has {}", shortened(&names));
            return Err(wrong(name, problem));
        };
        let found = match tensor.dtype() {
            Dtype::F32 => Some(Precision::F32),
            Dtype::F16 => Some(Precision::F16),
            _ => None,
        };
        // The first tensor decides what all of them are.
        precision = precision.or(found);
        if found.is_none() || found != precision || tensor.shape() != [linear.d_in] {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            let expected = precision.map_or("F32 or F16", Precision::dtype);
            let problem = format!("is {dtype:?} {shape:?}, expected {expected} [{}]", linear.d_in);
            return Err(wrong(name, problem));
        }
        data.push(tensor.data());
    }
    if tensors.len() != data.len() {
        let known = name_set(layout);
        let mut extra = tensors.names();
        extra.retain(|name| !known.contains(name));
        extra.sort_unstable();
        return Err(wrong(
            extra.first().copied().unwrap_or_default(),
            format!("not in the file's layout; tensors without a linear: {}", shortened(&extra)),
        ));
    }
    let mut coordinates = Vec::with_capacity(layout.coordinates());
    for bytes in data {
        match precision {
            Some(Precision::F16) => {
                let halves = bytes.as_chunks::<2>().0.iter().map(|&c| u16::from_le_bytes(c));
                coordinates.extend(halves.map(half::to_f32));
            }
            _ => coordinates.extend(bytes.as_chunks::<4>().0.iter().map(|&c| f32::from_le_bytes(c))),
        }
    }
    Ok(coordinates)
}

fn name_set(layout: &Layout) -> HashSet<&str> {
    layout.linears().iter().map(|linear| linear.name.as_str()).collect()
}

/// Names in `layout` that `other` lacks.
fn names_missing<'a>(layout: &'a Layout, other: &Layout) -> Vec<&'a str> {
    let theirs = name_set(other);
    let names = layout.linears().iter().map(|linear| linear.name.as_str());
    names.filter(|name| !theirs.contains(name)).collect()
}

/// Names for a one-line message: the first four and a count.
fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    if names.is_empty() {
        return "none".into();
    }
    let mut text = String::new();
    for (i, name) in names.iter().take(SHOWN).enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{name:?}");
    }
    if names.len() > SHOWN {
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}
