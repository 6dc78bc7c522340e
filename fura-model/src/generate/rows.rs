//! Who has which rows of the cache.

use fura_simd::attention::Span;

/// Free rows, as spans in ascending order that do not touch.
#[derive(Clone, Debug)]
pub(super) struct FreeRows {
    spans: Vec<Span>,
}

impl FreeRows {
    pub(super) fn new(rows: usize) -> Self {
        Self { spans: vec![Span { first: 0, len: rows }] }
    }

    /// Takes `len` consecutive rows, if there are any.
    pub(super) fn take(&mut self, len: usize) -> Option<Span> {
        if len == 0 {
            return Some(Span { first: 0, len: 0 });
        }
        let i = self.spans.iter().position(|s| s.len >= len)?;
        let span = &mut self.spans[i];
        let taken = Span { first: span.first, len };
        span.first += len;
        span.len -= len;
        if span.len == 0 {
            self.spans.remove(i);
        }
        Some(taken)
    }

    /// Gives rows back.
    pub(super) fn give(&mut self, span: Span) {
        if span.len == 0 {
            return;
        }
        let i = self.spans.partition_point(|s| s.first < span.first);
        self.spans.insert(i, span);
        if i + 1 < self.spans.len() && span.first + span.len == self.spans[i + 1].first {
            self.spans[i].len += self.spans[i + 1].len;
            self.spans.remove(i + 1);
        }
        if i > 0 && self.spans[i - 1].first + self.spans[i - 1].len == self.spans[i].first {
            self.spans[i - 1].len += self.spans[i].len;
            self.spans.remove(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_one_and_come_back_whole() {
        let mut free = FreeRows::new(100);
        let mut taken: Vec<Span> = Vec::new();
        let mut x = 1u32;
        for _ in 0..5000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if x >> 31 == 0 {
                if let Some(span) = free.take((x >> 8) as usize % 20) {
                    taken.push(span);
                }
            } else if !taken.is_empty() {
                free.give(taken.swap_remove((x >> 8) as usize % taken.len()));
            }
            let mut owners = [0; 100];
            for s in free.spans.iter().chain(&taken) {
                owners[s.first..s.first + s.len].iter_mut().for_each(|o| *o += 1);
            }
            assert_eq!(owners, [1; 100]);
        }
        taken.into_iter().for_each(|s| free.give(s));
        assert_eq!(free.spans, [Span { first: 0, len: 100 }]);
    }
}
