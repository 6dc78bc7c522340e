//! Texts after a prompt as a tree of tokens.

use fura_simd::attention::Span;
use std::collections::BTreeMap;

/// Nodes in the order they were made; node `i` lies in row `i` after the prompt's.
#[derive(Clone, Debug)]
pub(super) struct TextTree {
    parents: Vec<Option<usize>>,
    children: BTreeMap<(Option<usize>, u32), usize>,
    capacity: usize,
}

impl TextTree {
    /// Room for so many nodes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { parents: Vec::with_capacity(capacity), children: BTreeMap::new(), capacity }
    }

    pub(super) fn clear(&mut self) {
        self.parents.clear();
        self.children.clear();
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    /// Nodes that there is still room for.
    pub(super) fn free(&self) -> usize {
        self.capacity - self.parents.len()
    }

    /// The node of a token after a node, or after the prompt, and whether it is new.
    pub(super) fn child(&mut self, parent: Option<usize>, token: u32) -> (usize, bool) {
        let new = self.parents.len();
        let node = *self.children.entry((parent, token)).or_insert(new);
        if node == new {
            self.parents.push(parent);
        }
        (node, node == new)
    }

    /// The rows of the prompt and of the nodes up to and including `node`, in order.
    pub(super) fn past(&self, node: Option<usize>, prompt: usize, spans: &mut Vec<Span>) {
        spans.clear();
        let mut at = node;
        while let Some(node) = at {
            let row = prompt + node;
            match spans.last_mut() {
                // Spans grow from their end towards the root.
                Some(span) if span.first == row + 1 => *span = Span { first: row, len: span.len + 1 },
                _ => spans.push(Span { first: row, len: 1 }),
            }
            at = self.parents[node];
        }
        match spans.last_mut() {
            Some(span) if span.first == prompt => *span = Span { first: 0, len: prompt + span.len },
            _ => spans.push(Span { first: 0, len: prompt }),
        }
        spans.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_node_and_the_past_is_the_way_to_it() {
        let mut tree = TextTree::with_capacity(8);
        let (a, new) = tree.child(None, 7);
        assert!(new && tree.child(None, 7) == (a, false));
        let (b, _) = tree.child(None, 8);
        let (aa, _) = tree.child(Some(a), 7);
        let (ab, _) = tree.child(Some(a), 8);
        let (aaa, _) = tree.child(Some(aa), 7);
        assert_eq!((tree.len(), tree.free()), (5, 3));
        let past = |node| {
            let mut spans = Vec::new();
            tree.past(node, 10, &mut spans);
            spans.iter().flat_map(|s| s.first..s.first + s.len).collect::<Vec<usize>>()
        };
        let prompt: Vec<usize> = (0..10).collect();
        let with = |rows: &[usize]| [&prompt[..], rows].concat();
        assert_eq!(past(None), prompt);
        assert_eq!(past(Some(b)), with(&[11]));
        assert_eq!(past(Some(ab)), with(&[10, 13]));
        assert_eq!(past(Some(aaa)), with(&[10, 12, 14]));
    }
}
