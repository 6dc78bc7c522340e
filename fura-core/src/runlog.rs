//! The run log: a run is its header and its rewards.
//!
//! Append-only, flushed after every generation, self-checking. Since the coordinates are a
//! function of the header and the rewards, [`replay`] recomputes them without the model: resume,
//! recovery from a crash, audit and distribution are one mechanism.
//!
//! # Format
//! `"FURALOG1"`, then records `{u32 LE payload length, u8 kind, payload, 8-byte tag}`, the tag
//! being the first 8 bytes of BLAKE3 over the previous record's tag (the magic for the
//! first), the length, the kind and the payload. Kinds: 1 header (JSON of [`RunHeader`], always
//! and only first), 2 generation (u32 index, u32 member count, f64 rewards, little-endian), 3 note
//! (JSON of the caller's), 4 finished (empty, last).
//!
//! # Damage
//! A file cut anywhere is a run up to its last whole record; [`RunLog::resume`] cuts the torn
//! tail off and says how much it was. A bad record *followed by a good one* was not a
//! torn write: that is an error naming the offset, and nothing is changed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

mod record;

use crate::durable::sync_entry;
use crate::estimator::{EsConfig, Estimator, EstimatorError};
use crate::fingerprint::Fingerprint;
use crate::layout::Layout;
use record::{Kind, MAGIC, Record, Rest, Tag};

/// Version of the header and of everything that turns rewards into coordinates.
pub const FORMAT_VERSION: u32 = 1;

/// Largest file read (2^30 bytes; a thousand generations of a thousand members are 8 * 10^6).
const MAX_BYTES: u64 = 1 << 30;

/// What a run is: everything but its rewards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHeader {
    /// [`FORMAT_VERSION`] of the writer.
    pub format: u32,
    /// Content fingerprint of the base model.
    pub base: Fingerprint,
    /// The linears trained.
    pub layout: Layout,
    /// Estimator settings.
    pub config: EsConfig,
    /// The task, in the caller's words or JSON.
    pub task: String,
    /// Program and version that wrote the log.
    pub created_by: String,
}

impl RunHeader {
    /// A header of the current format, written by this version of this crate.
    pub fn new(base: Fingerprint, layout: Layout, config: EsConfig, task: impl Into<String>) -> Self {
        Self {
            format: FORMAT_VERSION,
            base,
            layout,
            config,
            task: task.into(),
            created_by: concat!("fura-core ", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}

/// A note the caller left between generations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Generations recorded before it.
    pub after: u32,
    /// Its JSON.
    pub json: String,
}

/// Contents of a run log.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHistory {
    /// The first record.
    pub header: RunHeader,
    /// Rewards of each whole generation, one per member in order.
    pub generations: Vec<Vec<f64>>,
    /// Notes in order.
    pub notes: Vec<Note>,
    /// Whether the run was marked finished.
    pub finished: bool,
    /// Bytes of a torn write after the last whole record. 0 for a log closed in good order.
    pub torn_bytes: u64,
}

/// Why a run log was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunLogError {
    /// Reading or writing failed.
    #[error("run log {path}: {action} failed: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file exists already.
    #[error("run log {path}: exists already and is never overwritten; resume it or choose another name")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process has it open for writing.
    #[error("run log {path}: another process is writing it; stop that run first")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a run log, or damaged beyond a torn tail.
    #[error("run log {path}: byte {offset}: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte offset of the record (or value) at fault.
        offset: u64,
        /// What is wrong and what to do.
        problem: String,
    },
    /// What was to be written does not fit the run.
    #[error("run log {path}: {problem}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// A run log open for appending. Holds an exclusive lock on the file until dropped.
///
/// ```
/// use fura_core::estimator::EsConfig;
/// use fura_core::fingerprint::Fingerprint;
/// use fura_core::layout::{Layout, Linear};
/// use fura_core::runlog::{RunHeader, RunLog, replay};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("run.furalog");
/// let layout = Layout::new(4, [Linear::new("w", 8, 8)])?;
/// let config = EsConfig { pairs: 1, ..EsConfig::default() };
/// let header = RunHeader::new(Fingerprint::of(b"model"), layout, config, "toy");
/// let mut log = RunLog::create(&path, &header)?;
/// log.append_generation(&[1.0, 0.0])?;
/// drop(log); // or a crash
/// let (_log, history) = RunLog::resume(&path)?;
/// let estimator = replay(&history.header, &history.generations)?;
/// assert_eq!(estimator.ask().index, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RunLog {
    file: File,
    path: PathBuf,
    config: EsConfig,
    generation: u32,
    finished: bool,
    tag: Tag,
    /// End of the last whole record.
    end: u64,
    buffer: Vec<u8>,
}

