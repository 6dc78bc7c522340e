//! A grammar as a pushdown automaton over bytes.

use super::ConstraintError;
use super::expression::{Expression, Rule};
use super::utf8;
use std::collections::BTreeMap;

/// Most nodes of an automaton.
const MAX_NODES: usize = 1 << 18;
/// Most rules of a grammar.
const MAX_RULES: usize = 1024;

/// A place in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A byte of this range leads on.
    Byte { low: u8, high: u8, next: u32 },
    /// Either.
    Split(u32, u32),
    /// A rule, and then `next`.
    Call { rule: u32, next: u32 },
    /// The end of a rule.
    Return,
    /// No text goes on from here.
    Dead,
}

/// The end of every rule.
pub(super) const RETURN: u32 = 0;

/// Nodes, and where each rule begins; rule 0 is what is generated.
#[derive(Clone, Debug)]
pub(super) struct Automaton {
    pub(super) nodes: Vec<Node>,
    pub(super) starts: Vec<u32>,
}

impl Automaton {
    /// The automaton of a list of texts: one rule, the tree of their bytes.
    pub(super) fn of_answers<S: AsRef<str>>(answers: &[S]) -> Result<Self, ConstraintError> {
        if answers.is_empty() {
            return Err(ConstraintError::Answers { problem: "there is none" });
        }
        // Children come after their parents.
        let mut tree: Vec<(BTreeMap<u8, usize>, bool)> = vec![(BTreeMap::new(), false)];
        for answer in answers {
            let answer = answer.as_ref();
            if answer.is_empty() {
                return Err(ConstraintError::Answers { problem: "one is empty" });
            }
            let mut at = 0;
            for byte in answer.bytes() {
                let new = tree.len();
                let next = *tree[at].0.entry(byte).or_insert(new);
                if next == new {
                    if new >= MAX_NODES / 2 {
                        return Err(ConstraintError::TooLarge { limit: MAX_NODES });
                    }
                    tree.push((BTreeMap::new(), false));
                }
                at = next;
            }
            tree[at].1 = true;
        }
        let mut builder = Builder { nodes: vec![Node::Return, Node::Dead] };
        let mut entries = vec![RETURN; tree.len()];
        for (i, (children, complete)) in tree.iter().enumerate().rev() {
            let mut ways = Vec::with_capacity(children.len() + 1);
            for (byte, child) in children {
                ways.push(builder.push(Node::Byte { low: *byte, high: *byte, next: entries[*child] })?);
            }
            if *complete {
                ways.push(RETURN);
            }
            entries[i] = builder.either(&ways)?;
        }
        Ok(Self { nodes: builder.nodes, starts: vec![entries[0]] })
    }

    /// The automaton of a grammar.
    pub(super) fn of_rules(rules: &[Rule]) -> Result<Self, ConstraintError> {
        if rules.len() > MAX_RULES {
            let problem = format!("more than {MAX_RULES} rules");
            return Err(ConstraintError::Syntax { line: 1, problem });
        }
        let mut builder = Builder { nodes: vec![Node::Return, Node::Dead] };
        let mut starts = Vec::with_capacity(rules.len());
        for rule in rules {
            starts.push(builder.expression(&rule.body, RETURN)?);
        }
        let automaton = Self { nodes: builder.nodes, starts };
        match automaton.left_recursive() {
            Some(rule) => Err(ConstraintError::LeftRecursion { rule: rules[rule].name.clone() }),
            None => Ok(automaton),
        }
    }

