//! Hyperparameters of a Llama-style model, from GGUF metadata.

use crate::architecture::{self, Architecture, Window};
use crate::error::ModelError;
use crate::gguf::{Gguf, Value, printable};
use serde::{Deserialize, Serialize};

/// Shapes and constants of the forward pass.
///
/// Its JSON is part of a model's fingerprint: a field that is added later is left out when it has the value that
/// models before it had.
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
    /// What differs from the plain Llama of 2023.
    #[serde(default, skip_serializing_if = "is_default")]
    pub variant: Variant,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The features of the forward pass that a plain Llama does not use. The default uses none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variant {
    /// Whether rotary pairs are a head's two halves instead of neighbours.
    #[serde(skip_serializing_if = "is_default")]
    pub halves: bool,
    /// How many leading channels of a head are rotated, if not all.
    #[serde(skip_serializing_if = "is_default")]
    pub rotated: Option<usize>,
    /// How rotary frequencies are stretched.
    #[serde(skip_serializing_if = "is_default")]
    pub rope_scaling: RopeScaling,
    /// Whether each rotary frequency has a divisor of its own (Llama 3.1 and later, Phi-3).
    #[serde(skip_serializing_if = "is_default")]
    pub rope_divisors: bool,
    /// Factor on cosines and sines, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub rope_magnitude: Option<f32>,
    /// Every layer number (from 1) that is a multiple of this is not rotated.
    #[serde(skip_serializing_if = "is_default")]
    pub unrotated_period: Option<usize>,
    /// Sliding window of attention: how many positions a token sees, itself included.
    #[serde(skip_serializing_if = "is_default")]
    pub window: Option<usize>,
    /// Every layer number (from 1) that is a multiple of this has no window.
    #[serde(skip_serializing_if = "is_default")]
    pub global_period: Option<usize>,
    /// Rotary base, without scaling, of the layers that have a window.
    #[serde(skip_serializing_if = "is_default")]
    pub local_rope_base: Option<f32>,
    /// Nonlinearity of the MLP's gate.
    #[serde(skip_serializing_if = "is_default")]
    pub activation: Activation,
    /// Whether each head of queries and keys has an RMS norm.
    #[serde(skip_serializing_if = "is_default")]
    pub head_norms: bool,
    /// Whether attention's and the MLP's outputs have an RMS norm before they are added.
    #[serde(skip_serializing_if = "is_default")]
    pub post_norms: bool,
    /// Factor on embeddings, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub embedding_scale: Option<f32>,
    /// Factor on attention scores, if not `1 / sqrt(head_dim)`.
    #[serde(skip_serializing_if = "is_default")]
    pub attention_scale: Option<f32>,
    /// `cap * tanh(score / cap)` on attention scores, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub attention_cap: Option<f32>,
    /// `cap * tanh(logit / cap)` on logits, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub logit_cap: Option<f32>,
    /// Which linears (order q, k, v, o, gate, up, down) add a bias.
    #[serde(skip_serializing_if = "is_default")]
    pub biases: [bool; 7],
}

/// Nonlinearity of the gate of the MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `x / (1 + e^-x)`.
    #[default]
    Silu,
    /// The tanh approximation of GELU.
    GeluTanh,
}

/// How rotary frequencies are stretched for contexts longer than those of pre-training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// Not at all.
    #[default]
    None,
    /// All frequencies are divided by `factor`.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// YaRN (Peng et al., arXiv 2309.00071): frequencies that turn less than `beta_slow` times in the original
    /// context are divided by `factor`, those that turn more than `beta_fast` times are kept, in between is a
    /// ramp; cosines and sines grow by `1 + 0.1 ln(factor)`.
    Yarn {
        /// The divisor.
        factor: f32,
        /// Context of pre-training.
        original_context: usize,
        /// Turns above which a frequency is kept.
        beta_fast: f32,
        /// Turns below which a frequency is divided.
        beta_slow: f32,
    },
}

/// The linears of a layer, in the order of coordinates and of the pack.
pub(crate) const LINEARS: [&str; 7] =
    ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/// Metadata keys (after the architecture's name and a dot) whose meaning the forward pass covers. Any other key of
/// the architecture may change the answer, so it is refused.
const KEYS: [&str; 24] = [
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "attn_logit_softcapping",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
];

/// Reads the metadata keys of a file's own architecture.
struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    architecture: &'static Architecture,
}

