//! Properties of the rotation theorem, its criteria and the diagnostics.

mod criteria;
mod diagnostics;
mod expectation;
mod matrices;
mod theorem;
