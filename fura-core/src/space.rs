//! Spaces of coordinates: FuRA-S and what it is compared with, under one interface.
//!
//! A [`Space`] says what a vector of coordinates does to every linear layer; zero is always the base
//! model. [`Search`] lets the [`Estimator`] move in it. [`Qes`] searches
//! among integer codes by rules of its own. Both are a [`Population`], all that an engine sees:
//!
//! | space | coordinates of a `d_out x d_in` linear | what changes |
//! |---|---|---|
//! | [`Blocks`] with block spectra: FuRA-S | `d_in` | the input |
//! | [`Blocks`], one block of `d_in`: SVF | `d_in` | the input |
//! | [`Blocks`], blocks of 1: channel scaling | `d_in` | the input |
//! | [`Blocks::random`]: random orthogonal bases | `d_in` | the input |
//! | [`Lora`], both factors | `r (d_in + d_out)` | the weights |
//! | [`Lora`], `B` only | `r d_out` | the weights |
//! | [`Full`]: every weight | `d_out d_in` | the weights |
//! | [`Qes`]: integer codes (not a `Space`) | `d_out d_in` codes | the weights |
//!
//! # What an engine must be able to do
//! One of two things, for a member and a linear. Either *transform an input*,
//! [`Population::transform`]: possible while the population's [`entry`](Population::entry) is
//! [`Entry::Input`], and all that weights of any format ever need. Or *perturb a weight*,
//! [`Population::perturb`]: every population can do that, on stretches of `f32` rows in the engine's
//! scratch memory. Both write what they produce from the base that they are given: nothing is added and
//! subtracted again, so a member leaves no trace and the base needs no restoring.
//!
//! No perturbation is ever stored: a stretch of rows needs the noise of that stretch only, and it is
//! generated again where it is needed again.
//!
//! ```
//! use fura_core::estimator::{EsConfig, Estimator};
//! use fura_core::layout::Linear;
//! use fura_core::space::{Full, Population, Search};
//!
//! let base = [1.0f32, 2.0, 3.0, 4.0]; // one linear, 2 x 2
//! let config = EsConfig { pairs: 2, sigma: 0.01, ..EsConfig::default() };
//! let mut search = Search::new(config, Full::new(vec![Linear::new("w", 2, 2)]))?;
//! let mut scratch = Vec::new();
//! let mut rewards = Vec::new();
//! for member in search.ask().members() {
//!     let mut w = base;
//!     search.perturb(Some(member), 0, 0..2, &mut w, &mut scratch);
//!     rewards.push(f64::from(w[0])); // an engine would run forward passes with `w`
//! }
//! search.tell(&rewards)?;
//! let mut w = base;
//! search.perturb(None, 0, 0..2, &mut w, &mut scratch); // no member: where the search stands
//! assert!(w[0] > base[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::Range;

mod blocks;
mod full;
mod lora;
mod qes;

pub use blocks::{Blocks, BlocksError};
pub use full::Full;
pub use lora::{Factors, Lora};
pub use qes::{Codes, CodesError, Qes, QesConfig, Residual};

use crate::estimator::{EsConfig, Estimator, EstimatorError, Generation, Member, RewardSummary};
use crate::layout::Linear;

/// Where a population can enter a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    /// At its input or at its weights, whichever suits the engine; both mean the same.
    Input,
    /// At its weights only.
    Weight,
}

/// Reads a linear's coordinates, stretch by stretch: the range counts within the linear and is as long as
/// the output.
pub type Read<'a> = &'a dyn Fn(Range<usize>, &mut [f32]);

/// What coordinates do to linear layers. Zero coordinates are the base, exactly.
///
/// Rows of inputs and weights have the linear's `d_in` floats and lie one after another. Scratch vectors
/// are the caller's, grow to what is needed, and may be used for any linear and space in turn.
pub trait Space {
    /// The linears.
    fn linears(&self) -> &[Linear];

    /// Number of coordinates of a linear.
    fn coordinates(&self, linear: usize) -> usize;

    /// Where the coordinates can enter.
    fn entry(&self) -> Entry;

