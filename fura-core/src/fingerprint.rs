//! Content hashes that tie runs and specialists to the exact model they belong to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A 32-byte BLAKE3 content hash, shown as 64 lower-case hexadecimal digits.
///
/// ```
/// use fura_core::fingerprint::Fingerprint;
/// let base = Fingerprint::of(b"weights");
/// let text = base.to_string();
/// assert_eq!(text.len(), 64);
/// assert_eq!(text.parse::<Fingerprint>()?, base);
/// # Ok::<(), fura_core::fingerprint::FingerprintError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

/// The text is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    /// Not 64 bytes of text.
    #[error("fingerprint: {found} bytes long, expected 64 hexadecimal digits")]
    Length {
        /// Bytes found.
        found: usize,
    },
    /// A character that is no hexadecimal digit.
    #[error("fingerprint: byte {offset} is not a hexadecimal digit")]
    Digit {
        /// Byte offset of the first such character.
        offset: usize,
    },
}

impl Fingerprint {
    /// Hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Hash of a canonical description, separated by `domain` from hashes of other kinds.
    ///
    /// The description must be written the same way every time (fixed field order, no optional
    /// white space); [`Layout::canonical`](crate::layout::Layout::canonical) is an example. The
    /// scheme is BLAKE3 in its `derive_key` mode with `domain` as the context string.
    pub fn of_description(domain: &str, description: &str) -> Self {
        Self(blake3::derive_key(domain, description.as_bytes()))
    }

    /// The first twelve digits, enough to tell models apart in a message.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(FingerprintError::Length { found: digits.len() });
        }
        let digit = |offset: usize| {
            (digits[offset] as char)
                .to_digit(16)
                .map(|value| value as u8)
                .ok_or(FingerprintError::Digit { offset })
        };
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = digit(2 * i)? << 4 | digit(2 * i + 1)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_and_json_round_trip(bytes in any::<[u8; 32]>()) {
            let print = Fingerprint(bytes);
            prop_assert_eq!(print.to_string().parse(), Ok(print));
            let json = serde_json::to_string(&print).unwrap();
            prop_assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), print);
        }
    }

    #[test]
    fn bad_text_is_named_by_offset() {
        let good = Fingerprint::of(b"x").to_string();
        let bad = format!("{}g", &good[..63]);
        assert_eq!(bad.parse::<Fingerprint>(), Err(FingerprintError::Digit { offset: 63 }));
        assert_eq!("ab".parse::<Fingerprint>(), Err(FingerprintError::Length { found: 2 }));
        let wide = "\u{e9}".repeat(32); // 64 bytes, none of them a digit
        assert_eq!(wide.parse::<Fingerprint>(), Err(FingerprintError::Digit { offset: 0 }));
    }

    #[test]
    fn domains_separate_equal_descriptions() {
        assert_ne!(Fingerprint::of_description("a", "same"), Fingerprint::of_description("b", "same"));
    }

    #[test]
    fn the_empty_hash_is_the_published_one() {
        assert_eq!(
            Fingerprint::of(b"").to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }
}
