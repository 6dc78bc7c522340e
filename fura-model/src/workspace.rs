//! Every buffer of a forward pass, allocated once from a stated plan (contracts C2 and C3).

use crate::attention::Scratch;
use crate::buffer::Buffer;
use crate::config::ModelConfig;
use crate::logits::HEAD_ROWS;
use crate::model::Model;
use crate::part::Part;
use crate::rope::Rope;
use fura_quant::{Activations, GROUP, ROW_BLOCK, RowBlock};
use fura_simd::{AlignedBuffer, block};

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
    pub(crate) x: Buffer<f32>,
    /// Normed input of a linear, `rows x d_model`; after a pass, the normed rows that were wanted.
    pub(crate) h: Buffer<f32>,
    pub(crate) q: Buffer<f32>,
    pub(crate) k: Buffer<f32>,
    pub(crate) v: Buffer<f32>,
    pub(crate) attended: Buffer<f32>,
    pub(crate) gate: Buffer<f32>,
    pub(crate) up: Buffer<f32>,
    /// One for each thread of the passes so far.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) all: Vec<Row>,
    pub(crate) all_runs: Vec<Run>,
    pub(crate) wanted: Vec<Row>,
    pub(crate) wanted_runs: Vec<Run>,
    /// Index of each wanted row among all rows.
    pub(crate) wanted_index: Vec<usize>,
}

/// Buffers that every thread of a pass has for itself.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) input: Input,
    pub(crate) attention: Scratch,
    /// One head before its norm.
    pub(crate) head: Vec<f32>,
    /// One row of an output after its norm.
    pub(crate) normed: Vec<f32>,
    /// The codes of final states on their way to the output head.
    pub(crate) head_codes: Activations<i16>,
}

/// Buffers that begin with a cache line: those of all rows, and of each thread a transform and what it makes of them.
const ALIGNED: usize = 8;
const ALIGNED_OF_LANE: usize = 2;

/// Rows that are transformed before they become codes: enough to spread the reading of a transform. At least those of the
/// output head, which pass through the same buffer.
pub(crate) const PIECE: usize = 2 * ROW_BLOCK;
const _: () = assert!(HEAD_ROWS <= PIECE);

/// Linears of a layer that have the same input.
pub(crate) const SAME_INPUT: usize = 3;

/// What a linear's input passes through.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) transformed: Transformed,
    /// The codes of all rows; further ones for a row whose linears of the same input are computed at once.
    pub(crate) codes: [Activations; SAME_INPUT],
}

/// The member's coordinates, its transform, and some rows after it.
#[derive(Debug)]
pub(crate) struct Transformed {
    pub(crate) coordinates: Vec<f32>,
    pub(crate) transform: AlignedBuffer,
    pub(crate) rows: AlignedBuffer,
}

impl Plan {
    /// Bytes of a workspace of this plan for passes on `threads` threads, its dominant buffers counted exactly.
    pub fn workspace_bytes(&self, config: &ModelConfig, block: usize, threads: usize) -> usize {
        let attended = config.d_query().max(config.d_model);
        let row = 2 * config.d_model + config.d_query() + attended + 2 * config.d_kv() + 2 * config.d_ff;
        let tables = 1 + usize::from(config.variant.local_rope_base.is_some());
        let rows = self.rows.saturating_mul(4 * row + 2 * size_of::<Row>() + size_of::<usize>());
        let positions = self.positions.saturating_mul(4 * tables * config.rotated());
        let aligned = 4 * ALIGNED * AlignedBuffer::EXTRA;
        let lanes = self.lane_bytes(config, block).saturating_mul(threads.max(1));
        rows.saturating_add(positions).saturating_add(aligned).saturating_add(lanes)
    }

    /// Bytes of what each thread of a pass has for itself.
    fn lane_bytes(&self, config: &ModelConfig, block: usize) -> usize {
        let widest = config.d_model.max(config.d_query()).max(config.d_ff);
        let code_blocks = self.rows.div_ceil(ROW_BLOCK) + SAME_INPUT - 1;
        let codes = code_blocks.saturating_mul(widest / GROUP * size_of::<RowBlock>());
        let head_blocks = HEAD_ROWS.div_ceil(ROW_BLOCK) * (config.d_model / GROUP);
        let head_codes = head_blocks * size_of::<RowBlock<i16>>();
        let inputs =
            (1 + PIECE) * widest + block::matrix_len(widest, block) + ALIGNED_OF_LANE * AlignedBuffer::EXTRA;
        let normed = config.d_model + config.head_dim;
        let attention = Scratch::bytes(config, self.positions, self.sequences);
        codes.saturating_add(head_codes + 4 * (inputs + normed)).saturating_add(attention)
    }
}

