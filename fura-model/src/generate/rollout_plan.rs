//! What [`Rollouts`](super::Rollouts) take in memory.

use crate::batch::Batch;
use crate::cache::{KvCache, Precision};
use crate::config::ModelConfig;
use crate::logits::HEAD_ROWS;
use crate::workspace::Plan;

/// Members that write side by side on one thread.
const GROUP: usize = 32;
/// Bytes of keys, values and states that a group's texts may take on one thread, unless a single member's take more.
const TEXTS: usize = 64 << 20;
/// Rows of a pass, unless a prompt is longer: enough that weights are read once for many.
const ROWS: usize = 512;
/// Prompts are planned for in steps of so many tokens.
const STEP: usize = 16;

/// The size of one thread's buffers. It follows from the model's header and the lengths of texts alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutPlan {
    /// Tokens of the longest prompt, and a little more, so that slightly longer prompts do not allocate again.
    pub prompt: usize,
    /// Most tokens written.
    pub written: usize,
    /// Members that write side by side.
    pub group: usize,
    /// Layers that members share.
    pub shared: usize,
}

impl RolloutPlan {
    /// For `members` members that are alike in the first `shared` layers and write up to `written` tokens after prompts
    /// of up to `prompt`. Long texts are written by fewer members at a time; a group of any size writes the same.
    ///
    /// # Panics
    /// If `shared` is more than the number of layers.
    pub fn new(config: &ModelConfig, members: usize, shared: usize, prompt: usize, written: usize) -> Self {
        assert!(shared <= config.layers, "there are {} layers", config.layers);
        let one = Self { prompt, written, group: 1, shared };
        let most = TEXTS / one.text_bytes(config).max(1);
        let group = GROUP.min(members).clamp(1, most.max(1));
        Self { prompt: prompt.next_multiple_of(STEP), group, ..one }
    }

    /// Whether buffers of this size serve for `other`.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.shared == other.shared
            && self.prompt >= other.prompt
            && self.written >= other.written
            && self.group >= other.group
    }

    /// Nodes of the tree of texts: those of a group, and as many of groups before it.
    pub(super) fn tree(&self) -> usize {
        2 * self.group * self.written
    }

    /// Longest sequence.
    pub(super) fn positions(&self) -> usize {
        self.prompt + self.written
    }

    /// Of a pass.
    pub(super) fn pass(&self) -> Plan {
        Plan {
            rows: (self.group * self.prompt).min(ROWS).max(self.prompt),
            // A prompt may be two sequences; the past of a node may be as many spans as it has tokens, and the prompt's.
            sequences: (2 * self.group).max(self.written + 2),
            positions: self.positions(),
        }
    }

    /// Bytes that grow with the group: the tree's in the lower layers, the members' own in the upper ones.
    fn text_bytes(&self, c: &ModelConfig) -> usize {
        let row = size_of::<f32>() * 2 * c.d_kv();
        let node = self.shared * row + size_of::<f32>() * c.d_model;
        self.tree() * node + self.group * self.positions() * (c.layers - self.shared) * row
    }

    /// Bytes that one thread allocates beside the texts that members write.
    pub fn bytes(&self, config: &ModelConfig, block: usize) -> u64 {
        let (pass, prompt) = (self.pass(), self.prompt as u64);
        let row = KvCache::row_bytes(config, Precision::Single);
        let states = prompt * (self.shared as u64 * row + size_of::<f32>() as u64 * config.d_model as u64);
        let logits = size_of::<f32>() * self.group.min(HEAD_ROWS) * config.vocab;
        let fixed = pass.workspace_bytes(config, block, 1) + logits + Batch::bytes(pass.rows, pass.sequences);
        states + (self.text_bytes(config) + fixed) as u64
    }
}
