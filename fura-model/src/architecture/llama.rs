//! Llama 1 to 3, Mistral, SmolLM2 (all of them "llama" in files), SmolLM3.

use super::{Architecture, PLAIN, Window};

/// Llama 3's scaled frequencies come as the tensor `rope_freqs`; Mistral's window is a metadata key.
pub(super) const LLAMA: Architecture = Architecture { name: "llama", window: Some(Window::All), ..PLAIN };

/// SmolLM3: every fourth layer without rotary embedding (Yang et al., arXiv 2501.18795).
pub(super) const SMOLLM3: Architecture = Architecture { name: "smollm3", unrotated_period: Some(4), ..PLAIN };
