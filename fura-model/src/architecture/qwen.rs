//! Qwen2 and 2.5 (biases on queries, keys and values, which the file's tensors show), Qwen3.

use super::{Architecture, PLAIN};

/// Qwen2 and Qwen2.5.
pub(super) const QWEN2: Architecture = Architecture { name: "qwen2", halves: true, ..PLAIN };

/// Qwen3, dense.
pub(super) const QWEN3: Architecture =
    Architecture { name: "qwen3", halves: true, head_norms: true, ..PLAIN };
