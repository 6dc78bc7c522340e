//! Who is forwarded: the base model, a specialist, or the members of a population.

use crate::buffer::Buffer;
use crate::config::{LINEARS, ModelConfig};
use crate::model::Model;
use fura_core::estimator::{Estimator, Member, Sign};
use fura_core::layout::{Layout, Scope};
use fura_simd::{Isa, block};
use std::ops::Range;

/// The input transform of one linear for one member.
#[derive(Debug)]
pub enum Transform<'a> {
    /// The base model: the input is used as it is.
    Identity,
    /// The coordinates were written to the scratch buffer.
    Coordinates,
    /// A materialized transform (layout of [`fura_simd::block`]).
    Materialized(&'a [f32]),
}

/// A set of members that differ only in their coordinates; a batch's sequences say which one they belong to.
pub trait Members: Sync {
    /// The transform of `linear` (index in the model's layout) for `member`. `scratch` is as long as the
    /// linear's input; an implementation that answers [`Transform::Coordinates`] has filled it.
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_>;

    /// The tokens at which the members differ from the base. Whoever makes batches for them gives the other tokens to
    /// [`BASE`](crate::BASE).
    fn scope(&self) -> Scope {
        Scope::Everywhere
    }
}

/// The base model, whatever the member.
#[derive(Clone, Copy, Debug)]
pub struct Base;

impl Members for Base {
    fn transform(&self, _: u32, _: usize, _: &mut [f32]) -> Transform<'_> {
        Transform::Identity
    }
}

/// The population of the estimator's current generation: member `2 i` is pair `i` with the plus sign,
/// `2 i + 1` its twin. Noise is regenerated for every linear; nothing is stored. In layers below the trained ones
/// every member is the base.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    estimator: &'a Estimator,
    layout: &'a Layout,
    /// Index in the model's layout of the first trained linear.
    first: usize,
}

impl<'a> Population<'a> {
    /// The members that `estimator` asks for. `layout` is the estimator's, made by [`Model::layout_from`] with
    /// `from_layer`.
    pub fn new(estimator: &'a Estimator, model: &Model, layout: &'a Layout, from_layer: usize) -> Self {
        Self { estimator, layout, first: model.linear_index(from_layer, 0) }
    }
}

impl Members for Population<'_> {
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        let Some(linear) = linear.checked_sub(self.first) else { return Transform::Identity };
        let sign = if member.is_multiple_of(2) { Sign::Plus } else { Sign::Minus };
        let member = Member { pair: member / 2, sign };
        self.estimator.member_coordinates(member, self.layout.range(linear), scratch);
        Transform::Coordinates
    }

    fn scope(&self) -> Scope {
        self.layout.scope()
    }
}

/// One specialist with its transforms materialized once, for evaluation and decoding: `b` floats for each
/// coordinate (19 MB for all linears of SmolLM2-135M at b = 32).
#[derive(Clone, Debug)]
pub struct Materialized {
    /// Index in the model's layout of the first linear.
    first: usize,
    scope: Scope,
    /// Of all linears, one after the other.
    transforms: Buffer<f32>,
    /// Where each linear's lies.
    places: Vec<Range<usize>>,
}

impl Materialized {
    /// Bytes that the transforms of all layers of a model take.
    pub fn bytes(config: &ModelConfig, block: usize) -> usize {
        let layer: usize =
            (0..LINEARS.len()).map(|k| block::matrix_len(config.linear_shape(k).1, block)).sum();
        4 * config.layers * layer
    }

    /// Materializes `coordinates`, flat in the order of `own`, a layout that [`Model::layout_from`] made.
    ///
    /// # Panics
    /// If it made no such layout, or there are not exactly as many coordinates as it has.
    pub fn new(model: &Model, isa: Isa, coordinates: &[f32], own: &Layout) -> Self {
        let layout = model.layout();
        let from_layer = model.first_layer(own).expect("a layout of this model");
        let first = model.linear_index(from_layer, 0);
        let mut rest = coordinates;
        let mut end = 0;
        let places: Vec<Range<usize>> = (first..layout.linears().len())
            .map(|l| {
                let start = end;
                end += model.basis(l).len();
                start..end
            })
            .collect();
        let mut transforms = Buffer::new(end);
        for (l, place) in (first..).zip(&places) {
            let (c, others) = rest.split_at(layout.range(l).len());
            rest = others;
            block::materialize(isa, model.basis(l), c, layout.block(), &mut transforms[place.clone()]);
        }
        assert!(rest.is_empty(), "coordinates of another layout");
        Self { first, scope: own.scope(), transforms, places }
    }
}

impl Members for Materialized {
    fn transform(&self, _: u32, linear: usize, _: &mut [f32]) -> Transform<'_> {
        match linear.checked_sub(self.first) {
            Some(l) => Transform::Materialized(&self.transforms[self.places[l].clone()]),
            None => Transform::Identity,
        }
    }

    fn scope(&self) -> Scope {
        self.scope
    }
}