impl Keys<'_, '_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    fn bad(&self, key: &str, found: impl ToString, expected: &'static str) -> ModelError {
        let (file, found) = (self.gguf.file().to_owned(), found.to_string());
        ModelError::Metadata { file, key: self.name(key), found, expected }
    }

    fn unsupported(&self, feature: String, advice: &'static str) -> ModelError {
        ModelError::Unsupported { file: self.gguf.file().to_owned(), feature, advice }
    }

    fn size(&self, key: &str, value: u32) -> Result<usize, ModelError> {
        if (1..=1 << 20).contains(&value) {
            return Ok(value as usize);
        }
        Err(self.bad(key, value, "a value from 1 to 1048576"))
    }

    fn required(&self, key: &str) -> Result<usize, ModelError> {
        self.size(key, self.gguf.u32(&self.name(key))?)
    }

    fn optional(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.gguf.opt_u32(&self.name(key))?.map(|v| self.size(key, v)).transpose()
    }

    /// A positive number, if the key is there.
    fn positive(&self, key: &str) -> Result<Option<f32>, ModelError> {
        match self.gguf.opt_f32(&self.name(key))? {
            Some(v) if !(v.is_finite() && v > 0.0) => Err(self.bad(key, v, "a finite number above 0")),
            v => Ok(v),
        }
    }

    /// Refuses keys that may change the answer in a way that is not computed.
    fn check_known(&self) -> Result<(), ModelError> {
        let prefix = self.name("");
        for (key, value) in self.gguf.metadata() {
            let Some(rest) = key.strip_prefix(&prefix) else { continue };
            let harmless = match rest {
                // A dense model says so.
                "expert_count" | "expert_used_count" => value == Value::U32(0),
                "attention.causal" => value == Value::Bool(true),
                _ => KEYS.contains(&rest),
            };
            if !harmless {
                let feature = format!("metadata key '{}'", printable(key));
                return Err(self.unsupported(feature, "this variant of the architecture is not computed"));
            }
        }
        Ok(())
    }

    fn rope_scaling(&self) -> Result<RopeScaling, ModelError> {
        let key = "rope.scaling.type";
        let factor = self.positive("rope.scaling.factor")?;
        let needed = || factor.ok_or_else(|| self.bad("rope.scaling.factor", "missing", "a number above 0"));
        match self.gguf.opt_str(&self.name(key))? {
            // Before there were types, a scale stood for linear scaling.
            None => Ok(match self.positive("rope.scale_linear")?.or(factor).filter(|f| *f != 1.0) {
                Some(factor) => RopeScaling::Linear { factor },
                None => RopeScaling::None,
            }),
            Some("none") => Ok(RopeScaling::None),
            // The divisors of this one are a tensor.
            Some("longrope") if self.architecture.fused => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: needed()? }),
            Some("yarn") => Ok(RopeScaling::Yarn {
                factor: needed()?,
                original_context: self.required("rope.scaling.original_context_length")?,
                beta_fast: self.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: self.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            }),
            Some(other) => Err(self.unsupported(
                format!("{} '{}'", self.name(key), printable(other)),
                "use a model without RoPE scaling, or with linear or yarn scaling",
            )),
        }
    }
}

