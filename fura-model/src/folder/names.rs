//! Tensor names of transformers and those of GGUF, which the engine uses.

/// What a tensor of the folder is.
#[derive(Debug, PartialEq)]
pub(super) enum Role {
    /// The GGUF tensor of that name.
    Tensor(String),
    /// Derived from the configuration; some old files store it.
    Derived,
}

/// A module of a layer and its name in GGUF.
const LAYER: [(&str, &str); 11] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];
/// Norms of a layer that has two.
const NORMS: [(&str, &str); 2] = [("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")];
/// Norms of a layer that has four (Gemma).
const FOUR_NORMS: [(&str, &str); 4] = [
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];

/// The role of a tensor; `None` if it is not known.
pub(super) fn role(name: &str, four_norms: bool) -> Option<Role> {
    let fixed = match name {
        "model.embed_tokens.weight" => Some("token_embd.weight"),
        "model.norm.weight" => Some("output_norm.weight"),
        "lm_head.weight" => Some("output.weight"),
        _ => None,
    };
    if let Some(fixed) = fixed {
        return Some(Role::Tensor(fixed.to_owned()));
    }
    if name.ends_with("rotary_emb.inv_freq") {
        return Some(Role::Derived);
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    // One way to write a number: "01" would be another tensor of layer 1.
    layer.parse::<u32>().ok().filter(|n| n.to_string() == layer)?;
    let (module, kind) = rest.rsplit_once('.')?;
    let norms: &[_] = if four_norms { &FOUR_NORMS } else { &NORMS };
    let (_, gguf) = LAYER.iter().chain(norms).find(|(known, _)| *known == module)?;
    let suffix = match kind {
        "weight" | "bias" => kind,
        _ => return None,
    };
    Some(Role::Tensor(format!("blk.{layer}.{gguf}.{suffix}")))
}
