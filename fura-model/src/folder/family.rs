//! The families of `config.json`'s `model_type`: which architecture of the engine each is, and its defaults.

/// Which layers have the sliding window of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// None: `sliding_window` is not used.
    None,
    /// All.
    All,
    /// All but those whose number (from 1) is a multiple of this.
    AllBut(u32),
}

/// A family, and what its configurations leave out when it has the usual value.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) model_type: &'static str,
    pub(super) architecture: &'static str,
    pub(super) activation: &'static str,
    pub(super) tied: bool,
    pub(super) windows: Windows,
    pub(super) default_window: Option<u32>,
    pub(super) default_rope_base: Option<f64>,
    pub(super) local_rope_base: Option<f64>,
    pub(super) unrotated_period: Option<u32>,
    /// Whether a layer has four norms, the weights of all norms lack their "+ 1", and there are caps (Gemma).
    pub(super) four_norms: bool,
    /// Caps of attention and of logits.
    pub(super) default_caps: [Option<f32>; 2],
    /// As in [`crate::architecture::Architecture`].
    pub(super) width_scaled_layers: Option<u32>,
    pub(super) needs_head_dim: bool,
}

const PLAIN: Family = Family {
    model_type: "llama",
    architecture: "llama",
    activation: "silu",
    tied: false,
    windows: Windows::None,
    default_window: None,
    default_rope_base: Some(10_000.0),
    local_rope_base: None,
    unrotated_period: None,
    four_norms: false,
    default_caps: [None; 2],
    width_scaled_layers: None,
    needs_head_dim: false,
};

const GEMMA2: Family = Family {
    model_type: "gemma2",
    architecture: "gemma2",
    activation: "gelu_pytorch_tanh",
    tied: true,
    windows: Windows::AllBut(2),
    default_window: Some(4096),
    four_norms: true,
    default_caps: [Some(50.0), Some(30.0)],
    width_scaled_layers: Some(46),
    needs_head_dim: true,
    ..PLAIN
};

/// Source: the configuration classes of transformers 5.24.
pub(super) const FAMILIES: [Family; 8] = [
    PLAIN,
    Family { model_type: "mistral", windows: Windows::All, default_window: Some(4096), ..PLAIN },
    Family {
        model_type: "smollm3",
        architecture: "smollm3",
        tied: true,
        unrotated_period: Some(4),
        default_rope_base: None,
        ..PLAIN
    },
    Family { model_type: "qwen2", architecture: "qwen2", ..PLAIN },
    Family { model_type: "qwen3", architecture: "qwen3", needs_head_dim: true, ..PLAIN },
    Family { model_type: "phi3", architecture: "phi3", windows: Windows::All, ..PLAIN },
    GEMMA2,
    Family {
        model_type: "gemma3_text",
        architecture: "gemma3",
        windows: Windows::AllBut(6),
        local_rope_base: Some(10_000.0),
        default_rope_base: Some(1_000_000.0),
        default_caps: [None; 2],
        width_scaled_layers: Some(62),
        ..GEMMA2
    },
];

/// Their names, for messages.
pub(super) fn known() -> String {
    FAMILIES.map(|f| f.model_type).join(", ")
}
