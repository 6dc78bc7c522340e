//! What a generation takes in memory, known from shapes before anything is allocated (contract C3).

use crate::scorer::{BEGINNING_BYTES, FREE_SEQUENCES};
use crate::writer::{SEQUENCES, text_plan};
use fura_core::estimator::{EsConfig, Estimator};
use fura_core::layout::{Form, Scope};
use fura_model::{Adapted, Batch, KvCache, ModelConfig, Plan, RolloutPlan};

/// How large the answers to a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerShape {
    /// Legal answers are scored: so many of them, each of up to so many tokens.
    Scored {
        /// Legal answers.
        answers: usize,
        /// Tokens of the longest.
        tokens: usize,
        /// Rows of a wave, [`WAVE_ROWS`](crate::scorer::WAVE_ROWS) unless the caller chose others.
        wave_rows: usize,
    },
    /// Members write up to so many tokens.
    Written {
        /// Tokens.
        tokens: usize,
    },
}

/// A generation's sizes, those of its longest request standing for all. Members' number costs next to nothing: none of
/// them is stored.
///
/// ```
/// use fura::generation_shape::{AnswerShape, GenerationShape};
/// use fura::core::estimator::EsConfig;
/// use fura::core::layout::{Form, Scope};
/// # let (model, _folder) = fura_tests::tiny::open(1, 32);
/// let config = model.config();
/// let shape = GenerationShape {
///     members: 32,
///     requests: 8,
///     prompt: 100,
///     answer: AnswerShape::Written { tokens: 40 },
///     from_layer: 0,
///     scope: Scope::Everywhere,
///     form: Form::Materialized,
///     shared: 0,
///     threads: 2,
/// };
/// assert!(shape.inference_bytes(config, 32) < shape.training_bytes(config, 32, &EsConfig::default()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationShape {
    /// Members of the population.
    pub members: usize,
    /// Requests that each answers.
    pub requests: usize,
    /// Tokens of the longest prompt.
    pub prompt: usize,
    /// The answers.
    pub answer: AnswerShape,
    /// First trained layer.
    pub from_layer: usize,
    /// Tokens at which members differ from the base.
    pub scope: Scope,
    /// Form of the specialist that is evaluated.
    pub form: Form,
    /// Layers in which all members of a generation are alike: `from_layer`, or more where layers take turns.
    pub shared: usize,
    /// Threads that work side by side, each with buffers of its own.
    pub threads: usize,
}

impl GenerationShape {
    /// Bytes that answering as the base takes beside the mapped model, its tokenizer and the texts themselves.
    pub fn inference_bytes(&self, config: &ModelConfig, block: usize) -> u64 {
        self.answering_bytes(config, block, Scope::Everywhere)
    }

    /// Bytes that training takes: what its members' answers take, as much as the base's unless they act at answers only,
    /// and the estimator's.
    pub fn training_bytes(&self, config: &ModelConfig, block: usize, es: &EsConfig) -> u64 {
        let estimator = Estimator::bytes(es, self.coordinates(config)) as u64;
        self.answering_bytes(config, block, self.scope) + estimator
    }

    /// Bytes that evaluating the specialist takes while training's buffers are kept: its transforms, and what writes its
    /// free answers.
    pub fn evaluation_bytes(&self, config: &ModelConfig, block: usize, es: &EsConfig) -> u64 {
        let (side_by_side, tokens) = match self.answer {
            AnswerShape::Scored { tokens, .. } => (FREE_SEQUENCES, tokens),
            AnswerShape::Written { tokens } => (SEQUENCES, tokens),
        };
        let texts = text_plan(side_by_side, self.prompt + tokens, self.threads).bytes(config, block);
        let trained = config.layers.saturating_sub(self.from_layer);
        let transforms = Adapted::bytes(config, block, self.form) / config.layers * trained;
        let estimator = Estimator::bytes(es, self.coordinates(config));
        self.inference_bytes(config, block) + texts + (transforms + estimator) as u64
    }

    fn answering_bytes(&self, config: &ModelConfig, block: usize, scope: Scope) -> u64 {
        match self.answer {
            AnswerShape::Scored { answers, tokens, wave_rows } => {
                self.scoring_bytes(config, block, (answers, tokens, wave_rows), scope)
            }
            AnswerShape::Written { tokens } => {
                let plan = RolloutPlan::new(config, self.members, self.shared, self.prompt, tokens);
                self.threads as u64 * plan.bytes(config, block)
            }
        }
    }

    /// Coordinates of the trained layers: one for each input channel of each linear.
    pub fn coordinates(&self, config: &ModelConfig) -> usize {
        config.layers.saturating_sub(self.from_layer) * config.layer_inputs()
    }

    fn scoring_bytes(
        &self,
        config: &ModelConfig,
        block: usize,
        (answers, tokens, wave_rows): (usize, usize, usize),
        scope: Scope,
    ) -> u64 {
        // The last token of an answer is never forwarded; every place where answers part is a sequence.
        let answer_rows = answers * tokens.saturating_sub(1);
        let rows = self.prompt + answer_rows;
        let beginning = self.prompt.saturating_sub(1);
        let (pair_rows, branches) = match scope {
            Scope::Everywhere => (rows, answers.saturating_sub(1).max(1)),
            Scope::Answer => (rows - beginning, answers.max(2)),
        };
        let pairs = (wave_rows / pair_rows.max(1)).min(self.members.saturating_mul(self.requests)).max(1);
        let pass = enough(Plan {
            rows: wave_rows.max(rows),
            sequences: pairs * branches,
            positions: self.prompt + tokens,
        });
        let logits = size_of::<f32>() * answers.next_power_of_two();
        let worker =
            pass.workspace_bytes(config, block, 1) + Batch::bytes(pass.rows, pass.sequences) + logits;
        let worker = worker as u64 + KvCache::transient_bytes(config, pass.rows);
        let (mut states, mut beginnings) = (0, 0);
        if self.shared > 0 || scope == Scope::Answer {
            states = self.requests * rows * config.d_model;
        }
        if scope == Scope::Answer {
            let layers = config.layers.saturating_sub(self.shared) as u64;
            let least = KvCache::transient_bytes(config, beginning) * layers;
            beginnings = (least * self.requests as u64).min(BEGINNING_BYTES.max(least));
            // Beginnings are read by all threads together, in the passes of one.
            let of_all = pass.workspace_bytes(config, block, self.threads);
            beginnings += (of_all - pass.workspace_bytes(config, block, 1)) as u64;
        }
        let scores = self.members * self.requests * answers;
        let shared = states * size_of::<f32>() + scores * size_of::<f64>();
        self.threads as u64 * worker + beginnings + shared as u64
    }
}

/// What a worker is made for that must hold `needed`: somewhat more, so that a slightly longer prompt does not allocate
/// again.
pub(crate) fn enough(needed: Plan) -> Plan {
    Plan {
        rows: needed.rows,
        sequences: needed.sequences.next_power_of_two(),
        positions: needed.positions.next_multiple_of(64),
    }
}
