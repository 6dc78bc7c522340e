//! Block coordinate ascent: generations that take turns.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What one generation of a cycle perturbs and moves: some neighbouring linears, with a population of their own.
///
/// A perturbation of `d` coordinates by `N` pairs finds a direction whose share of the gradient is about
/// `sqrt(N / d)`, so perturbing fewer coordinates with more pairs finds a better one; and what lies below the
/// first perturbed linear has to be computed once for a whole population. So members of a turn at the top of a
/// model are cheap, and it can have many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// First linear, counted in the layout.
    pub first: usize,
    /// How many linears, at least 1.
    pub linears: usize,
    /// Antithetic pairs of the generation.
    pub pairs: u32,
}

impl Turn {
    /// The linears, counted in the layout.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first.saturating_add(self.linears)
    }
}
