//! Gemma 2 and 3, text. Files hold the norms' weights with the family's "+ 1" already added.

use super::{Architecture, PLAIN, Window};
use crate::config::Activation;

/// Gemma 2 (arXiv 2408.00118): every second layer is local; attention and logits are capped.
pub(super) const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    halves: true,
    activation: Activation::GeluTanh,
    post_norms: true,
    scaled_embedding: true,
    window: Some(Window::AllBut(2)),
    width_scaled_layers: Some(46),
    ..PLAIN
};

/// Gemma 3 (arXiv 2503.19786): five local layers to a global one; norms of queries and keys instead of a cap.
pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    head_norms: true,
    window: Some(Window::AllBut(6)),
    local_rope_base: Some(10_000.0),
    width_scaled_layers: Some(62),
    ..GEMMA2
};