impl RunLog {
    /// Starts a log in a new file and writes the header.
    ///
    /// # Errors
    /// [`RunLogError::Exists`] if there is a file; an invalid configuration; I/O.
    pub fn create(path: impl AsRef<Path>, header: &RunHeader) -> Result<Self, RunLogError> {
        let path = path.as_ref().to_path_buf();
        let refused = |problem: String| RunLogError::Refused { path: path.clone(), problem };
        if header.format != FORMAT_VERSION {
            return Err(refused(format!(
                "header format is {}, this version writes {FORMAT_VERSION}",
                header.format
            )));
        }
        (header.config.validate_for(header.layout.linears().len()))
            .map_err(|error| refused(error.to_string()))?;
        let json = serde_json::to_vec(header).map_err(|error| refused(error.to_string()))?;
        let file = (OpenOptions::new().write(true).create_new(true).open(&path)).map_err(|source| {
            match source.kind() {
                io::ErrorKind::AlreadyExists => RunLogError::Exists { path: path.clone() },
                _ => io_error(&path, "creating the file", source),
            }
        })?;
        lock(&file, &path)?;
        let mut log = Self {
            file,
            config: header.config.clone(),
            generation: 0,
            finished: false,
            tag: MAGIC,
            end: 0,
            buffer: MAGIC.to_vec(),
            path,
        };
        log.append(Kind::Header, |out| out.extend(&json))?;
        sync_entry(&log.path).map_err(|e| io_error(&log.path, "flushing the directory", e))?;
        Ok(log)
    }

