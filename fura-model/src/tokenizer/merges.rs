//! Merging byte pairs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The merge table: which two adjacent tokens become which, and in what order.
#[derive(Debug, Clone, Default)]
pub(super) struct Merges {
    /// (left, right) to (rank, merged).
    table: HashMap<(u32, u32), (u32, u32)>,
}

/// Working memory of [`Merges::apply`], reusable between pieces.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    symbols: Vec<Symbol>,
    /// Rank and left symbol of pairs that may still be mergeable, lowest rank first, then leftmost.
    queue: BinaryHeap<Reverse<(u32, usize)>>,
}

/// A token in a doubly linked list; `usize::MAX` ends it.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    id: u32,
    prev: usize,
    next: usize,
    alive: bool,
}

impl Merges {
    /// Adds a merge; of two merges of the same pair the first, which has the lower rank, stays.
    pub(super) fn insert(&mut self, pair: (u32, u32), rank: u32, merged: u32) {
        self.table.entry(pair).or_insert((rank, merged));
    }

    /// Merges `ids` until no pair is in the table, lowest rank first and leftmost among equals, and
    /// appends the result to `out`. Takes O(n log n) steps.
    pub(super) fn apply(&self, ids: impl Iterator<Item = u32>, work: &mut Workspace, out: &mut Vec<u32>) {
        let Workspace { symbols, queue } = work;
        symbols.clear();
        queue.clear();
        symbols.extend(ids.enumerate().map(|(i, id)| Symbol {
            id,
            prev: i.wrapping_sub(1),
            next: i + 1,
            alive: true,
        }));
        let Some(last) = symbols.last_mut() else { return };
        last.next = usize::MAX;
        for left in 0..symbols.len() {
            if let Some((rank, _)) = self.pair(symbols, left) {
                queue.push(Reverse((rank, left)));
            }
        }
        while let Some(Reverse((rank, left))) = queue.pop() {
            // An entry is out of date if either symbol has changed since: then the pair that starts at
            // `left` has another rank or none. Ranks name pairs uniquely.
            let Some((current, merged)) = self.pair(symbols, left) else { continue };
            if current != rank {
                continue;
            }
            let right = symbols[left].next;
            let next = symbols[right].next;
            symbols[right].alive = false;
            symbols[left].id = merged;
            symbols[left].next = next;
            if let Some(symbol) = symbols.get_mut(next) {
                symbol.prev = left;
            }
            for start in [symbols[left].prev, left] {
                if let Some((rank, _)) = self.pair(symbols, start) {
                    queue.push(Reverse((rank, start)));
                }
            }
        }
        out.extend(symbols.iter().filter(|symbol| symbol.alive).map(|symbol| symbol.id));
    }

    /// Rank and result of merging the symbol at `left`, if it is alive, with the one after it.
    fn pair(&self, symbols: &[Symbol], left: usize) -> Option<(u32, u32)> {
        let a = symbols.get(left).filter(|symbol| symbol.alive)?;
        let b = symbols.get(a.next)?;
        self.table.get(&(a.id, b.id)).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: scan for the lowest-ranked leftmost pair, merge it, start again.
    fn by_definition(merges: &Merges, mut ids: Vec<u32>) -> Vec<u32> {
        loop {
            let best = (0..ids.len().saturating_sub(1))
                .filter_map(|i| merges.table.get(&(ids[i], ids[i + 1])).map(|&(rank, id)| (rank, i, id)))
                .min();
            let Some((_, i, id)) = best else { return ids };
            ids[i] = id;
            ids.remove(i + 1);
        }
    }

    fn apply(merges: &Merges, ids: &[u32]) -> Vec<u32> {
        let mut out = Vec::new();
        merges.apply(ids.iter().copied(), &mut Workspace::default(), &mut out);
        out
    }

    #[test]
    fn lower_rank_wins_over_position() {
        let mut merges = Merges::default();
        merges.insert((2, 3), 0, 10);
        merges.insert((1, 2), 1, 11);
        assert_eq!(apply(&merges, &[1, 2, 3]), [1, 10]);
        assert_eq!(apply(&merges, &[1, 2, 2, 3]), [11, 10]);
    }

    #[test]
    fn leftmost_wins_among_equals() {
        let mut merges = Merges::default();
        merges.insert((1, 1), 0, 2);
        assert_eq!(apply(&merges, &[1, 1, 1]), [2, 1]);
    }

    #[test]
    fn first_of_two_merges_of_a_pair_stays() {
        let mut merges = Merges::default();
        merges.insert((1, 1), 0, 2);
        merges.insert((1, 1), 1, 3);
        assert_eq!(apply(&merges, &[1, 1]), [2]);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(apply(&Merges::default(), &[]).is_empty());
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            pairs in prop::collection::vec((0_u32..8, 0_u32..8), 0..12),
            ids in prop::collection::vec(0_u32..4, 0..40),
        ) {
            let mut merges = Merges::default();
            for (rank, pair) in (0..).zip(pairs) {
                merges.insert(pair, rank, 4 + rank % 4);
            }
            prop_assert_eq!(apply(&merges, &ids), by_definition(&merges, ids));
        }
    }
}
