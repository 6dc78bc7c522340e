//! Where each linear's coordinates live in the one flat coordinate vector.
//!
//! Every linear layer contributes one coordinate per *input channel*, so a model's coordinates
//! are one `f32` vector of length `sum d_in`, linears one after another in the order given. Within
//! a linear the channels are cut into contiguous blocks of `block` channels; the last block is
//! shorter where `block` does not divide `d_in`, and a `block` larger than `d_in` means one block
//! (the whole-matrix SVF case). The block size is the same for all linears ([`Layout::new`]) or
//! follows a [`BlockRule`] for each of them ([`Layout::with_rules`]).

mod block_rule;
mod form;
mod scope;

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;

pub use block_rule::BlockRule;
pub use form::{Form, UnknownForm};
pub use scope::{Scope, UnknownScope};

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
    /// A linear's input does not split into its heads.
    #[error(
        "layout: {d_in} inputs of linear {name:?} do not split into {heads} heads; give the model's head count"
    )]
    Heads {
        /// The linear's name.
        name: String,
        /// Heads asked for.
        heads: usize,
        /// Its input channels.
        d_in: usize,
    },
    /// A description lists block sizes, but not one for each linear.
    #[error("layout: {found} block sizes for {linears} linears; expected one for each, or a single number")]
    BlockCount {
        /// Block sizes listed.
        found: usize,
        /// Linears listed.
        linears: usize,
    },
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
/// and is validated again when read back. Where block sizes differ, `block` is their list, one for each
/// linear; a [`Scope`] other than `everywhere` is written as `"scope":"answer"`, a [`Form`] other than `materialized` as
/// `"form":"factored"`.
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
    blocks: Blocks,
    linears: Vec<Linear>,
    /// `offsets[l]..offsets[l + 1]` are linear `l`'s coordinates.
    offsets: Vec<usize>,
    scope: Scope,
    form: Form,
}

/// Block sizes. Equal sizes are always `Same`, so that a layout has one description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Blocks {
    Same(usize),
    Each(Vec<usize>),
}

/// The canonical description; its field order is part of the fingerprint.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    block: Blocks,
    linears: Vec<Linear>,
    #[serde(default, skip_serializing_if = "Scope::is_everywhere")]
    scope: Scope,
    #[serde(default, skip_serializing_if = "Form::is_materialized")]
    form: Form,
}

impl TryFrom<Description> for Layout {
    type Error = LayoutError;
    fn try_from(description: Description) -> Result<Self, LayoutError> {
        let layout = Self::build(description.block, description.linears)?;
        Ok(layout.with_scope(description.scope).with_form(description.form))
    }
}

impl From<Layout> for Description {
    fn from(layout: Layout) -> Self {
        Self { block: layout.blocks, linears: layout.linears, scope: layout.scope, form: layout.form }
    }
}

impl Layout {
    /// Lays out `linears` in the order given, with column blocks of `block` channels.
    ///
    /// # Errors
    /// A zero block or dimension, an empty list, a repeated or reserved name, or more than
    /// [`MAX_COORDINATES`] coordinates.
    pub fn new(block: usize, linears: impl IntoIterator<Item = Linear>) -> Result<Self, LayoutError> {
        Self::build(Blocks::Same(block), linears.into_iter().collect())
    }

    /// Lays out linears in the order given, each with blocks by a rule of its own. Where all sizes
    /// come out equal, this is [`Layout::new`] with that size.
    ///
    /// ```
    /// use fura_core::layout::{BlockRule, Layout, Linear};
    /// // FuRA's layout: factor pairs, and heads for the output projection.
    /// let layout = Layout::with_rules([
    ///     (Linear::new("q", 576, 576), BlockRule::FactorPair),
    ///     (Linear::new("o", 576, 576), BlockRule::Heads(9)),
    ///     (Linear::new("down", 576, 1536), BlockRule::FactorPair),
    /// ])?;
    /// assert_eq!([0, 1, 2].map(|l| layout.block_of(l)), [24, 64, 48]);
    /// # Ok::<(), fura_core::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Layout::new`] and [`BlockRule::block`].
    pub fn with_rules(linears: impl IntoIterator<Item = (Linear, BlockRule)>) -> Result<Self, LayoutError> {
        let (linears, rules): (Vec<Linear>, Vec<BlockRule>) = linears.into_iter().unzip();
        // Sizes first: a rule may take time that grows with a width.
        let checked = Self::build(Blocks::Same(1), linears)?;
        let blocks = checked.linears.iter().zip(rules).map(|(linear, rule)| rule.block(linear));
        Self::build(Blocks::Each(blocks.collect::<Result<_, _>>()?), checked.linears)
    }