    /// A rule that can come back to itself without a byte.
    fn left_recursive(&self) -> Option<usize> {
        let n = self.starts.len();
        let mut empty = vec![false; n];
        let mut calls = vec![Vec::new(); n];
        let mut seen = vec![usize::MAX; self.nodes.len()];
        let mut round = 0;
        // Which rules can be empty decides which calls come first, and the other way round: until nothing changes.
        loop {
            let mut changed = false;
            for rule in 0..n {
                calls[rule].clear();
                let mut work = vec![self.starts[rule]];
                while let Some(node) = work.pop() {
                    if std::mem::replace(&mut seen[node as usize], round) == round {
                        continue;
                    }
                    match self.nodes[node as usize] {
                        Node::Byte { .. } | Node::Dead => {}
                        Node::Split(a, b) => work.extend([a, b]),
                        Node::Call { rule: called, next } => {
                            calls[rule].push(called as usize);
                            if empty[called as usize] {
                                work.push(next);
                            }
                        }
                        Node::Return => changed |= !std::mem::replace(&mut empty[rule], true),
                    }
                }
                round += 1;
            }
            if !changed {
                break;
            }
        }
        // A cycle of first calls, by leaving out rules whose calls lead nowhere, again and again.
        let mut open: Vec<bool> = vec![true; n];
        loop {
            let leaves: Vec<usize> =
                (0..n).filter(|r| open[*r] && calls[*r].iter().all(|c| !open[*c])).collect();
            if leaves.is_empty() {
                // What is left calls only into what is left, so from any rule a cycle is reached; one on it calls back.
                return (0..n).find(|r| open[*r] && reaches(&calls, *r, *r));
            }
            leaves.into_iter().for_each(|r| open[r] = false);
        }
    }
}

/// Whether calls lead from a rule to another (or back to itself).
fn reaches(calls: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; calls.len()];
    let mut work = calls[from].clone();
    while let Some(rule) = work.pop() {
        if rule == to {
            return true;
        }
        if !std::mem::replace(&mut seen[rule], true) {
            work.extend(&calls[rule]);
        }
    }
    false
}

struct Builder {
    nodes: Vec<Node>,
}

impl Builder {
    fn push(&mut self, node: Node) -> Result<u32, ConstraintError> {
        if self.nodes.len() == MAX_NODES {
            return Err(ConstraintError::TooLarge { limit: MAX_NODES });
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// A node from which all of these are reached.
    fn either(&mut self, ways: &[u32]) -> Result<u32, ConstraintError> {
        let Some((last, others)) = ways.split_last() else { return self.push(Node::Dead) };
        let mut node = *last;
        for way in others.iter().rev() {
            node = self.push(Node::Split(*way, node))?;
        }
        Ok(node)
    }

    /// The node where an expression that goes on to `next` begins.
    fn expression(&mut self, expression: &Expression, next: u32) -> Result<u32, ConstraintError> {
        match expression {
            Expression::Text(bytes) => {
                let mut node = next;
                for byte in bytes.iter().rev() {
                    node = self.push(Node::Byte { low: *byte, high: *byte, next: node })?;
                }
                Ok(node)
            }
            Expression::Class(ranges) => {
                let mut sequences: Vec<Vec<(u8, u8)>> = Vec::new();
                for (low, high) in ranges {
                    utf8::sequences(*low, *high, &mut |s| sequences.push(s.to_vec()));
                }
                let mut ways = Vec::with_capacity(sequences.len());
                for sequence in &sequences {
                    let mut node = next;
                    for (low, high) in sequence.iter().rev() {
                        node = self.push(Node::Byte { low: *low, high: *high, next: node })?;
                    }
                    ways.push(node);
                }
                self.either(&ways)
            }
            Expression::Sequence(parts) => {
                let mut node = next;
                for part in parts.iter().rev() {
                    node = self.expression(part, node)?;
                }
                Ok(node)
            }
            Expression::Choice(parts) => {
                let mut ways = Vec::with_capacity(parts.len());
                for part in parts {
                    ways.push(self.expression(part, next)?);
                }
                self.either(&ways)
            }
            Expression::Repeat { inner, least, most } => {
                let mut node = next;
                match most {
                    None => {
                        node = self.push(Node::Dead)?;
                        let body = self.expression(inner, node)?;
                        self.nodes[node as usize] = Node::Split(body, next);
                    }
                    Some(most) => {
                        for _ in *least..*most {
                            let body = self.expression(inner, node)?;
                            node = self.push(Node::Split(body, next))?;
                        }
                    }
                }
                for _ in 0..*least {
                    node = self.expression(inner, node)?;
                }
                Ok(node)
            }
            Expression::Rule(rule) => self.push(Node::Call { rule: *rule as u32, next }),
        }
    }
}