impl ModelConfig {
    /// Reads and checks the metadata of a file of a known architecture.
    ///
    /// # Errors
    /// A missing key, an impossible value, or a feature this engine does not compute, by name.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let architecture = architecture::of(gguf)?;
        let keys = Keys { gguf, architecture };
        keys.check_known()?;
        let layers = keys.required("block_count")?;
        let d_model = keys.required("embedding_length")?;
        let heads = keys.required("attention.head_count")?;
        let kv_heads = keys.optional("attention.head_count_kv")?.unwrap_or(heads);
        let head_dim = match keys.optional("attention.key_length")? {
            Some(width) => width,
            None if d_model >= heads => d_model / heads,
            None => return Err(keys.bad("attention.head_count", heads, "at most embedding_length")),
        };
        if !heads.is_multiple_of(kv_heads) {
            return Err(keys.bad("attention.head_count_kv", kv_heads, "a divisor of the number of heads"));
        }
        match keys.optional("attention.value_length")? {
            Some(width) if width != head_dim => {
                return Err(keys.bad("attention.value_length", width, "the width of a key"));
            }
            _ => {}
        }
        let norm_eps = gguf.f32(&keys.name("attention.layer_norm_rms_epsilon"))?;
        if !(norm_eps.is_finite() && norm_eps >= 0.0) {
            return Err(keys.bad("attention.layer_norm_rms_epsilon", norm_eps, "finite and not negative"));
        }
        let embedding = gguf.shape("token_embd.weight").ok_or_else(|| {
            keys.unsupported(
                "a model without tensor 'token_embd.weight'".to_owned(),
                "the file is incomplete, download it again",
            )
        })?;
        let vocab = embedding.get(1).copied().unwrap_or(0);
        // Before there is anything for each layer.
        if layers > gguf.tensors().len() + gguf.grouped.len() {
            return Err(keys.bad("block_count", layers, "no more than there are tensors"));
        }
        let variant = variant(&keys, layers, d_model, heads, head_dim)?;
        let mut context = keys.required("context_length")?;
        if architecture.fused && variant.rope_divisors {
            context = context.min(keys.required("rope.scaling.original_context_length")?);
        }
        let rope_base = keys.positive("rope.freq_base")?.unwrap_or(10_000.0);
        if architecture.window == Some(Window::All) && is_mistral_without_window(context, rope_base, &variant)
        {
            context = MISTRAL_WINDOW;
        }
        Ok(Self {
            layers,
            d_model,
            d_ff: keys.required("feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocab,
            context,
            rope_base,
            norm_eps,
            tied: gguf.shape("output.weight").is_none(),
            variant,
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

    /// The sliding window of a layer, if it has one.
    pub(crate) fn window(&self, layer: usize) -> Option<usize> {
        let global = self.variant.global_period.is_some_and(|n| (layer + 1).is_multiple_of(n));
        self.variant.window.filter(|_| !global)
    }

    /// Factor on attention scores.
    pub(crate) fn attention_scale(&self) -> f32 {
        self.variant.attention_scale.unwrap_or(1.0 / (self.head_dim as f32).sqrt())
    }

    /// Leading channels of a head that are rotated.
    pub(crate) fn rotated(&self) -> usize {
        self.variant.rotated.unwrap_or(self.head_dim)
    }

    /// Input channels of a layer's linears together: its coordinates.
    pub fn layer_inputs(&self) -> usize {
        (0..LINEARS.len()).map(|k| self.linear_shape(k).1).sum()
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

/// The sliding window of Mistral 7B 0.1 (Jiang et al., arXiv 2310.06825).
const MISTRAL_WINDOW: usize = 4096;

/// Whether a file says what those of Mistral 7B 0.1 and its descendants say that were made before there was a key for
/// the window: 32768 positions with rotary frequencies that were never stretched. Such a file does not tell whether
/// attention has a window. Within it both readings are the same, so its length is all the context that is given.
fn is_mistral_without_window(context: usize, rope_base: f32, variant: &Variant) -> bool {
    context == 32_768
        && rope_base == 10_000.0
        && variant.window.is_none()
        && variant.rope_scaling == RopeScaling::None
        && !variant.rope_divisors
}

/// What a file's architecture, metadata and tensors say beyond a plain Llama.
fn variant(
    keys: &Keys<'_, '_>,
    layers: usize,
    d_model: usize,
    heads: usize,
    head_dim: usize,
) -> Result<Variant, ModelError> {
    let a = keys.architecture;
    let rotated = keys.optional("rope.dimension_count")?.unwrap_or(head_dim);
    if !rotated.is_multiple_of(2) || rotated > head_dim {
        return Err(keys.bad("rope.dimension_count", rotated, "even, at most the width of a head"));
    }
    let window = keys.optional("attention.sliding_window")?;
    if window.is_some() && a.window.is_none() {
        return Err(keys.unsupported(
            format!("metadata key '{}'", keys.name("attention.sliding_window")),
            "it is not known which layers of this architecture have a window",
        ));
    }
    let global_period = match a.window {
        Some(Window::AllBut(n)) if window.is_some() => Some(n),
        _ => None,
    };
    let has = |name: &str| keys.gguf.tensor(name).is_some();
    let divisors = if a.fused { "rope_factors_short.weight" } else { "rope_freqs.weight" };
    Ok(Variant {
        // Our own key, for files whose rows are in the order of transformers.
        halves: a.halves || keys.gguf.opt_bool("fura.rotary_halves")? == Some(true),
        rotated: Some(rotated).filter(|n| *n != head_dim),
        rope_scaling: keys.rope_scaling()?,
        rope_divisors: has(divisors),
        rope_magnitude: keys.positive("rope.scaling.attn_factor")?.filter(|m| *m != 1.0),
        unrotated_period: a.unrotated_period,
        window,
        global_period,
        local_rope_base: a.local_rope_base.filter(|_| window.is_some()),
        activation: a.activation,
        head_norms: a.head_norms,
        post_norms: a.post_norms,
        embedding_scale: a.scaled_embedding.then(|| (d_model as f32).sqrt()),
        attention_scale: (a.width_scaled_layers == Some(layers))
            .then(|| 1.0 / (d_model as f32 / heads as f32).sqrt()),
        attention_cap: keys.positive("attn_logit_softcapping")?,
        logit_cap: keys.positive("final_logit_softcapping")?,
        biases: LINEARS.map(|name| has(&format!("blk.0.{name}.bias"))),
    })
}
