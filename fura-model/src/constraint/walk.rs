//! Walking an automaton byte by byte, and back.

use super::automaton::{Automaton, Node, RETURN};

/// Calls in each other; deeper ones are not followed, which [`Walk::is_cut`] says.
const MAX_DEPTH: u32 = 128;
/// Places looked at after one byte; more are not, which [`Walk::is_cut`] says.
pub(super) const MAX_SEEN: usize = 1024;
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
#[derive(Clone, Copy, Debug)]
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
    places: Vec<Place>,
    levels: Vec<Level>,
    seen: Vec<Place>,
    work: Vec<Place>,
    settled: Vec<Cell>,
    chain: Vec<u32>,
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
            self.cells.truncate(level.cells);
            return false;
        }
        self.levels.push(level);
        true
    }

    /// Takes the last byte back.
    pub(super) fn back(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.places.truncate(level.places);
            self.cells.truncate(level.cells);
        }
    }

    /// Adds the places that are reached from one without a byte.
    fn reach(&mut self, automaton: &Automaton, from: Place) {
        self.work.clear();
        self.work.push(from);
        while let Some(place) = self.work.pop() {
            if self.seen.iter().any(|p| self.equal(*p, place)) {
                continue;
            }
            if self.seen.len() == MAX_SEEN {
                self.cut = true;
                break;
            }
            self.seen.push(place);
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
                        self.cells.push(Cell { node: next, below: stack, depth });
                        self.work.push(Place { node, stack: self.cells.len() as u32 - 1 });
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

    /// Whether two places are one, whatever the stacks' cells are.
    fn equal(&self, a: Place, b: Place) -> bool {
        if a.node != b.node || self.depth(a.stack) != self.depth(b.stack) {
            return false;
        }
        let (mut a, mut b) = (a.stack, b.stack);
        // Of equal depth, so both end at once.
        while a != b {
            let (x, y) = (self.cells[a as usize], self.cells[b as usize]);
            if x.node != y.node {
                return false;
            }
            (a, b) = (x.below, y.below);
        }
        true
    }

    /// Makes the bytes taken final: only the present places and the cells they need are kept.
    pub(super) fn settle(&mut self) {
        let first = self.levels[self.levels.len() - 1].places;
        self.places.drain(..first);
        self.settled.clear();
        for place in &mut self.places {
            self.chain.clear();
            let mut stack = place.stack;
            while stack != EMPTY {
                self.chain.push(stack);
                stack = self.cells[stack as usize].below;
            }
            for old in self.chain.iter().rev() {
                let cell = Cell { below: stack, ..self.cells[*old as usize] };
                let known = self.settled.iter().position(|c| c.node == cell.node && c.below == cell.below);
                stack = known.unwrap_or_else(|| {
                    self.settled.push(cell);
                    self.settled.len() - 1
                }) as u32;
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
