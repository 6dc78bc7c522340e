//! Questions as far as the base computes them.

use crate::Result;
use crate::layer::TopLayer;
use fura::core::layout::Scope;
use fura::model::{Base, Batch, Engine, KvCache, Model, Plan, Shared, Threads, Workspace};
use fura::question::Question;
use fura::reward::{Reward, best};
use fura::simd::Isa;

/// Questions with the rows where their answers part: residual stream, what was attended to, and the head's rows of the
/// tokens that go on from there.
pub struct Prepared {
    isa: Isa,
    questions: Vec<Question>,
    pub residual: Vec<f32>,
    pub attended: Vec<f32>,
    heads: Vec<Vec<f32>>,
}

/// How well questions were answered.
pub struct Answers {
    /// Mean log of the expected reward.
    pub fitness: f64,
    /// Share whose most likely legal answer is right.
    pub success: f64,
}

impl Prepared {
    pub fn new(model: &Model, isa: Isa, layer: &TopLayer, questions: Vec<Question>) -> Result<Self> {
        let c = model.config();
        let shared = Shared::Attention(c.layers - 1);
        let longest = questions.iter().map(Question::rows).max().unwrap_or(1);
        let branches = questions.iter().map(|q| q.tree.branches().len()).max().unwrap_or(1);
        let mut workspace =
            Workspace::new(model, Plan { rows: longest, sequences: branches, positions: longest });
        let mut cache = KvCache::transient(c, longest);
        let (mut batch, mut states) = (Batch::default(), Vec::new());
        let engine = Engine::new(model, isa, Threads::Pool);
        let mut set = Self {
            isa,
            questions: Vec::new(),
            residual: Vec::new(),
            attended: Vec::new(),
            heads: Vec::new(),
        };
        for q in questions {
            batch.clear();
            q.tree.push(0, &q.prompt, Scope::Everywhere, 0, &mut batch);
            states.resize(q.tree.branches().len() * shared.width(c), 0.0);
            engine.states(&Base, &batch, shared, &mut cache, &mut workspace, &mut states)?;
            for (state, branch) in states.chunks_exact(shared.width(c)).zip(q.tree.branches()) {
                let (residual, attended) = state.split_at(c.d_model);
                set.residual.extend_from_slice(residual);
                set.attended.extend_from_slice(attended);
                set.heads.push(branch.tokens.iter().flat_map(|t| layer.head(*t)).copied().collect());
            }
            set.questions.push(q);
        }
        Ok(set)
    }

    pub fn rows(&self) -> usize {
        self.heads.len()
    }

    /// Grades the rows' last states, normed.
    pub fn answers(&self, states: &[f32], d_model: usize) -> Answers {
        let mut rows = states.chunks_exact(d_model).zip(&self.heads);
        let (mut fitness, mut right) = (0.0, 0);
        for q in &self.questions {
            let mut scores = vec![0.0; q.tree.answers().len()];
            for (branch, (state, heads)) in q.tree.branches().iter().zip(rows.by_ref()) {
                let dot = |head: &[f32]| head.iter().zip(state).map(|(h, x)| h * x).sum::<f32>();
                let logits: Vec<f32> = heads.chunks_exact(d_model).map(dot).collect();
                q.tree.accumulate(self.isa, branch, &logits, &mut scores);
            }
            fitness += Reward::LogExpected.of(&scores, &q.rewards);
            right += usize::from(q.rewards[best(&scores)] >= 1.0);
        }
        let n = self.questions.len() as f64;
        Answers { fitness: fitness / n, success: right as f64 / n }
    }
}
