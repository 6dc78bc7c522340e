//! Phi-3, Phi-3.5 and Phi-4 mini.

use super::{Architecture, PLAIN, Window};

/// Long contexts have frequency divisors of their own, chosen by length. The engine uses the short ones, so its
/// context is the original one.
pub(super) const PHI3: Architecture =
    Architecture { name: "phi3", halves: true, fused: true, window: Some(Window::All), ..PLAIN };
