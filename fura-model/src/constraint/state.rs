//! How far a sequence under a constraint has come.

use super::Constraint;
use super::walk::Walk;
use std::collections::HashMap;

/// Sets of allowed tokens that are remembered; a grammar of usual size has fewer.
const MAX_REMEMBERED: usize = 128;

/// A constraint and the text generated so far.
///
/// The set of allowed tokens is computed once for each state of the automaton and remembered, so that a sequence in
/// states it has seen allocates nothing.
#[derive(Clone, Debug)]
pub struct ConstraintState {
    constraint: Constraint,
    walk: Walk,
    key: Vec<u32>,
    allowed: Vec<u32>,
    remembered: HashMap<Vec<u32>, Box<[u32]>>,
}

impl ConstraintState {
    pub(super) fn new(constraint: Constraint) -> Self {
        let walk = Walk::new(&constraint.automaton);
        Self { constraint, walk, key: Vec::new(), allowed: Vec::new(), remembered: HashMap::new() }
    }

    /// Goes back to where nothing has been generated; what was remembered stays.
    pub fn restart(&mut self) {
        self.walk = Walk::new(&self.constraint.automaton);
    }

    /// Whether what has been generated is a whole text, so that generation may end.
    pub fn is_complete(&self) -> bool {
        self.walk.is_complete()
    }

    /// Whether what has been generated, or what was looked at on the way, met a limit of grammars (nesting deeper than 128
    /// calls, more than 1024 places at once, 33 million in all for one set of tokens), so that tokens which the grammar
    /// allows may be missing.
    pub fn is_cut(&self) -> bool {
        self.walk.is_cut()
    }

    /// Whether a legal text goes on from here. If not and it is complete, generation is over.
    pub fn can_continue(&self) -> bool {
        self.walk.can_continue()
    }

    /// The tokens that may follow, end tokens apart, in ascending order.
    pub fn allowed(&mut self) -> &[u32] {
        self.walk.key(&mut self.key);
        // Looked up twice, since a borrow that is returned cannot be given up in the other branch.
        if self.remembered.contains_key(&self.key) {
            return &self.remembered[&self.key];
        }
        self.compute();
        if self.remembered.len() < MAX_REMEMBERED && !self.walk.is_cut() {
            self.remembered.insert(self.key.clone(), self.allowed.clone().into_boxed_slice());
        }
        &self.allowed
    }

    fn compute(&mut self) {
        let (automaton, order) = (&self.constraint.automaton, &self.constraint.order);
        self.allowed.clear();
        self.walk.rest();
        let tokens = order.tokens();
        let mut taken = 0;
        let mut i = 0;
        while let Some(token) = tokens.get(i) {
            while taken > token.shared {
                self.walk.back();
                taken -= 1;
            }
            let text = order.text(token);
            while taken < text.len() && self.walk.step(automaton, text[taken]) {
                taken += 1;
            }
            i += 1;
            if taken == text.len() {
                self.allowed.push(token.id);
            } else {
                // All that share the byte that does not fit do not fit either.
                i += tokens[i..].iter().take_while(|t| t.shared > taken).count();
            }
        }
        for _ in 0..taken {
            self.walk.back();
        }
        self.allowed.sort_unstable();
    }

    /// Whether a token may follow.
    pub fn allows(&mut self, token: u32) -> bool {
        let taken = self.take(token);
        for _ in 0..taken.unwrap_or_else(|n| n) {
            self.walk.back();
        }
        taken.is_ok()
    }

    /// Takes a token that may follow; any other is refused and changes nothing.
    pub fn advance(&mut self, token: u32) -> bool {
        match self.take(token) {
            Ok(_) => {
                self.walk.settle();
                true
            }
            Err(taken) => {
                for _ in 0..taken {
                    self.walk.back();
                }
                false
            }
        }
    }

    /// Steps through a token's bytes; how many were taken, all or not.
    fn take(&mut self, token: u32) -> Result<usize, usize> {
        let Some(text) = self.constraint.order.text_of(token) else { return Err(0) };
        self.walk.rest();
        for (i, byte) in text.iter().enumerate() {
            if !self.walk.step(&self.constraint.automaton, *byte) {
                return Err(i);
            }
        }
        Ok(text.len())
    }
}