    /// Opens a log to continue it, cutting off a torn tail.
    ///
    /// # Errors
    /// [`RunLogError::Damaged`] for anything worse than a torn tail; nothing is changed then.
    pub fn resume(path: impl AsRef<Path>) -> Result<(Self, RunHistory), RunLogError> {
        let path = path.as_ref().to_path_buf();
        let mut file = (OpenOptions::new().read(true).write(true).open(&path))
            .map_err(|e| io_error(&path, "opening", e))?;
        lock(&file, &path)?;
        let mut bytes = Vec::new();
        (Read::by_ref(&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|e| io_error(&path, "reading", e))?;
        let (history, tag) = parse(&bytes, &path)?;
        let end = bytes.len() as u64 - history.torn_bytes;
        if history.torn_bytes > 0 {
            (file.set_len(end).and_then(|()| file.sync_all()))
                .map_err(|e| io_error(&path, "cutting the torn tail", e))?;
        }
        (file.seek(SeekFrom::Start(end))).map_err(|e| io_error(&path, "seeking", e))?;
        let log = Self {
            file,
            config: history.header.config.clone(),
            generation: history.generations.len() as u32,
            finished: history.finished,
            tag,
            end,
            buffer: Vec::new(),
            path,
        };
        Ok((log, history))
    }

    /// Reads a log's bytes without changing anything; `path` is only for messages.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub fn read(bytes: &[u8], path: &Path) -> Result<RunHistory, RunLogError> {
        parse(bytes, path).map(|(history, _)| history)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Generations recorded so far, which is the index the next one gets.
    pub fn generations(&self) -> u32 {
        self.generation
    }

    /// Appends a generation's rewards and flushes them to the device.
    ///
    /// Call it *before* [`Estimator::tell`] takes effect anywhere it could be seen. NaN rewards
    /// (abstentions) are kept bit for bit. Allocates nothing once a generation has been written.
    ///
    /// # Errors
    /// A number of rewards other than the population's, a finished log, I/O. After a failed write
    /// the log is cut back to its last whole record and can be used again.
    pub fn append_generation(&mut self, rewards: &[f64]) -> Result<(), RunLogError> {
        let (found, expected) = (rewards.len(), 2 * self.config.pairs_at(self.generation) as usize);
        if found != expected {
            return Err(self.refused(format!("{found} rewards given, expected {expected}")));
        }
        let Some(next) = self.generation.checked_add(1) else {
            return Err(self.refused("the generation counter is exhausted; start a new run"));
        };
        let generation = self.generation;
        self.append(Kind::Generation, |out| {
            out.extend(generation.to_le_bytes());
            // Twice at most MAX_PAIRS.
            out.extend((rewards.len() as u32).to_le_bytes());
            out.extend(rewards.iter().flat_map(|reward| reward.to_le_bytes()));
        })?;
        self.generation = next;
        Ok(())
    }

    /// Appends a note of the caller's, such as an evaluation's results, as JSON.
    ///
    /// # Errors
    /// A value JSON cannot hold, a finished log, I/O.
    pub fn append_note(&mut self, note: &impl Serialize) -> Result<(), RunLogError> {
        let json = serde_json::to_vec(note).map_err(|error| self.refused(error.to_string()))?;
        self.append(Kind::Note, |out| out.extend(&json))
    }

    /// Marks the run finished; nothing can be appended afterwards.
    ///
    /// # Errors
    /// A log finished before, I/O.
    pub fn finish(&mut self) -> Result<(), RunLogError> {
        self.append(Kind::Finished, |_| ())?;
        self.finished = true;
        Ok(())
    }

    fn append(&mut self, kind: Kind, payload: impl FnOnce(&mut Vec<u8>)) -> Result<(), RunLogError> {
        if self.finished {
            return Err(self.refused("the run is marked finished; start a new one"));
        }
        let tag = record::encode(&mut self.buffer, self.tag, kind, payload);
        let written = match tag {
            Some(_) => (self.file.write_all(&self.buffer)).and_then(|()| self.file.sync_data()),
            None => Ok(()),
        };
        let length = self.buffer.len() as u64;
        self.buffer.clear();
        let Some(tag) = tag else {
            return Err(self.refused("the record exceeds 4 GiB; write less at a time"));
        };
        if let Err(source) = written {
            // If cutting back fails too, the torn record stays and `resume` cuts it.
            let _ = self.file.set_len(self.end);
            let _ = self.file.seek(SeekFrom::Start(self.end));
            return Err(io_error(&self.path, "appending", source));
        }
        self.tag = tag;
        self.end += length;
        Ok(())
    }

    fn refused(&self, problem: impl Into<String>) -> RunLogError {
        RunLogError::Refused { path: self.path.clone(), problem: problem.into() }
    }
}

/// Recomputes a run's estimator from its log, without the model.
///
/// # Errors
/// Settings or reward counts that do not fit the header; [`EstimatorError::Units`] for a run in absolute
/// coordinates, which [`replay_absolute`] replays.
pub fn replay(header: &RunHeader, generations: &[Vec<f64>]) -> Result<Estimator, EstimatorError> {
    tell_all(Estimator::new(header.config.clone(), &header.layout)?, generations)
}

/// Recomputes a run in [absolute](crate::estimator::Coordinates::Absolute) coordinates from its log and
/// the base model's singular values, as [`Estimator::absolute`] takes them.
///
/// # Errors
/// As [`replay`] and [`Estimator::absolute`].
pub fn replay_absolute(
    header: &RunHeader,
    s: &[f32],
    generations: &[Vec<f64>],
) -> Result<Estimator, EstimatorError> {
    tell_all(Estimator::absolute(header.config.clone(), &header.layout, s)?, generations)
}

fn tell_all(mut estimator: Estimator, generations: &[Vec<f64>]) -> Result<Estimator, EstimatorError> {
    for rewards in generations {
        estimator.tell(rewards)?;
    }
    Ok(estimator)
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> RunLogError {
    RunLogError::Io { path: path.to_path_buf(), action, source }
}

fn lock(file: &File, path: &Path) -> Result<(), RunLogError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(RunLogError::Locked { path: path.to_path_buf() }),
        // Some file systems have no locks; the run is then as safe as its operator.
        Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(source)) => Err(io_error(path, "locking", source)),
    }
}

