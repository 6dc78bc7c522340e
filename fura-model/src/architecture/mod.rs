//! What the model families differ in, as data: one small description a family, one forward pass for all.
//!
//! A description says how to read a family's files and which of the features the forward pass knows it uses. A
//! feature that a file has and no description covers is an error that names it.

mod gemma;
mod llama;
mod phi3;
mod qwen;

use crate::config::Activation;
use crate::error::ModelError;
use crate::gguf::Gguf;

/// A family: its name in `general.architecture` and what differs from [`PLAIN`].
#[derive(Debug)]
pub(crate) struct Architecture {
    /// `general.architecture`, and the prefix of its metadata keys.
    pub(crate) name: &'static str,
    /// Whether rotary pairs are a head's two halves, `(i, i + n/2)`, instead of neighbours, `(2i, 2i + 1)`.
    pub(crate) halves: bool,
    /// Nonlinearity of the gate.
    pub(crate) activation: Activation,
    /// Whether each head of queries and keys has an RMS norm.
    pub(crate) head_norms: bool,
    /// Whether attention's and the MLP's outputs have an RMS norm before they are added.
    pub(crate) post_norms: bool,
    /// Whether embeddings are multiplied by `sqrt(d_model)`.
    pub(crate) scaled_embedding: bool,
    /// Whether files hold `attn_qkv` (queries, keys, values) and a `ffn_up` that begins with the gate.
    pub(crate) fused: bool,
    /// Every layer number (from 1) that is a multiple of this has no rotary embedding.
    pub(crate) unrotated_period: Option<usize>,
    /// What `attention.sliding_window` means, if the family has it.
    pub(crate) window: Option<Window>,
    /// Rotary base of layers with a window, if it is not that of the others; such layers are not scaled either.
    pub(crate) local_rope_base: Option<f32>,
    /// The number of layers of the family's model whose queries are scaled by `sqrt(heads / d_model)` instead of
    /// `1 / sqrt(head_dim)`: files do not say.
    pub(crate) width_scaled_layers: Option<usize>,
}

/// Which layers of a family have the sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// All.
    All,
    /// All but those whose number (from 1) is a multiple of this.
    AllBut(usize),
}

/// Llama as of 2023: what a description leaves unsaid.
const PLAIN: Architecture = Architecture {
    name: "",
    halves: false,
    activation: Activation::Silu,
    head_norms: false,
    post_norms: false,
    scaled_embedding: false,
    fused: false,
    unrotated_period: None,
    window: None,
    local_rope_base: None,
    width_scaled_layers: None,
};

const ALL: [&Architecture; 7] =
    [&llama::LLAMA, &llama::SMOLLM3, &qwen::QWEN2, &qwen::QWEN3, &phi3::PHI3, &gemma::GEMMA2, &gemma::GEMMA3];

/// The description of the family a file belongs to.
pub(crate) fn of(gguf: &Gguf<'_>) -> Result<&'static Architecture, ModelError> {
    let name = gguf.str("general.architecture")?;
    ALL.into_iter().find(|a| a.name == name).ok_or_else(|| ModelError::Unsupported {
        file: gguf.file().to_owned(),
        feature: format!("architecture '{}'", crate::gguf::printable(name)),
        advice: "use a model of the llama (Llama, Mistral, SmolLM2), smollm3, qwen2, qwen3, phi3, gemma2 or \
                 gemma3 architecture",
    })
}
