//! Hyperparameters of a Llama-style model, from GGUF metadata.

use crate::error::ModelError;
use crate::gguf::Gguf;
use serde::{Deserialize, Serialize};

/// Shapes and constants of the forward pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Number of layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Width of the gated MLP.
    pub d_ff: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; `heads` is a multiple of it (grouped-query attention).
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Vocabulary size.
    pub vocab: usize,
    /// Longest context the model was made for.
    pub context: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Epsilon of the RMS norms.
    pub norm_eps: f32,
    /// Whether the output head is the embedding matrix.
    pub tied: bool,
}

/// The linears of a layer, in the order of coordinates and of the pack.
pub(crate) const LINEARS: [&str; 7] =
    ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

impl ModelConfig {
    /// Reads and checks the metadata of a file whose architecture is `llama`.
    ///
    /// # Errors
    /// A missing key, an impossible value, or a feature this engine does not compute, by name.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let file = || gguf.file().to_owned();
        let architecture = gguf.str("general.architecture")?;
        if architecture != "llama" {
            return Err(ModelError::Unsupported {
                file: file(),
                feature: format!("architecture '{architecture}'"),
                advice: "use a Llama-style model (general.architecture = llama)",
            });
        }
        if let Some(kind) = gguf.opt_str("llama.rope.scaling.type")?
            && kind != "none"
        {
            return Err(ModelError::Unsupported {
                file: file(),
                feature: format!("llama.rope.scaling.type '{kind}'"),
                advice: "use a model without RoPE scaling",
            });
        }
        if gguf.opt_u32("llama.expert_count")?.unwrap_or(0) != 0 {
            return Err(ModelError::Unsupported {
                file: file(),
                feature: "llama.expert_count (mixture of experts)".to_owned(),
                advice: "use a dense model",
            });
        }
        let positive = |key: &str, value: u32| {
            if (1..=1 << 20).contains(&value) {
                return Ok(value as usize);
            }
            Err(ModelError::Metadata {
                file: file(),
                key: key.to_owned(),
                found: value.to_string(),
                expected: "a value from 1 to 1048576",
            })
        };
        let required = |key: &str| positive(key, gguf.u32(key)?);
        let layers = required("llama.block_count")?;
        let d_model = required("llama.embedding_length")?;
        let heads = required("llama.attention.head_count")?;
        let key = "llama.attention.head_count_kv";
        let kv_heads = positive(key, gguf.opt_u32(key)?.unwrap_or(heads as u32))?;
        let key = "llama.attention.key_length";
        let head_dim = positive(key, gguf.opt_u32(key)?.unwrap_or((d_model / heads) as u32))?;
        let key = "llama.rope.dimension_count";
        let rotated = positive(key, gguf.opt_u32(key)?.unwrap_or(head_dim as u32))?;
        let bad = |key: &str, found: usize, expected| ModelError::Metadata {
            file: file(),
            key: key.to_owned(),
            found: found.to_string(),
            expected,
        };
        if !heads.is_multiple_of(kv_heads) {
            return Err(bad("llama.attention.head_count_kv", kv_heads, "a divisor of the number of heads"));
        }
        if !head_dim.is_multiple_of(2) || rotated != head_dim {
            return Err(bad(key, rotated, "the (even) width of a head"));
        }
        let context = required("llama.context_length")?;
        let rope_base = gguf.opt_f32("llama.rope.freq_base")?.unwrap_or(10_000.0);
        let norm_eps = gguf.f32("llama.attention.layer_norm_rms_epsilon")?;
        if !(rope_base.is_finite() && rope_base > 0.0 && norm_eps.is_finite() && norm_eps >= 0.0) {
            return Err(ModelError::Metadata {
                file: file(),
                key: "llama.rope.freq_base or layer_norm_rms_epsilon".to_owned(),
                found: format!("{rope_base}, {norm_eps}"),
                expected: "finite and not negative",
            });
        }
        let embedding = gguf.tensor("token_embd.weight").ok_or_else(|| ModelError::Unsupported {
            file: file(),
            feature: "a model without tensor 'token_embd.weight'".to_owned(),
            advice: "the file is incomplete, download it again",
        })?;
        let vocab = embedding.dims.get(1).copied().unwrap_or(0);
        Ok(Self {
            layers,
            d_model,
            d_ff: required("llama.feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocab,
            context,
            rope_base,
            norm_eps,
            tied: gguf.tensor("output.weight").is_none(),
        })
    }

    /// Width of the queries of all heads.
    pub fn d_query(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of the keys (and of the values) of all heads.
    pub fn d_kv(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// `(d_out, d_in)` of linear `k` of a layer, in the order q, k, v, o, gate, up, down.
    pub(crate) fn linear_shape(&self, k: usize) -> (usize, usize) {
        match k {
            0 => (self.d_query(), self.d_model),
            1 | 2 => (self.d_kv(), self.d_model),
            3 => (self.d_model, self.d_query()),
            4 | 5 => (self.d_ff, self.d_model),
            _ => (self.d_model, self.d_ff),
        }
    }
}
