//! `config.json` as the metadata of a GGUF file.

use super::FolderError;
use super::family::{Family, Windows};
use super::fields::Fields;
use crate::gguf::GgufWriter;
use serde_json::{Value, json};

/// Fields that do not change what a model answers to a text.
const HARMLESS: [&str; 36] = [
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "max_window_layers",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "resid_pdrop",
    "return_dict",
    "task_specific_params",
    "tie_encoder_decoder",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

/// What the configuration says that is not metadata.
pub(super) struct Description {
    /// Whether the output head is the embedding.
    pub(super) tied: bool,
    /// Rows of the embedding.
    pub(super) vocab: usize,
}

/// Reads the fields and writes the metadata, with frequency divisors as tensors.
pub(super) fn describe(
    mut f: Fields<'_>,
    family: &Family,
    out: &mut GgufWriter,
) -> Result<Description, FolderError> {
    let key = |name: &str| format!("{}.{name}", family.architecture);
    out.kv("general.architecture", family.architecture);
    out.kv("fura.rotary_halves", true).kv("fura.quantize", true);
    let layers = f.required_size("num_hidden_layers")?;
    let width = f.required_size("hidden_size")?;
    let heads = f.required_size("num_attention_heads")?;
    let kv_heads = f.size("num_key_value_heads")?.unwrap_or(heads);
    let context = f.required_size("max_position_embeddings")?;
    let head = match f.size("head_dim")? {
        Some(head) => head,
        None if family.needs_head_dim => return Err(f.bad("head_dim", "missing", "the width of a head")),
        None if width >= heads => width / heads,
        None => return Err(f.bad("num_attention_heads", heads, "at most hidden_size")),
    };
    out.kv(&key("block_count"), layers)
        .kv(&key("embedding_length"), width)
        .kv(&key("attention.head_count"), heads)
        .kv(&key("attention.head_count_kv"), kv_heads)
        .kv(&key("attention.key_length"), head)
        .kv(&key("context_length"), context)
        .kv(&key("feed_forward_length"), f.required_size("intermediate_size")?)
        .kv(&key("attention.layer_norm_rms_epsilon"), f.required_positive("rms_norm_eps")? as f32);
    let vocab = f.required_size("vocab_size")? as usize;

    for name in ["hidden_act", "hidden_activation"] {
        f.only(name, &json!(family.activation))?;
    }
    for name in ["is_encoder_decoder", "rope_interleaved", "use_mrope", "use_bidirectional_attention"] {
        f.only(name, &json!(false))?;
    }
    // The tensors show which biases there are; a bias without its tensor is missed below.
    f.boolean("attention_bias")?;
    f.boolean("mlp_bias")?;
    window(&mut f, family, layers, out)?;
    if family.four_norms {
        caps_and_scale(&mut f, family, [layers, width, heads, head], out)?;
    }
    rope(&mut f, family, head, context, out)?;
    let tied = f.boolean("tie_word_embeddings")?.unwrap_or(family.tied);
    f.finish(&HARMLESS)?;
    Ok(Description { tied, vocab })
}

fn window(f: &mut Fields<'_>, family: &Family, layers: u32, out: &mut GgufWriter) -> Result<(), FolderError> {
    let found = f.value("sliding_window");
    f.only("use_sliding_window", &json!(family.windows != Windows::None))?;
    let window = match (family.windows, found) {
        (Windows::None, _) => None,
        (_, Some(Value::Null)) => None,
        (_, None) => family.default_window,
        (_, Some(value)) => match value.as_u64() {
            Some(n @ 1..=0x10_0000) => Some(n as u32),
            _ => return Err(f.bad("sliding_window", value, "an integer from 1 to 1048576, or null")),
        },
    };
    if let Some(window) = window {
        out.kv(&format!("{}.attention.sliding_window", family.architecture), window);
    }
    let global = |layer: u32| match family.windows {
        Windows::AllBut(n) => (layer + 1).is_multiple_of(n),
        _ => false,
    };
    let kind =
        |layer| if window.is_some() && !global(layer) { "sliding_attention" } else { "full_attention" };
    f.only_list("layer_types", layers, |layer| kind(layer).into())?;
    if let Windows::AllBut(n) = family.windows {
        f.only("sliding_window_pattern", &json!(n))?;
        f.only("_sliding_window_pattern", &json!(n))?;
    }
    if let Some(n) = family.unrotated_period {
        f.only("no_rope_layer_interval", &json!(n))?;
        f.only_list("no_rope_layers", layers, |layer| u32::from(!(layer + 1).is_multiple_of(n)).into())?;
    }
    Ok(())
}

/// Gemma's caps, and the scale of its queries, which the number of layers tells in GGUF.
fn caps_and_scale(
    f: &mut Fields<'_>,
    family: &Family,
    [layers, width, heads, head]: [u32; 4],
    out: &mut GgufWriter,
) -> Result<(), FolderError> {
    for (name, gguf, default) in [
        ("attn_logit_softcapping", "attn_logit_softcapping", family.default_caps[0]),
        ("final_logit_softcapping", "final_logit_softcapping", family.default_caps[1]),
    ] {
        let cap = match f.value(name) {
            None => default,
            Some(Value::Null) => None,
            Some(value) => match value.as_f64().filter(|x| x.is_finite() && *x > 0.0) {
                Some(cap) => Some(cap as f32),
                None => return Err(f.bad(name, value, "a number above 0, or null")),
            },
        };
        if let Some(cap) = cap {
            out.kv(&format!("{}.{gguf}", family.architecture), cap);
        }
    }
    let scalar = f.required_positive("query_pre_attn_scalar")?;
    let by_width = family.width_scaled_layers == Some(layers);
    let computed = if by_width { f64::from(width) / f64::from(heads) } else { f64::from(head) };
    if scalar != computed {
        return Err(f.unsupported("query_pre_attn_scalar", scalar));
    }
    Ok(())
}

/// Base, scaling and partial rotation.
fn rope(
    f: &mut Fields<'_>,
    family: &Family,
    head: u32,
    context: u32,
    out: &mut GgufWriter,
) -> Result<(), FolderError> {
    let key = |name: &str| format!("{}.{name}", family.architecture);
    let top_base = f.positive("rope_theta")?;
    let local_base = f.positive("rope_local_base_freq")?;
    let top_share = f.positive("partial_rotary_factor")?;
    let top_original = f.size("original_max_position_embeddings")?;
    let mut scaling = match f.object("rope_parameters")? {
        Some(parameters) => Some(parameters),
        None => f.object("rope_scaling")?,
    };
    if let Some(local) = family.local_rope_base {
        if local_base.is_some_and(|base| base != local) {
            return Err(f.unsupported("rope_local_base_freq", local_base.unwrap_or_default()));
        }
        if let Some(mut both) = scaling.take() {
            scaling = match (both.object("full_attention")?, both.object("sliding_attention")?) {
                (None, None) => Some(both),
                (full, sliding) => {
                    both.finish(&[])?;
                    if let Some(mut sliding) = sliding {
                        sliding.only("rope_type", &json!("default"))?;
                        sliding.only("rope_theta", &json!(local))?;
                        sliding.finish(&[])?;
                    }
                    full
                }
            };
        }
    }
    let mut scaling = scaling.unwrap_or_else(|| f.none());
    let base = scaling.positive("rope_theta")?.or(top_base);
    let Some(base) = base.or(family.default_rope_base) else {
        return Err(f.bad("rope_theta", "missing", "a number above 0"));
    };
    out.kv(&key("rope.freq_base"), base as f32);
    let share = scaling.positive("partial_rotary_factor")?.or(top_share).unwrap_or(1.0);
    let rotated = (f64::from(head) * share) as u32;
    out.kv(&key("rope.dimension_count"), rotated);
    let named = scaling.text("rope_type")?;
    let older = scaling.text("type")?;
    let original = scaling.size("original_max_position_embeddings")?.or(top_original);
    let kind = named.or(older).unwrap_or_else(|| "default".to_owned());
    match kind.as_str() {
        "default" => {}
        "linear" => {
            out.kv(&key("rope.scaling.type"), "linear");
            out.kv(&key("rope.scaling.factor"), scaling.required_positive("factor")? as f32);
        }
        "yarn" => {
            let factor = scaling.required_positive("factor")?;
            // The engine grows cosines and sines by 1 + 0.1 ln(factor) itself.
            let grown = 1.0 + 0.1 * libm::log(factor.max(1.0));
            let magnitude = scaling.positive("attention_factor")?.unwrap_or(grown) / grown;
            out.kv(&key("rope.scaling.type"), "yarn")
                .kv(&key("rope.scaling.factor"), factor as f32)
                .kv(&key("rope.scaling.original_context_length"), original.unwrap_or(context))
                .kv(&key("rope.scaling.attn_factor"), magnitude as f32)
                .kv(
                    &key("rope.scaling.yarn_beta_fast"),
                    scaling.positive("beta_fast")?.unwrap_or(32.0) as f32,
                )
                .kv(
                    &key("rope.scaling.yarn_beta_slow"),
                    scaling.positive("beta_slow")?.unwrap_or(1.0) as f32,
                );
        }
        "llama3" if rotated >= 2 && rotated <= head => {
            let divisors = llama3_divisors(&mut scaling, base, rotated, original.unwrap_or(context))?;
            put_vector(out, "rope_freqs.weight", &divisors);
        }
        "longrope" | "su" if family.architecture == "phi3" => {
            let Some(original) = original else {
                return Err(scaling.bad(
                    "original_max_position_embeddings",
                    "missing",
                    "the context before stretching",
                ));
            };
            scaling.value("long_factor");
            let divisors = numbers(&mut scaling, "short_factor", rotated as usize / 2)?;
            let stretched = scaling.positive("factor")?.unwrap_or(f64::from(context) / f64::from(original));
            let magnitude = match scaling.positive("attention_factor")? {
                Some(magnitude) => magnitude,
                None if stretched <= 1.0 => 1.0,
                None => (1.0 + libm::log(stretched) / libm::log(f64::from(original))).sqrt(),
            };
            put_vector(out, "rope_factors_short.weight", &divisors);
            out.kv(&key("rope.scaling.type"), "longrope")
                .kv(&key("rope.scaling.original_context_length"), original)
                .kv(&key("rope.scaling.attn_factor"), magnitude as f32);
        }
        _ => return Err(scaling.unsupported("rope_type", kind)),
    }
    scaling.finish(&[])
}

/// Llama 3.1's divisors of the rotary frequencies: `factor` for those whose wave is longer than
/// `original / low_freq_factor`, 1 for those with a wave shorter than `original / high_freq_factor`, and between them
/// the reciprocal of a linear ramp.
pub(super) fn llama3_divisors(
    scaling: &mut Fields<'_>,
    base: f64,
    rotated: u32,
    original: u32,
) -> Result<Vec<f32>, FolderError> {
    let factor = scaling.required_positive("factor")?;
    let low = scaling.required_positive("low_freq_factor")?;
    let high = scaling.required_positive("high_freq_factor")?;
    if low >= high {
        return Err(scaling.bad("low_freq_factor", low, "less than high_freq_factor"));
    }
    let divisor = |i: u32| {
        let frequency = libm::pow(base, -2.0 * f64::from(i) / f64::from(rotated));
        let turns = f64::from(original) * frequency / (2.0 * std::f64::consts::PI);
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - kept) / factor + kept)) as f32
    };
    Ok((0..rotated / 2).map(divisor).collect())
}

fn numbers(f: &mut Fields<'_>, key: &str, len: usize) -> Result<Vec<f32>, FolderError> {
    let expected = || format!("{len} numbers above 0");
    let Some(value) = f.some(key) else { return Err(f.bad(key, "missing", expected())) };
    let found = value.as_array().filter(|values| values.len() == len);
    let numbers = found.and_then(|values| values.iter().map(|v| v.as_f64().map(|x| x as f32)).collect());
    match numbers.filter(|n: &Vec<f32>| n.iter().all(|x| x.is_finite() && *x > 0.0)) {
        Some(numbers) => Ok(numbers),
        None => Err(f.bad(key, value, expected())),
    }
}

/// Adds a vector as a tensor of the metadata file.
pub(super) fn put_vector(out: &mut GgufWriter, name: &str, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    out.tensor(name, &[values.len()], crate::gguf::TensorKind::F32, bytes);
}
