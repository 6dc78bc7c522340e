//! The order of what is on the screens.

use super::app::App;
use crate::random::Stream;

/// Layouts of training; the others up to [`ALL`] are never trained on.
pub(super) const TRAINED: u32 = 64;
pub(super) const ALL: u32 = 128;

/// Elements on a screen, by default and in the layouts that are never trained on.
const PAGE: u8 = 8;
const UNSEEN_PAGE: u8 = 6;

/// The stream of layouts: far from those of tasks.
const STREAM: u64 = 1 << 50;

/// The order of icons and menus, and how many elements a screen shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) home: [App; 12],
    ranks: [u8; 24],
    pub(super) page: u8,
}

impl Layout {
    /// The layout of a number below [`ALL`].
    pub(super) fn new(number: u32) -> Self {
        let mut stream = Stream::new(u64::from(number), STREAM);
        let mut home = App::ALL;
        stream.shuffle(&mut home);
        let mut ranks = std::array::from_fn(|i| i as u8);
        stream.shuffle(&mut ranks);
        Self { home, ranks, page: if number < TRAINED { PAGE } else { UNSEEN_PAGE } }
    }

    /// The rank of the element with this number in its menu.
    pub(super) fn rank(&self, element: u8) -> u8 {
        self.ranks[usize::from(element) % self.ranks.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_layouts_differ_in_the_order_of_the_home_screen() {
        let all: HashSet<_> = (0..ALL).map(|n| Layout::new(n).home).collect();
        assert_eq!(all.len(), ALL as usize);
    }
}
