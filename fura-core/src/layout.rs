//! Where each linear's coordinates live in the one flat coordinate vector.
//!
//! Every linear layer contributes one coordinate per *input channel*, so a model's coordinates
//! are one `f32` vector of length `sum d_in`, linears one after another in the order given. Within
//! a linear the channels are cut into contiguous blocks of `block` channels; the last block is
//! shorter where `block` does not divide `d_in`, and a `block` larger than `d_in` means one block
//! (the whole-matrix SVF case).

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;

/// Most coordinates a layout may have (2^26; the largest dense Llama has about 2 * 10^7).
///
/// The limit keeps a hostile file from making a reader allocate without bound.
pub const MAX_COORDINATES: usize = 1 << 26;

/// One linear layer `y = W x` with `W` of shape `d_out x d_in`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Unique name, by convention the weight tensor's name.
    pub name: String,
    /// Output channels (rows of `W`).
    pub d_out: usize,
    /// Input channels (columns of `W`), one coordinate each.
    pub d_in: usize,
}

impl Linear {
    /// A linear called `name` with weights of shape `d_out x d_in`.
    pub fn new(name: impl Into<String>, d_out: usize, d_in: usize) -> Self {
        Self { name: name.into(), d_out, d_in }
    }
}

/// Why a layout was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The block size is zero.
    #[error("layout: block size is 0, expected at least 1; the usual choice is 32")]
    ZeroBlock,
    /// There is no linear, so there would be nothing to train.
    #[error("layout: no linear layers given; name at least one to train")]
    Empty,
    /// A linear has a zero dimension.
    #[error("layout: linear {name:?} is {d_out} x {d_in}, expected both at least 1")]
    ZeroSize {
        /// The linear's name.
        name: String,
        /// Its output channels.
        d_out: usize,
        /// Its input channels.
        d_in: usize,
    },
    /// Two linears share a name.
    #[error("layout: linear {name:?} is given twice; names must be unique")]
    DuplicateName {
        /// The repeated name.
        name: String,
    },
    /// The name is empty or is the one a safetensors file reserves.
    #[error("layout: {name:?} cannot name a linear; use the weight tensor's name")]
    BadName {
        /// The refused name.
        name: String,
    },
    /// The coordinates do not fit [`MAX_COORDINATES`].
    #[error("layout: more than {MAX_COORDINATES} coordinates at linear {name:?}; check d_in = {d_in}")]
    TooLarge {
        /// The linear that crossed the limit.
        name: String,
        /// Its input channels.
        d_in: usize,
    },
}

/// The linears of a model, their blocks, and their offsets in the flat coordinate vector.
///
/// Serializes as its canonical description, `{"block":32,"linears":[{"name":..,"d_out":..,"d_in":..}]}`,
/// and is validated again when read back.
///
/// ```
/// use fura_core::layout::{Layout, Linear};
/// let layout = Layout::new(32, [Linear::new("q", 64, 64), Linear::new("down", 64, 80)])?;
/// assert_eq!(layout.coordinates(), 144);
/// assert_eq!(layout.range(1), 64..144);
/// assert_eq!(layout.blocks(1), 3);
/// assert_eq!(layout.block_range(1, 2), 64..80); // the last block is shorter
/// # Ok::<(), fura_core::layout::LayoutError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub struct Layout {
    block: usize,
    linears: Vec<Linear>,
    /// `offsets[l]..offsets[l + 1]` are linear `l`'s coordinates.
    offsets: Vec<usize>,
}

/// The canonical description; its field order is part of the fingerprint.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    block: usize,
    linears: Vec<Linear>,
}

impl TryFrom<Description> for Layout {
    type Error = LayoutError;
    fn try_from(description: Description) -> Result<Self, LayoutError> {
        Self::new(description.block, description.linears)
    }
}

impl From<Layout> for Description {
    fn from(layout: Layout) -> Self {
        Self { block: layout.block, linears: layout.linears }
    }
}

impl Layout {
    /// Lays out `linears` in the order given, with column blocks of `block` channels.
    ///
    /// # Errors
    /// A zero block or dimension, an empty list, a repeated or reserved name, or more than
    /// [`MAX_COORDINATES`] coordinates.
    pub fn new(block: usize, linears: impl IntoIterator<Item = Linear>) -> Result<Self, LayoutError> {
        if block == 0 {
            return Err(LayoutError::ZeroBlock);
        }
        let linears: Vec<Linear> = linears.into_iter().collect();
        if linears.is_empty() {
            return Err(LayoutError::Empty);
        }
        let mut seen = HashMap::with_capacity(linears.len());
        let mut offsets = Vec::with_capacity(linears.len() + 1);
        let mut end = 0usize;
        offsets.push(end);
        for (index, linear) in linears.iter().enumerate() {
            let name = || linear.name.clone();
            if linear.name.is_empty() || linear.name == "__metadata__" {
                return Err(LayoutError::BadName { name: name() });
            }
            if linear.d_out == 0 || linear.d_in == 0 {
                return Err(LayoutError::ZeroSize { name: name(), d_out: linear.d_out, d_in: linear.d_in });
            }
            if seen.insert(linear.name.as_str(), index).is_some() {
                return Err(LayoutError::DuplicateName { name: name() });
            }
            end = end
                .checked_add(linear.d_in)
                .filter(|&end| end <= MAX_COORDINATES)
                .ok_or_else(|| LayoutError::TooLarge { name: name(), d_in: linear.d_in })?;
            offsets.push(end);
        }
        drop(seen);
        Ok(Self { block, linears, offsets })
    }

    /// Block size in channels, as given (a linear narrower than this has one block of `d_in`).
    pub fn block(&self) -> usize {
        self.block
    }

