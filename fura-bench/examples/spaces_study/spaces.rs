//! The spaces, by name.

use crate::Result;
use crate::layer::TopLayer;
use fura::core::estimator::{EsConfig, Schedule};
use fura::core::layout::Layout;
use fura::core::space::{Blocks, Factors, Full, Lora, Population, Qes, QesConfig, Residual, Search, Space};
use fura::core::spectrum::{Decomposer, Solver};
use std::str::FromStr;

/// What all searches have in common.
pub struct Settings {
    pub generations: u32,
    pub pairs: u32,
    pub seed: u64,
    pub block: usize,
    pub qes_alpha: f32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Fura,
    Random,
    Channels,
    Svf,
    Lora,
    LoraB,
    Full,
    Qes,
}

impl Kind {
    const ALL: [Self; 8] =
        [Self::Fura, Self::Random, Self::Channels, Self::Svf, Self::Lora, Self::LoraB, Self::Full, Self::Qes];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fura => "fura",
            Self::Random => "random",
            Self::Channels => "channels",
            Self::Svf => "svf",
            Self::Lora => "lora",
            Self::LoraB => "lora_b",
            Self::Full => "full",
            Self::Qes => "qes",
        }
    }

    /// Standard deviations worth trying, in the space's own unit.
    pub fn grid(self) -> &'static [f32] {
        match self {
            Self::Fura | Self::Random | Self::Channels | Self::Svf => &[0.1, 0.2, 0.4, 0.8],
            Self::Lora => &[0.003, 0.01, 0.03, 0.1],
            Self::LoraB => &[0.003, 0.01, 0.03, 0.1],
            Self::Full => &[0.001, 0.003, 0.01, 0.03],
            Self::Qes => &[0.01, 0.03, 0.1, 0.3],
        }
    }

    /// A search that stands at the base, and how many numbers it moves.
    pub fn search(
        self,
        layer: &TopLayer,
        sigma: f32,
        s: &Settings,
    ) -> Result<(Box<dyn Population + Sync>, usize)> {
        let linears = layer.linears.clone();
        let config = EsConfig {
            seed: s.seed,
            pairs: s.pairs,
            sigma,
            alpha: sigma / 2.0 * (s.pairs as f32 / 16.0).sqrt(),
            schedule: Schedule::Linear { fraction: 0.05, generations: s.generations },
            ..EsConfig::default()
        };
        match self {
            Self::Fura => boxed(config, spectral(layer, s.block)?),
            Self::Svf => boxed(config, spectral(layer, usize::MAX)?),
            Self::Random => boxed(config, Blocks::random(Layout::new(s.block, linears)?, s.seed)),
            Self::Channels => boxed(config, Blocks::channels(linears)?),
            // Rank and scale as in published runs.
            Self::Lora => boxed(config, Lora::new(linears, 16, 32.0, Factors::Both, 1)),
            Self::LoraB => boxed(config, Lora::new(linears, 16, 32.0, Factors::B, 1)),
            Self::Full => boxed(config, Full::new(linears)),
            Self::Qes => {
                let (alpha, residual) = (s.qes_alpha, Residual::Stored);
                let config = QesConfig {
                    seed: s.seed,
                    pairs: s.pairs,
                    sigma,
                    alpha,
                    residual,
                    ..QesConfig::default()
                };
                let codes = layer.codes.iter().map(|c| c.codes().len()).sum();
                Ok((Box::new(Qes::new(config, layer.codes.clone())?), codes))
            }
        }
    }
}

fn boxed<S: Space + Sync + 'static>(
    config: EsConfig,
    space: S,
) -> Result<(Box<dyn Population + Sync>, usize)> {
    let search = Search::new(config, space)?;
    let coordinates = search.estimator().coordinates().len();
    Ok((Box::new(search), coordinates))
}

/// The right singular vectors of column blocks.
fn spectral(layer: &TopLayer, block: usize) -> Result<Blocks> {
    let layout = Layout::new(block, layer.linears.clone())?;
    // Nothing is kept, so the bits need not be those of other machines.
    let mut decomposer = Decomposer::new(if block > 256 { Solver::Fast } else { Solver::Canonical });
    let bases =
        layer.linears.iter().zip(&layer.weights).map(|(l, w)| {
            Ok(decomposer.decompose_linear(w, l.d_out, l.d_in, block.min(l.d_in))?.v().to_vec())
        });
    let bases = bases.collect::<Result<Vec<_>>>()?;
    Ok(Blocks::new(layout, bases)?)
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("no space '{name}'; there are {}", names()))
    }
}
