//! From the estimated gradient to the direction of the step: plain, heavy ball or Adam.

use super::config::{Adam, EsConfig};

/// Direction state over the flat coordinates, in `f64`.
#[derive(Debug, Clone)]
pub(super) enum Ascent {
    /// The gradient itself.
    Plain,
    /// `m <- momentum m + g`, direction `m`.
    HeavyBall { momentum: f64, m: Vec<f64> },
    /// First and second moments, and the products `beta^t` that correct their start at zero.
    Adam { settings: Adam, m: Vec<f64>, v: Vec<f64>, rest: [f64; 2] },
}

impl Ascent {
    /// State for `n` coordinates.
    pub(super) fn new(config: &EsConfig, n: usize) -> Self {
        if let Some(settings) = config.adam {
            return Self::Adam { settings, m: vec![0.0; n], v: vec![0.0; n], rest: [1.0; 2] };
        }
        match config.momentum > 0.0 {
            true => Self::HeavyBall { momentum: config.momentum.into(), m: vec![0.0; n] },
            false => Self::Plain,
        }
    }

    /// Numbers that the state has for each coordinate.
    pub(super) fn numbers(config: &EsConfig) -> usize {
        if config.adam.is_some() { 2 } else { usize::from(config.momentum > 0.0) }
    }

    /// Begins an update; every coordinate's gradient follows once.
    pub(super) fn begin(&mut self) {
        if let Self::Adam { settings, rest, .. } = self {
            rest[0] *= f64::from(settings.beta1);
            rest[1] *= f64::from(settings.beta2);
        }
    }

    /// Turns the gradient of the coordinates from `start` on into their direction, in place.
    pub(super) fn direct(&mut self, start: usize, gradient: &mut [f64]) {
        let range = start..start + gradient.len();
        match self {
            Self::Plain => {}
            Self::HeavyBall { momentum, m } => {
                for (m, g) in m[range].iter_mut().zip(gradient) {
                    *m = *momentum * *m + *g;
                    *g = *m;
                }
            }
            Self::Adam { settings, m, v, rest } => {
                let (beta1, beta2) = (f64::from(settings.beta1), f64::from(settings.beta2));
                let epsilon = f64::from(settings.epsilon);
                let whole = [1.0 - rest[0], 1.0 - rest[1]];
                for ((m, v), g) in m[range.clone()].iter_mut().zip(&mut v[range]).zip(gradient) {
                    *m = beta1 * *m + (1.0 - beta1) * *g;
                    *v = beta2 * *v + (1.0 - beta2) * (*g * *g);
                    *g = (*m / whole[0]) / ((*v / whole[1]).sqrt() + epsilon);
                }
            }
        }
    }
}
