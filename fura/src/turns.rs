//! Layers that take turns: block coordinate ascent over the depth of a model.
//!
//! A member costs what lies above the lowest layer it perturbs, since everything below is computed once for the
//! whole population, and in the last layer only the rows whose logits are wanted go beyond keys and values: the top
//! layer costs about a twentieth of what three layers cost. So a generation perturbs one layer, with as many pairs as its
//! place affords; the docs' report on habits has the measurements.
//!
//! A turn that leaves a layer's attention alone ([`LayerTurn::after_attention`]) shares that too. In the top layer all that
//! members then compute are the rows where answers part, so it affords a population several times as large.

use crate::error::FuraError;
use fura_core::estimator::Turn;
use fura_model::{Model, Shared};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Layers that a generation perturbs, and its population. Written `29x192`, `24-26x16` for several layers, or `29ax1024`
/// to begin after attention.
///
/// ```
/// use fura::turns::LayerTurn;
/// let turn: LayerTurn = "24-26x16".parse()?;
/// assert_eq!(turn, LayerTurn { layers: 24..27, after_attention: false, pairs: 16 });
/// assert_eq!(turn.to_string(), "24-26x16");
/// # Ok::<(), fura::error::FuraError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTurn {
    /// The layers.
    pub layers: Range<usize>,
    /// Whether the first of them is perturbed from attention's output projection on only.
    pub after_attention: bool,
    /// Antithetic pairs.
    pub pairs: u32,
}

impl LayerTurn {
    /// The turns by default where members act everywhere, for a model of `layers` layers trained from `from_layer` on: the
    /// layers below the top from above, each after a turn of the top layer, which learns most for its work.
    ///
    /// # Panics
    /// If there is no layer.
    pub fn cycle(from_layer: usize, layers: usize) -> Vec<Self> {
        assert!(from_layer < layers, "no such layer");
        let top = Self { layers: layers - 1..layers, after_attention: false, pairs: 192 };
        let below = (from_layer..layers - 1).rev().zip(1u32..).map(|(layer, depth)| {
            // About the same work each, as far as that leaves enough pairs to learn from.
            Self { layers: layer..layer + 1, after_attention: false, pairs: (64 / depth).max(8) }
        });
        let cycle: Vec<Self> = below.flat_map(|turn| [top.clone(), turn]).collect();
        if cycle.is_empty() { vec![top] } else { cycle }
    }

    /// The turns by default where members act at answers only: the top layer after attention, which costs least, then all
    /// trained layers together.
    ///
    /// # Panics
    /// If there is no layer.
    pub fn top_and_all(from_layer: usize, layers: usize) -> Vec<Self> {
        assert!(from_layer < layers, "no such layer");
        vec![
            Self { layers: layers - 1..layers, after_attention: true, pairs: 512 },
            Self { layers: from_layer..layers, after_attention: false, pairs: 96 },
        ]
    }

    /// The turn over the linears of [`Model::layout_from`]`(from_layer)`.
    ///
    /// # Errors
    /// Layers that are not trained.
    pub fn linears(&self, model: &Model, from_layer: usize) -> Result<Turn, FuraError> {
        let layers = model.config().layers;
        let Range { start, end } = self.layers;
        if start < from_layer || end > layers || start >= end {
            return Err(FuraError::Turn {
                turn: self.to_string(),
                expected: format!("layers from {from_layer} to {}", layers - 1),
            });
        }
        let shared = if self.after_attention { Shared::Attention(start) } else { Shared::Layers(start) };
        let trained = Shared::Layers(from_layer).first_linear();
        let (first, end) = (shared.first_linear(), Shared::Layers(end).first_linear());
        Ok(Turn { first: first - trained, linears: end - first, pairs: self.pairs })
    }
}

impl fmt::Display for LayerTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers: Range { start, end }, after_attention, pairs } = self;
        let after = if *after_attention { "a" } else { "" };
        match end - start {
            1 => write!(f, "{start}{after}x{pairs}"),
            _ => write!(f, "{start}-{}{after}x{pairs}", end.saturating_sub(1)),
        }
    }
}

impl FromStr for LayerTurn {
    type Err = FuraError;

    fn from_str(text: &str) -> Result<Self, FuraError> {
        let parse = || {
            let (layers, pairs) = text.split_once('x')?;
            let (layers, after_attention) = match layers.strip_suffix('a') {
                Some(layers) => (layers, true),
                None => (layers, false),
            };
            let (first, last) = layers.split_once('-').unwrap_or((layers, layers));
            let end = last.parse::<usize>().ok()?.checked_add(1)?;
            let layers = first.parse().ok()?..end;
            let turn = Self { layers, after_attention, pairs: pairs.parse().ok()? };
            (!turn.layers.is_empty() && turn.pairs > 0).then_some(turn)
        };
        let expected = "LAYERxPAIRS or FIRST-LASTxPAIRS, such as 29x192, 24-26x16 or 29ax1024".to_owned();
        parse().ok_or_else(|| FuraError::Turn { turn: text.to_owned(), expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_visit_every_trained_layer_and_the_top_between() {
        let text = |cycle: Vec<LayerTurn>| cycle.iter().map(LayerTurn::to_string).collect::<Vec<_>>();
        assert_eq!(text(LayerTurn::cycle(29, 30)), ["29x192"]);
        assert_eq!(text(LayerTurn::cycle(27, 30)), ["29x192", "28x64", "29x192", "27x32"]);
        assert_eq!(text(LayerTurn::top_and_all(12, 30)), ["29ax512", "12-29x96"]);
        assert_eq!(text(LayerTurn::top_and_all(29, 30)), ["29ax512", "29x96"]);
        let deep = LayerTurn::cycle(0, 40);
        let below = deep.iter().skip(1).step_by(2).rev().map(|turn| turn.layers.clone());
        assert!(below.eq((0..39).map(|l| l..l + 1)));
        assert!(deep.iter().step_by(2).all(|turn| turn.layers == (39..40)));
        for turn in deep {
            assert!(turn.pairs >= 8);
            assert_eq!(turn.to_string().parse::<LayerTurn>().unwrap(), turn);
        }
    }

    #[test]
    fn what_is_no_turn_is_refused() {
        for text in [
            "",
            "x",
            "a",
            "ax1",
            "29aax1",
            "a29x1",
            "29",
            "29x",
            "x4",
            "29x0",
            "5-4x1",
            "4-x2",
            "-1x2",
            "29x-3",
            "18446744073709551615x1",
        ] {
            let error = text.parse::<LayerTurn>().unwrap_err().to_string();
            assert!(error.contains("LAYERxPAIRS"), "{text}: {error}");
        }
    }
}
