//! Scoring a list of legal answers as a prefix tree: the policy over them, exactly.

use crate::batch::Batch;
use crate::error::ModelError;
use crate::tokenizer::Tokenizer;
use fura_core::layout::Scope;
use fura_simd::attention::Span;

/// Legal answers as token sequences, grouped by where they part.
///
/// The policy is that of decoding constrained to the list: at every branching point a softmax over the tokens
/// that some answer continues with, so an answer's probability is the product over the branching points on its
/// path, and the probabilities of all answers add up to 1. Answers with distinct first tokens need one forward
/// pass of the prompt and as many logits as there are answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceTree {
    answers: Vec<Vec<u32>>,
    branches: Vec<Branch>,
}

/// A point where answers part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Tokens after the prompt that lead here.
    pub path: Vec<u32>,
    /// The branching point before this one on the way here; its path is the beginning of this one's.
    pub parent: Option<usize>,
    /// The tokens that continue some answer, in order of first appearance.
    pub tokens: Vec<u32>,
    /// For each answer, which of `tokens` it takes here, if it comes by.
    pub taken: Vec<Option<usize>>,
}

impl ChoiceTree {
    /// Builds the tree of `answers`, encoded as plain text (special tokens are not recognized).
    ///
    /// # Errors
    /// Two equal answers, one that is the beginning of another (they could not be told apart without an end
    /// marker; add one, such as a newline), or an empty one.
    pub fn new<S: AsRef<str>>(tokenizer: &Tokenizer, answers: &[S]) -> Result<Self, ModelError> {
        let mut encoded = Vec::with_capacity(answers.len());
        for a in answers {
            encoded.push(tokenizer.encode(a.as_ref(), crate::tokenizer::Specials::Ignore)?);
        }
        for (i, a) in encoded.iter().enumerate() {
            for (j, b) in encoded.iter().enumerate() {
                if i != j && b.starts_with(a) {
                    return Err(ModelError::Choices {
                        first: answers[i].as_ref().to_owned(),
                        second: answers[j].as_ref().to_owned(),
                        problem: "one is the beginning of the other; end each with a marker such as a newline",
                    });
                }
            }
        }
        let all: Vec<usize> = (0..encoded.len()).collect();
        let mut branches = Vec::new();
        part(&encoded, &all, 0, None, &mut branches);
        Ok(Self { answers: encoded, branches })
    }

    /// Tokens of each answer.
    pub fn answers(&self) -> &[Vec<u32>] {
        &self.answers
    }

    /// The branching points. None if there is a single answer.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Rows that scoring takes after the prompt: no token of the tree is computed twice.
    pub fn rows(&self) -> usize {
        self.branches.iter().map(|b| b.path.len() - self.shared(b)).sum()
    }

    /// Length of the path that a branching point shares with the one before it.
    fn shared(&self, branch: &Branch) -> usize {
        branch.parent.map_or(0, |p| self.branches[p].path.len())
    }

    /// Adds the rows that scoring takes to a batch, prompt included: one sequence for each branching point, in order, of
    /// which [`Wanted::Last`](crate::Wanted::Last) gives the rows whose logits matter. What branching points
    /// share, prompt first, is there once; in [`Scope::Answer`] all of the prompt but its last token is the base's. For a
    /// [transient](crate::KvCache::transient) cache; the first row lies at `state` among states computed earlier
    /// ([`crate::Engine::forward_from`]).
    pub fn push(&self, member: u32, prompt: &[u32], scope: Scope, state: usize, batch: &mut Batch) {
        match (scope, prompt.split_last()) {
            (Scope::Answer, Some((last, beginning))) if !beginning.is_empty() => {
                let past = Span { first: batch.rows(), len: beginning.len() };
                batch.push_beginning(beginning, past.first);
                batch.set_state_row(state);
                self.hang(member, &[*last], past, 0, state + past.len, batch);
            }
            _ => self.hang(member, prompt, Span { first: 0, len: 0 }, 0, state, batch),
        }
    }

    /// As [`push`](Self::push) in [`Scope::Answer`], but after an [earlier](crate::Engine::forward_from) cache of `store`
    /// rows, which has the prompt's other tokens in those of `beginning`.
    pub fn push_answers(
        &self,
        member: u32,
        last: u32,
        beginning: Span,
        store: usize,
        state: usize,
        batch: &mut Batch,
    ) {
        self.hang(member, &[last], beginning, store, state, batch);
    }

    /// The tree after `beginning`, which follows `past`.
    fn hang(
        &self,
        member: u32,
        beginning: &[u32],
        past: Span,
        store: usize,
        state: usize,
        batch: &mut Batch,
    ) {
        let start = batch.rows();
        let first = batch.sequences();
        for branch in &self.branches {
            let row = batch.rows();
            match branch.parent {
                None => {
                    batch.push_after(member, beginning, &[past], store + row);
                    batch.extend_last(&branch.path);
                }
                Some(p) => {
                    let rest = &branch.path[self.shared(branch)..];
                    batch.push_after_sequence(member, rest, first + p, store + row);
                }
            }
            batch.set_state_row(state + row - start);
        }
    }

    /// Adds the rows that scoring takes once attention of the last layer is [shared](crate::Shared::Attention): one for
    /// each branching point, in order, whose states lie from row `state` on.
    pub fn push_ends(&self, member: u32, state: usize, batch: &mut Batch) {
        for (i, branch) in self.branches.iter().enumerate() {
            // Any token: the row begins with its state, not with an embedding.
            batch.push_prompt(member, &branch.tokens[..1]);
            batch.set_state_row(state + i);
        }
    }

    /// Adds one branching point's contribution to each answer's log-probability: `logits` are those of its
    /// tokens, in order.
    ///
    /// # Panics
    /// If the lengths disagree.
    pub fn accumulate(
        &self,
        isa: fura_simd::Isa,
        branch: &Branch,
        logits: &[f32],
        log_probabilities: &mut [f64],
    ) {
        assert!(logits.len() == branch.tokens.len() && log_probabilities.len() == self.answers.len());
        let total = fura_simd::softmax::log_sum_exp(isa, logits);
        for (taken, out) in branch.taken.iter().zip(log_probabilities) {
            if let Some(k) = taken {
                *out += f64::from(logits[*k]) - total;
            }
        }
    }
}

/// Lists the branching points among `members`, which agree on their first `depth` tokens and come from branching point
/// `parent`.
fn part(
    encoded: &[Vec<u32>],
    members: &[usize],
    mut depth: usize,
    mut parent: Option<usize>,
    branches: &mut Vec<Branch>,
) {
    let Some((first, others)) = members.split_first().filter(|(_, others)| !others.is_empty()) else {
        return;
    };
    // No answer is the beginning of another, so all of them go on.
    while others.iter().all(|m| encoded[*m][depth] == encoded[*first][depth]) {
        depth += 1;
    }
    let mut tokens = Vec::new();
    let mut taken = vec![None; encoded.len()];
    for &m in members {
        let token = encoded[m][depth];
        let k = tokens.iter().position(|t| *t == token).unwrap_or_else(|| {
            tokens.push(token);
            tokens.len() - 1
        });
        taken[m] = Some(k);
    }
    let n = tokens.len();
    branches.push(Branch { path: encoded[*first][..depth].to_vec(), parent, tokens, taken: taken.clone() });
    parent = Some(branches.len() - 1);
    for k in 0..n {
        let rest: Vec<usize> = members.iter().copied().filter(|m| taken[*m] == Some(k)).collect();
        part(encoded, &rest, depth + 1, parent, branches);
    }
}