    /// Writes the transforms of the rows of the input `x` to `y`.
    ///
    /// # Panics
    /// If [`entry`](Self::entry) is [`Entry::Weight`], or lengths disagree.
    fn transform(&self, linear: usize, read: Read<'_>, x: &[f32], y: &mut [f32], scratch: &mut Vec<f32>);

    /// Turns base weights into the weights of this point: `w` holds the given rows of the linear.
    ///
    /// # Panics
    /// If lengths disagree.
    fn perturb(
        &self,
        linear: usize,
        read: Read<'_>,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    );
}

/// What an engine sees of a search: members to evaluate, changes to apply, rewards to tell.
///
/// A member of `None` is the point where the search stands: what training has reached. The methods other
/// than [`tell`](Self::tell) may be called from several threads.
pub trait Population {
    /// The generation to evaluate now.
    fn ask(&self) -> Generation;

    /// Where members can enter a linear layer.
    fn entry(&self) -> Entry;

    /// Writes the member's transforms of the rows of the input `x` to `y`.
    ///
    /// # Panics
    /// If [`entry`](Self::entry) is [`Entry::Weight`], or lengths disagree.
    fn transform(
        &self,
        member: Option<Member>,
        linear: usize,
        x: &[f32],
        y: &mut [f32],
        scratch: &mut Vec<f32>,
    );

    /// Turns the base weights in `w`, the given rows of the linear, into the member's.
    ///
    /// # Panics
    /// If lengths disagree.
    fn perturb(
        &self,
        member: Option<Member>,
        linear: usize,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    );

    /// Takes one reward per member, in the order of [`Generation::members`], and moves on. A reward of
    /// NaN is an abstention; both twins are then left out.
    ///
    /// # Errors
    /// As [`Estimator::tell`].
    fn tell(&mut self, rewards: &[f64]) -> Result<RewardSummary, EstimatorError>;
}

/// An [`Estimator`] at work in a [`Space`].
#[derive(Debug, Clone)]
pub struct Search<S> {
    space: S,
    estimator: Estimator,
    /// `offsets[l]..offsets[l + 1]` are linear `l`'s coordinates.
    offsets: Vec<usize>,
}

impl<S: Space> Search<S> {
    /// Starts at the base model.
    ///
    /// The estimator's coordinates are the space's. Their bound is below 1 in every space, which has its
    /// meaning (no singular value vanishes) in [`Blocks`] only.
    ///
    /// # Errors
    /// As [`Estimator::over`].
    pub fn new(config: EsConfig, space: S) -> Result<Self, EstimatorError> {
        let lengths: Vec<usize> = (0..space.linears().len()).map(|l| space.coordinates(l)).collect();
        let estimator = Estimator::over(config, &lengths)?;
        let mut offsets = vec![0; lengths.len() + 1];
        for (l, length) in lengths.iter().enumerate() {
            offsets[l + 1] = offsets[l] + length;
        }
        Ok(Self { space, estimator, offsets })
    }

    /// The space.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// The estimator, whose flat coordinates are those of the linears one after another.
    pub fn estimator(&self) -> &Estimator {
        &self.estimator
    }

    fn read(&self, member: Option<Member>, linear: usize, range: Range<usize>, out: &mut [f32]) {
        let offset = self.offsets[linear];
        let range = offset + range.start..offset + range.end;
        match member {
            Some(member) => self.estimator.member_coordinates(member, range, out),
            None => out.copy_from_slice(&self.estimator.coordinates()[range]),
        }
    }
}

impl<S: Space> Population for Search<S> {
    fn ask(&self) -> Generation {
        self.estimator.ask()
    }

    fn entry(&self) -> Entry {
        self.space.entry()
    }

    fn transform(
        &self,
        member: Option<Member>,
        linear: usize,
        x: &[f32],
        y: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let read = |range: Range<usize>, out: &mut [f32]| self.read(member, linear, range, out);
        self.space.transform(linear, &read, x, y, scratch);
    }

    fn perturb(
        &self,
        member: Option<Member>,
        linear: usize,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let read = |range: Range<usize>, out: &mut [f32]| self.read(member, linear, range, out);
        self.space.perturb(linear, &read, rows, w, scratch);
    }

    fn tell(&mut self, rewards: &[f64]) -> Result<RewardSummary, EstimatorError> {
        self.estimator.tell(rewards).map(RewardSummary::from)
    }
}
