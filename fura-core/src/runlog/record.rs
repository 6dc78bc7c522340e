//! Records of a run log as bytes.
//!
//! ```text
//! file   = "FURALOG1" record*
//! record = length u32 LE | kind u8 | payload (length bytes) | tag (8 bytes)
//! tag    = first 8 bytes of BLAKE3(previous tag | length | kind | payload)
//! ```
//! The first record's previous tag is the magic. Chaining makes a record valid only in its place.

/// First bytes of every run log.
pub(super) const MAGIC: [u8; 8] = *b"FURALOG1";

/// Bytes of a record beside its payload.
pub(super) const OVERHEAD: usize = 4 + 1 + 8;

pub(super) type Tag = [u8; 8];

/// What a record's payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// JSON of [`RunHeader`](super::RunHeader).
    Header,
    /// Generation u32, members u32, then each member's reward as f64, all little-endian.
    Generation,
    /// JSON of the caller's.
    Note,
    /// Empty.
    Finished,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Header => 1,
            Self::Generation => 2,
            Self::Note => 3,
            Self::Finished => 4,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Header, Self::Generation, Self::Note, Self::Finished]
            .into_iter()
            .find(|kind| kind.byte() == byte)
    }
}

/// A whole record whose tag is right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) payload: &'a [u8],
    pub(super) tag: Tag,
}

fn tag(previous: Tag, framed: &[u8]) -> Tag {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&previous).update(framed);
    let mut tag = [0; 8];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    tag
}

/// Appends a record to `out`; returns its tag, or `None` where the payload exceeds `u32`.
pub(super) fn encode(
    out: &mut Vec<u8>,
    previous: Tag,
    kind: Kind,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Option<Tag> {
    let start = out.len();
    out.extend([0, 0, 0, 0, kind.byte()]);
    payload(out);
    let length = u32::try_from(out.len() - start - 5).ok()?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    let tag = tag(previous, &out[start..]);
    out.extend(tag);
    Some(tag)
}

/// Bytes a record at the start of `bytes` claims to take, if they exist.
fn extent(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?);
    let whole = usize::try_from(length).ok()?.checked_add(OVERHEAD)?;
    (whole <= bytes.len()).then_some(whole)
}

/// The record at the start of `bytes`, if it is whole and its tag right.
pub(super) fn decode(bytes: &[u8], previous: Tag) -> Option<Record<'_>> {
    let framed = &bytes[..extent(bytes)? - 8];
    let kind = Kind::from_byte(framed[4])?;
    let found = *bytes[framed.len()..].first_chunk()?;
    (found == tag(previous, framed)).then_some(Record { kind, payload: &framed[5..], tag: found })
}

/// What follows a damaged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// No valid record: the damage is a torn write.
    Torn,
    /// A valid record at this offset: something in the middle was lost.
    RecordAt(usize),
    /// Too many things that look like records to tell.
    Unclear,
}

/// Searches for a valid record after the damaged one at `from`, whose predecessor's tag is
/// `previous`.
///
/// Any offset could begin a record, its predecessor's tag being the 8 bytes before it. Work is
/// bounded by hashing at most 64 times the file, which a file that is not an attack never needs:
/// few offsets hold both a known kind and a length that fits.
pub(super) fn search(bytes: &[u8], from: usize, previous: Tag) -> Rest {
    // Damage to the tag alone: the next record still chains to the tag that should be there.
    if let Some(whole) = extent(&bytes[from..]) {
        let next = from + whole;
        let tag = tag(previous, &bytes[from..next - 8]);
        if decode(&bytes[next..], tag).is_some() {
            return Rest::RecordAt(next);
        }
    }
    let mut budget = bytes.len().saturating_mul(64);
    for at in from + OVERHEAD..bytes.len() {
        let rest = &bytes[at..];
        let Some(whole) = extent(rest) else { continue };
        if Kind::from_byte(rest[4]).is_none() {
            continue;
        }
        let Some(left) = budget.checked_sub(whole) else {
            return Rest::Unclear;
        };
        budget = left;
        if let Some(&previous) = bytes[..at].last_chunk()
            && decode(rest, previous).is_some()
        {
            return Rest::RecordAt(at);
        }
    }
    Rest::Torn
}
