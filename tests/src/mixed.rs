//! Members for tests: specialists with sizeable coordinates, several of them in one batch.

use fura::core::estimator::{EsConfig, Estimator};
use fura::core::layout::Scope;
use fura_model::tokenizer::Specials;
use fura_model::{Adapted, Members, Model, Transform};

/// Several specialists, and the base, in one batch.
#[derive(Debug)]
pub struct Mixed<'a>(pub &'a [Option<Adapted>]);

impl Members for Mixed<'_> {
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        match &self.0[member as usize] {
            Some(m) => m.transform(member, linear, scratch),
            None => Transform::Identity,
        }
    }
}

/// A specialist with sizeable coordinates.
pub fn coordinates(model: &Model, seed: u64) -> Vec<f32> {
    let config = EsConfig { seed, sigma: 0.2, pairs: 1, ..EsConfig::default() };
    let estimator = Estimator::new(config, model.layout()).unwrap();
    let mut c = vec![0.0; model.layout().coordinates()];
    let member = estimator.ask().members().next().unwrap();
    estimator.member_coordinates(member, 0..model.layout().coordinates(), &mut c);
    c
}

/// The tokens of a text.
pub fn encode(model: &Model, text: &str) -> Vec<u32> {
    model.tokenizer().encode(text, Specials::Ignore).unwrap()
}

/// Members in [`Scope::Answer`], whatever theirs.
#[derive(Debug)]
pub struct InAnswers<'a, M>(pub &'a M);

impl<M: Members> Members for InAnswers<'_, M> {
    fn transform(&self, member: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        self.0.transform(member, linear, scratch)
    }

    fn scope(&self) -> Scope {
        Scope::Answer
    }
}

/// One member of several, as member 0.
#[derive(Debug)]
pub struct Alone<'a, M>(pub &'a M, pub u32);

impl<M: Members> Members for Alone<'_, M> {
    fn transform(&self, _: u32, linear: usize, scratch: &mut [f32]) -> Transform<'_> {
        self.0.transform(self.1, linear, scratch)
    }

    fn scope(&self) -> Scope {
        self.0.scope()
    }
}