    /// The linears, in coordinate order.
    pub fn linears(&self) -> &[Linear] {
        &self.linears
    }

    /// Length of the flat coordinate vector.
    pub fn coordinates(&self) -> usize {
        self.offsets[self.linears.len()]
    }

    /// Index of the linear called `name`.
    ///
    /// Searches in order; look names up once at load, not per token.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.linears.iter().position(|linear| linear.name == name)
    }

    /// Offset of linear `l`'s first coordinate.
    ///
    /// # Panics
    /// If `l` is not an index of [`linears`](Self::linears), here and in the methods below.
    pub fn offset(&self, l: usize) -> usize {
        self.range(l).start
    }

    /// Linear `l`'s range in the flat coordinate vector; its length is `d_in`.
    pub fn range(&self, l: usize) -> Range<usize> {
        self.offsets[l]..self.offsets[l + 1]
    }

    /// Number of column blocks of linear `l`.
    pub fn blocks(&self, l: usize) -> usize {
        self.linears[l].d_in.div_ceil(self.block)
    }

    /// Columns of block `k` of linear `l`, counted within the linear.
    ///
    /// # Panics
    /// If `k >= self.blocks(l)`.
    pub fn block_range(&self, l: usize, k: usize) -> Range<usize> {
        assert!(k < self.blocks(l), "linear {l} has {} blocks", self.blocks(l));
        column_block(self.linears[l].d_in, self.block, k)
    }

    /// All column blocks of linear `l`, in order.
    pub fn block_ranges(&self, l: usize) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
        column_blocks(self.linears[l].d_in, self.block)
    }

    /// The canonical description as one line of JSON.
    pub fn canonical(&self) -> String {
        // A struct of numbers and strings has no failing case in serde_json.
        serde_json::to_string(self).expect("a layout is plain data")
    }

    /// Content hash of the canonical description.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_description("fura layout v1", &self.canonical())
    }
}

/// Column block `k` of `d_in` channels cut every `block`.
fn column_block(d_in: usize, block: usize, k: usize) -> Range<usize> {
    let start = k * block;
    start..start + block.min(d_in - start)
}

/// All column blocks of `d_in` channels cut every `block` (`block >= 1`).
pub(crate) fn column_blocks(d_in: usize, block: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..d_in.div_ceil(block)).map(move |k| column_block(d_in, block, k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linears(sizes: &[(usize, usize)]) -> Vec<Linear> {
        (sizes.iter().enumerate())
            .map(|(i, &(d_out, d_in))| Linear::new(format!("l{i}"), d_out, d_in))
            .collect()
    }

    proptest! {
        #[test]
        fn blocks_tile_every_linear(
            sizes in prop::collection::vec((1usize..9, 1usize..200), 1..6),
            block in 1usize..100,
        ) {
            let layout = Layout::new(block, linears(&sizes)).unwrap();
            let mut next = 0;
            for (l, &(_, d_in)) in sizes.iter().enumerate() {
                prop_assert_eq!(layout.range(l), next..next + d_in);
                next += d_in;
                let mut column = 0;
                for (k, range) in layout.block_ranges(l).enumerate() {
                    prop_assert_eq!(&range, &layout.block_range(l, k));
                    prop_assert_eq!(range.start, column);
                    prop_assert!(range.len() == block || range.end == d_in);
                    column = range.end;
                }
                prop_assert_eq!(column, d_in);
            }
            prop_assert_eq!(layout.coordinates(), next);
            let back: Layout = serde_json::from_str(&layout.canonical()).unwrap();
            prop_assert_eq!(back.fingerprint(), layout.fingerprint());
            prop_assert_eq!(back, layout);
        }
    }

    #[test]
    fn refuses_what_cannot_be_laid_out() {
        let one = |name: &str, d_out, d_in| Layout::new(4, [Linear::new(name, d_out, d_in)]);
        assert_eq!(Layout::new(0, linears(&[(1, 1)])), Err(LayoutError::ZeroBlock));
        assert_eq!(Layout::new(4, []), Err(LayoutError::Empty));
        assert!(matches!(one("a", 0, 1), Err(LayoutError::ZeroSize { .. })));
        assert!(matches!(one("a", 1, 0), Err(LayoutError::ZeroSize { .. })));
        assert!(matches!(one("", 1, 1), Err(LayoutError::BadName { .. })));
        assert!(matches!(one("__metadata__", 1, 1), Err(LayoutError::BadName { .. })));
        assert!(matches!(one("a", 1, MAX_COORDINATES + 1), Err(LayoutError::TooLarge { .. })));
        let twice = [Linear::new("a", 1, 1), Linear::new("a", 2, 2)];
        assert!(matches!(Layout::new(4, twice), Err(LayoutError::DuplicateName { .. })));
        let wraps = [Linear::new("a", 1, 1), Linear::new("b", 1, usize::MAX)];
        assert!(matches!(Layout::new(4, wraps), Err(LayoutError::TooLarge { .. })));
    }

    #[test]
    fn a_block_wider_than_the_linear_is_one_block() {
        let layout = Layout::new(usize::MAX, linears(&[(3, 7)])).unwrap();
        assert_eq!(layout.blocks(0), 1);
        assert_eq!(layout.block_range(0, 0), 0..7);
    }

    #[test]
    fn a_description_is_validated_when_read() {
        for text in [
            r#"{"block":0,"linears":[{"name":"a","d_out":1,"d_in":1}]}"#,
            r#"{"block":4,"linears":[]}"#,
            r#"{"block":4,"linears":[{"name":"a","d_out":1,"d_in":-1}]}"#,
            r#"{"block":4,"linears":[{"name":"a","d_out":1,"d_in":1}],"more":1}"#,
        ] {
            assert!(serde_json::from_str::<Layout>(text).is_err(), "{text}");
        }
    }
}
