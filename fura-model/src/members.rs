//! Who is forwarded: the base model, a specialist, or the members of a population.

use crate::model::Model;
use fura_core::estimator::{Estimator, Member, Sign};
use fura_simd::{Isa, block};

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
/// `2 i + 1` its twin. Noise is regenerated for every linear; nothing is stored.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    estimator: &'a Estimator,
    model: &'a Model,
}

impl<'a> Population<'a> {
    /// The members that `estimator` asks for, on `model`'s layout.
    pub fn new(estimator: &'a Estimator, model: &'a Model) -> Self {
        Self { estimator, model }
    }
}

impl Members for Population<'_> {
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        let sign = if member.is_multiple_of(2) { Sign::Plus } else { Sign::Minus };
        let member = Member { pair: member / 2, sign };
        self.estimator.member_coordinates(member, self.model.layout().range(linear), scratch);
        Transform::Coordinates
    }
}

/// One specialist with its transforms materialized once, for evaluation and decoding: `b` floats for each
/// coordinate (19 MB for SmolLM2-135M at b = 32).
#[derive(Clone, Debug)]
pub struct Materialized {
    transforms: Vec<Vec<f32>>,
}

impl Materialized {
    /// Materializes `coordinates` (flat, in the layout's order).
    ///
    /// # Panics
    /// If there are not exactly as many coordinates as the layout has.
    pub fn new(model: &Model, isa: Isa, coordinates: &[f32]) -> Self {
        let layout = model.layout();
        assert_eq!(coordinates.len(), layout.coordinates(), "coordinates of another layout");
        let transforms = (0..layout.linears().len())
            .map(|l| {
                let v = model.basis(l);
                let mut t = vec![0.0; v.len()];
                block::materialize(isa, v, &coordinates[layout.range(l)], layout.block(), &mut t);
                t
            })
            .collect();
        Self { transforms }
    }
}

impl Members for Materialized {
    fn transform(&self, _: u32, linear: usize, _: &mut [f32]) -> Transform<'_> {
        Transform::Materialized(&self.transforms[linear])
    }
}