/// Reads a whole log; also returns the last record's tag.
fn parse(bytes: &[u8], path: &Path) -> Result<(RunHistory, Tag), RunLogError> {
    let damaged = |offset: usize, problem: String| RunLogError::Damaged {
        path: path.to_path_buf(),
        offset: offset as u64,
        problem,
    };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(damaged(MAX_BYTES as usize, "longer than 1 GiB; not a run log".into()));
    }
    if bytes.first_chunk() != Some(&MAGIC) {
        let problem = "does not begin with FURALOG1; not a run log";
        return Err(damaged(0, problem.into()));
    }
    let mut at = MAGIC.len();
    let first = record::decode(&bytes[at..], MAGIC).filter(|r| r.kind == Kind::Header);
    let Some(Record { payload, mut tag, .. }) = first else {
        let problem = "no whole header record; nothing can be resumed, start a new run";
        return Err(damaged(at, problem.into()));
    };
    let header: RunHeader =
        serde_json::from_slice(payload).map_err(|error| damaged(at, format!("header record: {error}")))?;
    if header.format != FORMAT_VERSION {
        let found = header.format;
        let problem = format!("format {found}, expected {FORMAT_VERSION}; use the fura that wrote it");
        return Err(damaged(at, problem));
    }
    (header.config.validate_for(header.layout.linears().len()))
        .map_err(|error| damaged(at, format!("header record: {error}")))?;
    at += payload.len() + record::OVERHEAD;
    let mut history =
        RunHistory { header, generations: Vec::new(), notes: Vec::new(), finished: false, torn_bytes: 0 };
    while at < bytes.len() {
        let Some(record) = record::decode(&bytes[at..], tag) else {
            match record::search(bytes, at, tag) {
                Rest::Torn => history.torn_bytes = (bytes.len() - at) as u64,
                Rest::RecordAt(next) => {
                    let problem = format!(
                        "damaged record, with a whole one after it at byte {next}; restore the file from a copy"
                    );
                    return Err(damaged(at, problem));
                }
                Rest::Unclear => {
                    let problem =
                        "damaged record, and what follows is not a torn write; restore the file from a copy";
                    return Err(damaged(at, problem.into()));
                }
            }
            break;
        };
        take(&mut history, record).map_err(|problem| damaged(at, problem))?;
        tag = record.tag;
        at += record.payload.len() + record::OVERHEAD;
    }
    Ok((history, tag))
}

/// Adds a record after the header to the history.
fn take(history: &mut RunHistory, record: Record<'_>) -> Result<(), String> {
    if history.finished {
        return Err("a record after the end of a finished run".into());
    }
    match record.kind {
        Kind::Header => return Err("a second header record".into()),
        Kind::Finished if !record.payload.is_empty() => {
            return Err("the finished record has a payload, expected none".into());
        }
        Kind::Finished => history.finished = true,
        Kind::Note => {
            let json = std::str::from_utf8(record.payload)
                .ok()
                .filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
                .ok_or("the note record is not JSON")?;
            history.notes.push(Note { after: history.generations.len() as u32, json: json.to_owned() });
        }
        Kind::Generation => {
            let (words, rewards) = (record.payload.split_at_checked(8))
                .ok_or("the generation record is shorter than 8 bytes")?;
            let generation = history.generations.len() as u32;
            let members = 2 * history.header.config.pairs_at(generation);
            let expected = [generation, members];
            let found =
                [0, 4].map(|i| u32::from_le_bytes([words[i], words[i + 1], words[i + 2], words[i + 3]]));
            if found != expected {
                return Err(format!(
                    "generation record {} with {} members, expected {} with {}",
                    found[0], found[1], expected[0], expected[1]
                ));
            }
            let (rewards, odd) = rewards.as_chunks::<8>();
            if rewards.len() != members as usize || !odd.is_empty() {
                let found = record.payload.len();
                let want = 8 + 8 * u64::from(members);
                return Err(format!("generation record of {found} bytes, expected {want}"));
            }
            let rewards = rewards.iter().map(|&bytes| f64::from_le_bytes(bytes));
            history.generations.push(rewards.collect());
        }
    }
    Ok(())
}
