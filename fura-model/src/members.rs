//! Who is forwarded: the base model, a specialist, or the members of a population.

use crate::buffer::Buffer;
use crate::config::{LINEARS, ModelConfig};
use crate::model::Model;
use fura_core::estimator::{Estimator, Member, Sign};
use fura_core::layout::{Form, Layout, Scope};
use fura_simd::{Isa, block};
use std::ops::Range;

/// The input transform of one linear for one member.
#[derive(Debug)]
pub enum Transform<'a> {
    /// The base model: the input is used as it is.
    Identity,
    /// The coordinates were written to the scratch buffer; the form to use them in.
    Coordinates(Form),
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
        Transform::Coordinates(self.layout.form())
    }

    fn scope(&self) -> Scope {
        self.layout.scope()
    }
}

/// One specialist, ready for evaluation and decoding. In materialized form its transforms are computed once and kept, `b`
/// floats for each coordinate (19 MB for all linears of SmolLM2-135M at b = 32); in factored form the coordinates are all
/// there is.
#[derive(Clone, Debug)]
pub struct Adapted {
    /// Index in the model's layout of the first linear.
    first: usize,
    scope: Scope,
    form: Form,
    /// Transforms or coordinates of all linears, one after the other.
    numbers: Buffer<f32>,
    /// Where each linear's lie.
    places: Vec<Range<usize>>,
}

impl Adapted {
    /// Bytes that a specialist of all layers of a model takes.
    pub fn bytes(config: &ModelConfig, block: usize, form: Form) -> usize {
        let layer: usize =
            (0..LINEARS.len()).map(|k| numbers_of(form, config.linear_shape(k).1, block)).sum();
        4 * config.layers * layer
    }

    /// The specialist of `coordinates`, flat in the order of `own`, a layout that [`Model::layout_from`] made.
    ///
    /// # Panics
    /// If it made no such layout, or there are not exactly as many coordinates as it has.
    pub fn new(model: &Model, isa: Isa, coordinates: &[f32], own: &Layout) -> Self {
        let (layout, form) = (model.layout(), own.form());
        let from_layer = model.first_layer(own).expect("a layout of this model");
        let first = model.linear_index(from_layer, 0);
        let mut rest = coordinates;
        let mut end = 0;
        let places: Vec<Range<usize>> = (first..layout.linears().len())
            .map(|l| {
                let start = end;
                end += numbers_of(form, layout.range(l).len(), layout.block());
                start..end
            })
            .collect();
        let mut numbers = Buffer::new(end);
        for (l, place) in (first..).zip(&places) {
            let (c, others) = rest.split_at(layout.range(l).len());
            rest = others;
            let numbers = &mut numbers[place.clone()];
            match form {
                Form::Materialized => block::materialize(isa, model.basis(l), c, layout.block(), numbers),
                Form::Factored => numbers.copy_from_slice(c),
            }
        }
        assert!(rest.is_empty(), "coordinates of another layout");
        Self { first, scope: own.scope(), form, numbers, places }
    }
}

/// Numbers that are kept of a linear.
fn numbers_of(form: Form, d_in: usize, block: usize) -> usize {
    match form {
        Form::Materialized => block::matrix_len(d_in, block),
        Form::Factored => d_in,
    }
}

impl Members for Adapted {
    fn transform(&self, _: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        let Some(l) = linear.checked_sub(self.first) else { return Transform::Identity };
        let numbers = &self.numbers[self.places[l].clone()];
        match self.form {
            Form::Materialized => Transform::Materialized(numbers),
            Form::Factored => {
                scratch.copy_from_slice(numbers);
                Transform::Coordinates(Form::Factored)
            }
        }
    }

    fn scope(&self) -> Scope {
        self.scope
    }
}
