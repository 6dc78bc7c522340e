//! What a change does to one matrix of the model.

use crate::family::Family;
use fura::core::noise::Noise;
use fura::core::rotation::diagnostics::{
    left_residual, participation, principal_angles, spectral_shift, tail_change,
};
use fura::core::rotation::expectation::drift;
use fura::core::rotation::{BlockFrame, Matrix, RotationError, Svd};
use fura::model::Model;

/// Singular vectors whose subspace is followed.
const TOP: usize = 8;

/// A weight matrix and its decomposition.
pub struct Weights {
    linear: usize,
    w: Matrix,
    svd: Svd,
}

/// What one change did.
pub struct Effect {
    /// `|sigma' - sigma| / |sigma|`.
    pub drift: f64,
    /// Off-diagonal part of `U^T W' W'^T U`, relative.
    pub residual: f64,
    /// Largest principal angle of the leading left vectors, degrees.
    pub left_angle: f64,
    /// The same of the right ones.
    pub right_angle: f64,
    /// Mean relative change of the smallest tenth of the singular values.
    pub tail: f64,
    /// Relative growth of the largest singular value.
    pub growth: f64,
}

impl Weights {
    /// The dequantized weights of the linear called `name`.
    ///
    /// # Panics
    /// If the model has none of that name.
    pub fn load(model: &Model, name: &str) -> Result<Self, RotationError> {
        let linear = model.layout().find(name).unwrap_or_else(|| panic!("the model has no linear '{name}'"));
        let packed = model.linear(linear);
        let mut weights = vec![0.0; packed.d_out() * packed.d_in()];
        for (row, out) in weights.chunks_exact_mut(packed.d_in()).enumerate() {
            packed.decode_row(row, out);
        }
        let w = Matrix::from_rows(packed.d_out(), packed.d_in(), &weights);
        let svd = Svd::thin(&w)?;
        Ok(Self { linear, w, svd })
    }

    /// The effect of one change of norm `tau |W|`, drawn from a seed of its own.
    pub fn effect(&self, family: &Family, tau: f64) -> Result<Effect, RotationError> {
        let change = family.draw(&self.w, tau * self.w.norm(), &mut normals(self.linear as u64))?;
        let changed = &self.w + &change;
        let after = Svd::thin(&changed)?;
        let (s, t) = (self.svd.s(), after.s());
        // Angles ascend.
        let turn = |a: &Matrix, b: &Matrix| -> Result<f64, RotationError> {
            Ok(principal_angles(a, b, TOP)?[TOP - 1].to_degrees())
        };
        Ok(Effect {
            drift: spectral_shift(s, t),
            residual: left_residual(&self.svd, &changed),
            left_angle: turn(self.svd.u(), after.u())?,
            right_angle: turn(self.svd.v(), after.v())?,
            tail: tail_change(s, t, 0.1),
            growth: (t[0] / s[0] - 1.0).max(0.0),
        })
    }

    /// Expected drift over tau of coordinates in blocks of `block`, to first order.
    pub fn expected_drift(&self, block: usize) -> Result<f64, RotationError> {
        let overlaps = BlockFrame::spectral(&self.w, block)?.overlaps(&self.svd);
        Ok(drift(self.svd.s(), &participation(&overlaps)))
    }
}

/// Standard normal numbers, the same on every machine.
fn normals(seed: u64) -> impl FnMut() -> f64 {
    let noise = Noise::new(seed);
    let mut buffer = [0.0f32; 1024];
    let (mut generation, mut at) = (0, buffer.len());
    move || {
        if at == buffer.len() {
            noise.fill(generation, 0, 0..buffer.len(), &mut buffer);
            (generation, at) = (generation + 1, 0);
        }
        at += 1;
        f64::from(buffer[at - 1])
    }
}
