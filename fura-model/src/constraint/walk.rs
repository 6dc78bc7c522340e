//! Walking an automaton byte by byte, and back.

use super::automaton::{Automaton, Node, RETURN};
use std::collections::{HashMap, HashSet};

/// Calls in each other; deeper ones are not followed, which [`Walk::is_cut`] says.
const MAX_DEPTH: u32 = 128;
/// Places looked at after one byte; more are not, which [`Walk::is_cut`] says.
pub(super) const MAX_SEEN: usize = 1024;
/// Places looked at between two [`Walk::rest`]s; more are not, which [`Walk::is_cut`] says. A vocabulary has some hundred
/// thousand beginnings of tokens, and an ordinary grammar some tens of places at each: this is about a second's work.
const MAX_EFFORT: usize = 1 << 25;
/// The stack on which nothing lies.
const EMPTY: u32 = u32::MAX;

/// Where to go on when a rule ends, on top of another stack.
#[derive(Clone, Copy, Debug)]
struct Cell {
    node: u32,
    below: u32,
    depth: u32,
}

/// A place and the stack it has been reached with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    node: u32,
    stack: u32,
}

/// What to return to when a byte is taken back.
#[derive(Clone, Copy, Debug)]
struct Level {
    places: usize,
    cells: usize,
}

/// All places that the bytes so far lead to, and those of every shorter beginning since the last [`Walk::settle`].
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    cells: Vec<Cell>,
    /// The cell of a node and what is below: there is one of each, so that equal stacks are equal numbers.
    known: HashMap<(u32, u32), u32>,
    places: Vec<Place>,
    levels: Vec<Level>,
    seen: HashSet<Place>,
    work: Vec<Place>,
    settled: Vec<Cell>,
    chain: Vec<u32>,
    effort: usize,
    cut: bool,
}

impl Walk {
    /// Before the first byte.
    pub(super) fn new(automaton: &Automaton) -> Self {
        let mut walk = Self::default();
        walk.levels.push(Level { places: 0, cells: 0 });
        walk.reach(automaton, Place { node: automaton.starts[0], stack: EMPTY });
        walk.settle();
        walk
    }

    /// Whether a limit has left out ways on, here or where a byte was tried.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the bytes so far are a whole text.
    pub(super) fn is_complete(&self) -> bool {
        self.now().iter().any(|p| p.node == RETURN)
    }

    /// Whether a byte can follow.
    pub(super) fn can_continue(&self) -> bool {
        self.now().iter().any(|p| p.node != RETURN)
    }

    fn now(&self) -> &[Place] {
        &self.places[self.levels[self.levels.len() - 1].places..]
    }

    /// Begins to count effort anew.
    pub(super) fn rest(&mut self) {
        self.effort = 0;
    }

    /// Takes a byte. If nothing begins so, nothing is taken.
    pub(super) fn step(&mut self, automaton: &Automaton, byte: u8) -> bool {
        let level = Level { places: self.places.len(), cells: self.cells.len() };
        let before = self.levels[self.levels.len() - 1].places..level.places;
        self.seen.clear();
        for i in before {
            let Place { node, stack } = self.places[i];
            if let Node::Byte { low, high, next } = automaton.nodes[node as usize]
                && (low..=high).contains(&byte)
            {
                self.reach(automaton, Place { node: next, stack });
            }
        }
        if self.places.len() == level.places {
            self.forget(level.cells);
            return false;
        }
        self.levels.push(level);
        true
    }

    /// Takes the last byte back.
    pub(super) fn back(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.places.truncate(level.places);
            self.forget(level.cells);
        }
    }

    /// Forgets all cells but the first ones.
    fn forget(&mut self, cells: usize) {
        for cell in self.cells.drain(cells..) {
            self.known.remove(&(cell.node, cell.below));
        }
    }

    /// The cell of a node and what is below.
    fn cell(&mut self, node: u32, below: u32, depth: u32) -> u32 {
        *self.known.entry((node, below)).or_insert_with(|| {
            self.cells.push(Cell { node, below, depth });
            self.cells.len() as u32 - 1
        })
    }

    /// Adds the places that are reached from one without a byte.
    fn reach(&mut self, automaton: &Automaton, from: Place) {
        self.work.clear();
        self.work.push(from);
        while let Some(place) = self.work.pop() {
            self.effort += 1;
            if self.seen.contains(&place) {
                continue;
            }
            if self.seen.len() == MAX_SEEN || self.effort > MAX_EFFORT {
                self.cut = true;
                break;
            }
            self.seen.insert(place);
            let stack = place.stack;
            match automaton.nodes[place.node as usize] {
                Node::Byte { .. } => self.places.push(place),
                Node::Dead => {}
                Node::Split(a, b) => self.work.extend([Place { node: b, stack }, Place { node: a, stack }]),
                Node::Return if stack == EMPTY => self.places.push(place),
                Node::Return => {
                    let cell = self.cells[stack as usize];
                    self.work.push(Place { node: cell.node, stack: cell.below });
                }
                Node::Call { rule, next } => {
                    let node = automaton.starts[rule as usize];
                    let depth = self.depth(stack) + 1;
                    if next == RETURN {
                        // Nothing is left to do afterwards: recursion on the right needs no stack.
                        self.work.push(Place { node, stack });
                    } else if depth <= MAX_DEPTH {
                        let stack = self.cell(next, stack, depth);
                        self.work.push(Place { node, stack });
                    } else {
                        self.cut = true;
                    }
                }
            }
        }
    }

    fn depth(&self, stack: u32) -> u32 {
        if stack == EMPTY { 0 } else { self.cells[stack as usize].depth }
    }

    /// Makes the bytes taken final: only the present places and the cells they need are kept.
    pub(super) fn settle(&mut self) {
        let first = self.levels[self.levels.len() - 1].places;
        self.places.drain(..first);
        self.settled.clear();
        self.known.clear();
        for place in &mut self.places {
            self.chain.clear();
            let mut stack = place.stack;
            while stack != EMPTY {
                self.chain.push(stack);
                stack = self.cells[stack as usize].below;
            }
            for old in self.chain.iter().rev() {
                let cell = Cell { below: stack, ..self.cells[*old as usize] };
                stack = *self.known.entry((cell.node, cell.below)).or_insert_with(|| {
                    self.settled.push(cell);
                    self.settled.len() as u32 - 1
                });
            }
            place.stack = stack;
        }
        std::mem::swap(&mut self.cells, &mut self.settled);
        self.levels.clear();
        self.levels.push(Level { places: 0, cells: self.cells.len() });
    }

    /// Numbers that tell settled walks apart.
    pub(super) fn key(&self, key: &mut Vec<u32>) {
        key.clear();
        for place in &self.places {
            key.push(place.node);
            let mut stack = place.stack;
            while stack != EMPTY {
                let cell = self.cells[stack as usize];
                key.push(cell.node);
                stack = cell.below;
            }
            // No node has this number.
            key.push(u32::MAX);
        }
    }
}
