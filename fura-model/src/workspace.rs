//! Every buffer of a forward pass, allocated once from a stated plan (contracts C2 and C3).

use crate::attention::Scratch;
use crate::config::ModelConfig;
use crate::logits::HEAD_ROWS;
use crate::model::Model;
use crate::rope::Rope;
use fura_quant::{Activations, GROUP, ROW_BLOCK, RowBlock};
use fura_simd::{AlignedBuffer, block};
use std::sync::Mutex;

/// How much a workspace must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Most rows (tokens) in one pass.
    pub rows: usize,
    /// Most sequences in one pass.
    pub sequences: usize,
    /// Longest sequence, past and new tokens together.
    pub positions: usize,
}

/// A token's place: its position, its cache row, and its sequence in the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) position: usize,
    pub(crate) store: usize,
    pub(crate) sequence: usize,
}

/// Consecutive rows of one member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) member: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Buffers of one worker. A pass on a workspace allocates nothing.
#[derive(Debug)]
pub struct Workspace {
    pub(crate) plan: Plan,
    pub(crate) rope: Rope,
    /// Residual stream, `rows x d_model`.
    pub(crate) x: Vec<f32>,
    /// Normed input of a linear, `rows x d_model`; after a pass, the normed rows that were wanted.
    pub(crate) h: AlignedBuffer,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    pub(crate) attended: AlignedBuffer,
    pub(crate) gate: AlignedBuffer,
    pub(crate) up: Vec<f32>,
    /// Final states, each followed by what its int8 codes leave over.
    pub(crate) head_rows: Vec<f32>,
    /// One head before its norm.
    pub(crate) head: Vec<f32>,
    /// One for each thread of a pass that uses several.
    pub(crate) attention: Mutex<Vec<Scratch>>,
    pub(crate) input: TransformedInput,
    pub(crate) all: Vec<Row>,
    pub(crate) all_runs: Vec<Run>,
    pub(crate) wanted: Vec<Row>,
    pub(crate) wanted_runs: Vec<Run>,
    /// Index of each wanted row among all rows.
    pub(crate) wanted_index: Vec<usize>,
}

/// Buffers that begin with a cache line: the inputs of linears, their transforms and what those make of them.
const ALIGNED: usize = 5;

/// Rows that are transformed before they become codes: enough to spread the reading of a transform.
pub(crate) const PIECE: usize = 2 * ROW_BLOCK;

/// What a linear's input passes through: the member's coordinates, its transform, some rows after it, and the int8 codes of
/// all.
#[derive(Debug)]
pub(crate) struct TransformedInput {
    pub(crate) coordinates: Vec<f32>,
    pub(crate) transform: AlignedBuffer,
    pub(crate) rows: AlignedBuffer,
    pub(crate) codes: Activations,
}

impl Plan {
    /// Bytes of a workspace of this plan, its dominant buffers counted exactly, on one thread; each further one of a
    /// pass takes attention's scratch once more, about `4 (head_dim + 1)` bytes a position.
    pub fn workspace_bytes(&self, config: &ModelConfig, block: usize) -> usize {
        let widest = config.d_model.max(config.d_query()).max(config.d_ff);
        let attended = config.d_query().max(config.d_model);
        let row = 2 * config.d_model + config.d_query() + attended + 2 * config.d_kv() + 2 * config.d_ff;
        let tables = 1 + usize::from(config.variant.local_rope_base.is_some());
        let rows = self.rows.saturating_mul(4 * row + 2 * size_of::<Row>() + size_of::<usize>());
        let code_blocks = self.rows.max(2 * HEAD_ROWS).div_ceil(ROW_BLOCK);
        let codes = code_blocks.saturating_mul(widest / GROUP * size_of::<RowBlock>());
        let inputs = (1 + PIECE) * widest + block::matrix_len(widest, block) + ALIGNED * AlignedBuffer::EXTRA;
        let fixed = 4 * (2 * HEAD_ROWS * config.d_model + inputs);
        let positions = self.positions.saturating_mul(4 * tables * config.rotated());
        let attention = Scratch::bytes(config, self.positions, self.sequences);
        rows.saturating_add(codes).saturating_add(fixed).saturating_add(positions).saturating_add(attention)
    }
}

impl Workspace {
    /// Allocates the buffers of `plan`.
    pub fn new(model: &Model, plan: Plan) -> Self {
        let c = model.config();
        let widest = c.d_model.max(c.d_query()).max(c.d_ff);
        let n = plan.rows;
        Self {
            plan,
            rope: Rope::new(c, model.rope_divisors(), plan.positions),
            x: vec![0.0; n * c.d_model],
            h: AlignedBuffer::new(n * c.d_model),
            q: vec![0.0; n * c.d_query()],
            k: vec![0.0; n * c.d_kv()],
            v: vec![0.0; n * c.d_kv()],
            attended: AlignedBuffer::new(n * c.d_query().max(c.d_model)),
            gate: AlignedBuffer::new(n * c.d_ff),
            up: vec![0.0; n * c.d_ff],
            head_rows: vec![0.0; 2 * HEAD_ROWS * c.d_model],
            head: vec![0.0; c.head_dim],
            attention: Mutex::new(vec![Scratch::new(c, plan.positions, plan.sequences)]),
            input: TransformedInput {
                coordinates: vec![0.0; widest],
                transform: AlignedBuffer::new(block::matrix_len(widest, model.layout().block())),
                rows: AlignedBuffer::new(PIECE * widest),
                codes: Activations::with_capacity(n.max(2 * HEAD_ROWS), widest),
            },
            all: Vec::with_capacity(n),
            all_runs: Vec::with_capacity(plan.sequences),
            wanted: Vec::with_capacity(n),
            wanted_runs: Vec::with_capacity(plan.sequences),
            wanted_index: Vec::with_capacity(n),
        }
    }

    /// What it was planned for.
    pub fn plan(&self) -> Plan {
        self.plan
    }
}
