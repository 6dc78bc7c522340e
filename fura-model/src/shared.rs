//! What all members of a population share.

use crate::config::{LINEARS, ModelConfig};

/// Attention's part of a layer's linears: queries, keys and values come first.
const BEFORE_ATTENTION: usize = 3;

/// How far up a model all members are as the first one, so that it can be computed once for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// The first layers.
    Layers(usize),
    /// The layers before this one, and of this one what leads to attention's output projection. In the last layer only
    /// the rows whose logits are wanted go on from there: a member that differs there alone costs a few rows, whatever
    /// the length of the prompt.
    Attention(usize),
}

impl Shared {
    /// What members share that differ from linear `first` of the [model's layout](crate::Model::layout) on.
    pub fn below(first: usize) -> Self {
        let layer = first / LINEARS.len();
        if first % LINEARS.len() < BEFORE_ATTENTION { Self::Layers(layer) } else { Self::Attention(layer) }
    }

    /// Whole layers that are shared.
    pub fn layers(self) -> usize {
        match self {
            Self::Layers(layers) | Self::Attention(layers) => layers,
        }
    }

    /// The first linear of the model in which members may differ: the inverse of [`below`](Self::below).
    pub fn first_linear(self) -> usize {
        match self {
            Self::Layers(layers) => layers * LINEARS.len(),
            Self::Attention(layer) => layer * LINEARS.len() + BEFORE_ATTENTION,
        }
    }

    /// Whether only the rows whose logits are wanted go on.
    pub fn is_last_attention(self, config: &ModelConfig) -> bool {
        self == Self::Attention(config.layers - 1)
    }

    /// Numbers that a row's state takes: its residual stream, and what it attended to.
    pub fn width(self, config: &ModelConfig) -> usize {
        match self {
            Self::Layers(_) => config.d_model,
            Self::Attention(_) => config.d_model + config.d_query(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linears_from_the_output_projection_on_share_attention() {
        let each = LINEARS.len();
        assert_eq!(
            [0, 2, 3].map(Shared::below),
            [Shared::Layers(0), Shared::Layers(0), Shared::Attention(0)]
        );
        assert_eq!(Shared::below(5 * each - 1), Shared::Attention(4));
        assert_eq!(Shared::below(5 * each), Shared::Layers(5));
        for shared in [Shared::Layers(0), Shared::Attention(0), Shared::Layers(3), Shared::Attention(7)] {
            assert_eq!(Shared::below(shared.first_linear()), shared);
        }
    }
}
