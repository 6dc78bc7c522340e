//! How much fits a stated amount of memory, known before anything is allocated (contract C3).

use crate::cache::{KvCache, Precision};
use crate::config::ModelConfig;
use crate::generate::Generator;
use crate::logits::HEAD_ROWS;
use crate::model::Model;
use crate::sampling::Sampler;
use crate::workspace::Plan;

/// Rows of a pass that reads prompts: enough to spread the reading of weights.
const ROWS: usize = 256;
/// Most sequences that are planned side by side.
const MAX_SEQUENCES: usize = 1024;

/// A [`Generator`]'s size. The same plan gives the same bytes, computed from the model's header alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationPlan {
    /// Of one pass; `positions` is the longest sequence.
    pub pass: Plan,
    /// Tokens of all sequences in the cache.
    pub cache_rows: usize,
    /// Of keys and values.
    pub precision: Precision,
    /// Threads of a pass.
    pub threads: usize,
}

impl GenerationPlan {
    /// `sequences` side by side, each of up to `positions` tokens, on so many threads.
    pub fn new(sequences: usize, positions: usize, precision: Precision, threads: usize) -> Self {
        let pass = Plan { rows: ROWS.max(sequences), sequences, positions };
        Self { pass, cache_rows: sequences.saturating_mul(positions), precision, threads }
    }

    /// The most sequences of `positions` tokens that fit into `memory` bytes beside the mapped model and its tokenizer,
    /// 1024 at most; `None` if there is not room for one.
    pub fn fit(
        config: &ModelConfig,
        block: usize,
        memory: u64,
        positions: usize,
        precision: Precision,
        threads: usize,
    ) -> Option<Self> {
        let fits = |n: usize| {
            let plan = Self::new(n, positions, precision, threads);
            (plan.bytes(config, block) <= memory).then_some(plan)
        };
        // More sequences never take less memory.
        let (mut low, mut high) = (1, MAX_SEQUENCES + 1);
        let mut best = fits(1)?;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match fits(middle) {
                Some(plan) => (low, best) = (middle, plan),
                None => high = middle,
            }
        }
        Some(best)
    }

    /// Bytes of the cache of keys and values.
    pub fn cache_bytes(&self, config: &ModelConfig) -> u64 {
        KvCache::bytes(config, self.cache_rows, self.precision)
    }

    /// Bytes of everything that a generator allocates when it is made or runs, but for the requests' own texts.
    pub fn bytes(&self, config: &ModelConfig, block: usize) -> u64 {
        let logits = 4 * self.pass.sequences.min(HEAD_ROWS) * config.vocab;
        self.cache_bytes(config)
            .saturating_add(self.pass.workspace_bytes(config, block, self.threads) as u64)
            .saturating_add((logits + Sampler::bytes(config.vocab)) as u64)
    }

    /// The generator.
    pub fn generator<'m>(&self, model: &'m Model) -> Generator<'m> {
        let mut generator = Generator::new(model, self.pass, self.cache_rows, self.precision);
        generator.need_threads(self.threads);
        generator
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Variant;

    /// The shapes of Llama 3.1 8B: no weights are needed to plan.
    fn eight_billion() -> ModelConfig {
        ModelConfig {
            layers: 32,
            d_model: 4096,
            d_ff: 14336,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            vocab: 128_256,
            context: 131_072,
            rope_base: 500_000.0,
            norm_eps: 1e-5,
            tied: false,
            variant: Variant::default(),
        }
    }

    #[test]
    fn a_large_model_is_planned_from_its_shapes() {
        let c = eight_billion();
        // Keys and values: 32 layers x 2 x 1024 numbers, the well-known 256 KiB a token in f32.
        let plan = GenerationPlan::new(1, 4096, Precision::Single, 2);
        assert_eq!(plan.cache_bytes(&c), 4096 * 256 * 1024);
        let half = GenerationPlan::new(1, 4096, Precision::Half, 2);
        assert_eq!(2 * half.cache_bytes(&c), plan.cache_bytes(&c));
        let mut most = 0;
        for memory in [1u64 << 28, 1 << 30, 2 << 30, 8 << 30, 64 << 30] {
            for precision in [Precision::Single, Precision::Half] {
                let Some(plan) = GenerationPlan::fit(&c, 32, memory, 4096, precision, 2) else {
                    assert!(GenerationPlan::new(1, 4096, precision, 2).bytes(&c, 32) > memory);
                    continue;
                };
                assert!(plan.bytes(&c, 32) <= memory, "{plan:?}");
                let n = plan.pass.sequences;
                let more = GenerationPlan::new(n + 1, 4096, precision, 2);
                assert!(more.bytes(&c, 32) > memory, "{n} sequences are not the most");
                most = most.max(n);
            }
        }
        assert!(most > 100);
        assert_eq!(GenerationPlan::fit(&c, 32, 1 << 50, usize::MAX, Precision::Single, 2), None);
    }
}