impl Workspace {
    /// Allocates the buffers of `plan`.
    pub fn new(model: &Model, plan: Plan) -> Self {
        let c = model.config();
        let n = plan.rows;
        Self {
            plan,
            rope: Rope::new(c, model.rope_divisors(), plan.positions),
            x: Buffer::new(n * c.d_model),
            h: Buffer::new(n * c.d_model),
            q: Buffer::new(n * c.d_query()),
            k: Buffer::new(n * c.d_kv()),
            v: Buffer::new(n * c.d_kv()),
            attended: Buffer::new(n * c.d_query().max(c.d_model)),
            gate: Buffer::new(n * c.d_ff),
            up: Buffer::new(n * c.d_ff),
            lanes: vec![Lane::new(model, plan)],
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

    /// Makes it one for as many rows of so many sequences and positions; the buffers of rows stay.
    pub fn need_sequences(&mut self, model: &Model, sequences: usize, positions: usize) {
        let c = model.config();
        self.plan = Plan { rows: self.plan.rows, sequences, positions };
        self.rope = Rope::new(c, model.rope_divisors(), positions);
        for lane in &mut self.lanes {
            lane.attention = Scratch::new(c, positions, sequences);
        }
        for runs in [&mut self.all_runs, &mut self.wanted_runs] {
            *runs = Vec::with_capacity(sequences);
        }
    }

    /// Makes sure that so many threads have their buffers.
    pub(crate) fn need_lanes(&mut self, model: &Model, threads: usize) {
        while self.lanes.len() < threads {
            self.lanes.push(Lane::new(model, self.plan));
        }
    }

    /// All rows of the pass, or the wanted ones, to be worked on by so many threads; their runs; and the angles of
    /// positions.
    pub(crate) fn part(
        &mut self,
        c: &ModelConfig,
        wanted: bool,
        threads: usize,
    ) -> (Part<'_>, &[Run], &Rope) {
        let (rows, runs) = match wanted {
            true => (&self.wanted, &self.wanted_runs),
            false => (&self.all, &self.all_runs),
        };
        let n = rows.len();
        let part = Part {
            lanes: &mut self.lanes[..threads],
            threads,
            first: 0,
            rows,
            x: &mut self.x[..n * c.d_model],
            h: &mut self.h[..n * c.d_model],
            q: &mut self.q[..n * c.d_query()],
            k: &mut self.k[..n * c.d_kv()],
            v: &mut self.v[..n * c.d_kv()],
            attended: &mut self.attended[..n * c.d_query()],
            gate: &mut self.gate[..n * c.d_ff],
            up: &mut self.up[..n * c.d_ff],
        };
        (part, runs, &self.rope)
    }
}

impl Lane {
    fn new(model: &Model, plan: Plan) -> Self {
        let c = model.config();
        let widest = c.d_model.max(c.d_query()).max(c.d_ff);
        Self {
            input: Input {
                transformed: Transformed {
                    coordinates: vec![0.0; widest],
                    transform: AlignedBuffer::new(block::matrix_len(widest, model.layout().block())),
                    rows: AlignedBuffer::new(PIECE * widest),
                },
                codes: std::array::from_fn(|i| {
                    let rows = if i == 0 { plan.rows } else { 1 };
                    Activations::with_capacity(rows, widest)
                }),
            },
            attention: Scratch::new(c, plan.positions, plan.sequences),
            head: vec![0.0; c.head_dim],
            normed: vec![0.0; c.d_model],
            head_codes: Activations::with_capacity(HEAD_ROWS, c.d_model),
        }
    }
}

impl Run {
    /// What of it lies among `n` rows from `first` on, numbered from there; `None` if nothing does.
    pub(crate) fn within(&self, first: usize, n: usize) -> Option<Self> {
        let (start, end) = (self.start.max(first), self.end.min(first + n));
        (start < end).then(|| Self { member: self.member, start: start - first, end: end - first })
    }
}