    fn build(blocks: Blocks, linears: Vec<Linear>) -> Result<Self, LayoutError> {
        if linears.is_empty() {
            return Err(LayoutError::Empty);
        }
        let blocks = match blocks {
            Blocks::Each(sizes) if sizes.len() != linears.len() => {
                return Err(LayoutError::BlockCount { found: sizes.len(), linears: linears.len() });
            }
            Blocks::Each(sizes) if sizes.iter().all(|size| *size == sizes[0]) => Blocks::Same(sizes[0]),
            other => other,
        };
        let zero = match &blocks {
            Blocks::Same(size) => *size == 0,
            Blocks::Each(sizes) => sizes.contains(&0),
        };
        if zero {
            return Err(LayoutError::ZeroBlock);
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
        Ok(Self { blocks, linears, offsets, scope: Scope::Everywhere, form: Form::Materialized })
    }

    /// The same linears, adapted at other tokens. A new layout's scope is [`Scope::Everywhere`].
    #[must_use]
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The tokens at which the linears are adapted.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The same linears, their transforms computed in another form. A new layout's is [`Form::Materialized`].
    #[must_use]
    pub fn with_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The form that transforms are computed in.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Block size in channels, as given (a linear narrower than this has one block of `d_in`). Where
    /// linears differ, the largest; see [`block_of`](Self::block_of).
    pub fn block(&self) -> usize {
        match &self.blocks {
            Blocks::Same(size) => *size,
            // Never empty: there is one for each linear.
            Blocks::Each(sizes) => sizes.iter().copied().max().unwrap_or(1),
        }
    }

    /// Block size of linear `l`.
    ///
    /// # Panics
    /// If `l` is not an index of [`linears`](Self::linears), here and in the methods below.
    pub fn block_of(&self, l: usize) -> usize {
        assert!(l < self.linears.len(), "there are {} linears", self.linears.len());
        match &self.blocks {
            Blocks::Same(size) => *size,
            Blocks::Each(sizes) => sizes[l],
        }
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
    pub fn offset(&self, l: usize) -> usize {
        self.range(l).start
    }

    /// Linear `l`'s range in the flat coordinate vector; its length is `d_in`.
    pub fn range(&self, l: usize) -> Range<usize> {
        self.offsets[l]..self.offsets[l + 1]
    }

    /// Number of column blocks of linear `l`.
    pub fn blocks(&self, l: usize) -> usize {
        self.linears[l].d_in.div_ceil(self.block_of(l))
    }

    /// Columns of block `k` of linear `l`, counted within the linear.
    ///
    /// # Panics
    /// If `k >= self.blocks(l)`.
    pub fn block_range(&self, l: usize, k: usize) -> Range<usize> {
        assert!(k < self.blocks(l), "linear {l} has {} blocks", self.blocks(l));
        column_block(self.linears[l].d_in, self.block_of(l), k)
    }

    /// All column blocks of linear `l`, in order.
    pub fn block_ranges(&self, l: usize) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
        column_blocks(self.linears[l].d_in, self.block_of(l))
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

    /// Specialists and run logs name a layout by this text and its hash.
    #[test]
    fn descriptions_are_pinned() {
        let q = || Linear::new("q", 64, 64);
        let one = Layout::new(32, [q()]).unwrap();
        assert_eq!(one.canonical(), r#"{"block":32,"linears":[{"name":"q","d_out":64,"d_in":64}]}"#);
        assert_eq!(one.fingerprint().short(), "cce5f81e7046");
        let down = || Linear::new("down", 64, 80);
        let each = [(q(), BlockRule::FactorPair), (down(), BlockRule::FactorPair)];
        let each = Layout::with_rules(each).unwrap();
        assert!(each.canonical().starts_with(r#"{"block":[8,10],"linears":[{"name":"q""#));
        assert_eq!((each.block(), each.block_of(0), each.blocks(1)), (10, 8, 8));
        assert_eq!(each.block_range(1, 7), 70..80);
        assert_eq!(serde_json::from_str::<Layout>(&each.canonical()).unwrap(), each);
        // Equal sizes have one description, however they were given.
        let same = Layout::with_rules([(q(), BlockRule::Size(32)), (down(), BlockRule::Size(32))]).unwrap();
        assert_eq!(same.canonical(), Layout::new(32, [q(), down()]).unwrap().canonical());
        let listed = same.canonical().replace("32", "[32,32]");
        assert_eq!(serde_json::from_str::<Layout>(&listed).unwrap(), same);
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
            r#"{"block":[4,4],"linears":[{"name":"a","d_out":1,"d_in":1}]}"#,
            r#"{"block":[0],"linears":[{"name":"a","d_out":1,"d_in":1}]}"#,
            r#"{"block":[],"linears":[]}"#,
            r#"{"block":4,"linears":[{"name":"a","d_out":1,"d_in":-1}]}"#,
            r#"{"block":4,"linears":[{"name":"a","d_out":1,"d_in":1}],"more":1}"#,
        ] {
            assert!(serde_json::from_str::<Layout>(text).is_err(), "{text}");
        }
    }
}
