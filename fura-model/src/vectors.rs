//! The vectors of a model: norm weights, biases, frequency divisors.

use crate::architecture;
use crate::config::{LINEARS, ModelConfig};
use crate::error::ModelError;
use crate::gguf::Gguf;

/// Where each kind of vector is in the pack's list: layer after layer, then those of the model.
#[derive(Clone, Debug)]
pub(crate) struct VectorIndex {
    layers: usize,
    per_layer: usize,
    post_norms: Option<usize>,
    head_norms: Option<usize>,
    biases: [Option<usize>; LINEARS.len()],
    divisors: bool,
}

impl VectorIndex {
    pub(crate) fn new(c: &ModelConfig) -> Self {
        let v = &c.variant;
        let mut per_layer = 2;
        let mut take = |wanted: bool, n: usize| {
            let at = per_layer;
            per_layer += if wanted { n } else { 0 };
            wanted.then_some(at)
        };
        let post_norms = take(v.post_norms, 2);
        let head_norms = take(v.head_norms, 2);
        let biases = v.biases.map(|wanted| take(wanted, 1));
        Self { layers: c.layers, per_layer, post_norms, head_norms, biases, divisors: v.rope_divisors }
    }

    pub(crate) fn attention_norm(&self, layer: usize) -> usize {
        layer * self.per_layer
    }

    pub(crate) fn mlp_norm(&self, layer: usize) -> usize {
        layer * self.per_layer + 1
    }

    /// Norms of attention's and of the MLP's output.
    pub(crate) fn post_norms(&self, layer: usize) -> Option<[usize; 2]> {
        self.post_norms.map(|at| layer * self.per_layer + at).map(|at| [at, at + 1])
    }

    /// Norms of the heads of queries and of keys.
    pub(crate) fn head_norms(&self, layer: usize) -> Option<[usize; 2]> {
        self.head_norms.map(|at| layer * self.per_layer + at).map(|at| [at, at + 1])
    }

    /// Bias of linear `k`.
    pub(crate) fn bias(&self, layer: usize, k: usize) -> Option<usize> {
        self.biases[k].map(|at| layer * self.per_layer + at)
    }

    pub(crate) fn output_norm(&self) -> usize {
        self.layers * self.per_layer
    }

    pub(crate) fn divisors(&self) -> Option<usize> {
        self.divisors.then_some(self.layers * self.per_layer + 1)
    }
}

/// Names and lengths of all vectors, in the order of [`VectorIndex`].
pub(crate) fn shapes(c: &ModelConfig) -> Vec<(String, usize)> {
    let v = &c.variant;
    let mut out = Vec::new();
    for layer in 0..c.layers {
        let mut put = |name: &str, len| out.push((format!("blk.{layer}.{name}"), len));
        put("attn_norm", c.d_model);
        put("ffn_norm", c.d_model);
        if v.post_norms {
            put("post_attention_norm", c.d_model);
            put("post_ffw_norm", c.d_model);
        }
        if v.head_norms {
            put("attn_q_norm", c.head_dim);
            put("attn_k_norm", c.head_dim);
        }
        for (k, name) in LINEARS.iter().enumerate().filter(|(k, _)| v.biases[*k]) {
            put(&format!("{name}.bias"), c.linear_shape(k).0);
        }
    }
    out.push(("output_norm".to_owned(), c.d_model));
    if v.rope_divisors {
        out.push(("rope_freqs".to_owned(), c.rotated() / 2));
    }
    out
}

/// The tensor that holds a vector.
pub(crate) fn tensor_name(gguf: &Gguf<'_>, vector: &str) -> Result<String, ModelError> {
    Ok(match vector {
        "rope_freqs" if architecture::of(gguf)?.fused => "rope_factors_short.weight".to_owned(),
        bias if bias.ends_with(".bias") => bias.to_owned(),
        weight => format!("{weight}.weight"),
    })
}

/// Reads a vector of `len` finite numbers.
pub(crate) fn read(gguf: &Gguf<'_>, vector: &str, len: usize) -> Result<Vec<f32>, ModelError> {
    let tensor = tensor_name(gguf, vector)?;
    let info = gguf.require_tensor(&tensor)?;
    let file = || gguf.file().to_owned();
    if info.dims != [len] {
        return Err(ModelError::Shape {
            file: file(),
            tensor,
            found: info.dims.clone(),
            expected: vec![len],
        });
    }
    gguf.check_finite(info)?;
    let bytes = gguf.tensor_data(&tensor)?;
    let Some(values) = info.kind.floats(bytes) else {
        return Err(ModelError::Unsupported {
            file: file(),
            feature: format!("tensor '{tensor}' of type {}", info.kind),
            advice: "norms, biases and frequency divisors are F32, F16 or BF16; convert the model again",
        });
    };
    if vector == "rope_freqs" && values.iter().any(|v| *v <= 0.0) {
        return Err(ModelError::Unsupported {
            file: file(),
            feature: format!("tensor '{tensor}' with a divisor that is not positive"),
            advice: "the file is damaged, convert the model again",
        });
    }
    Ok(values)
}
