//! One thread's rows of a pass.
//!
//! A row's arithmetic needs other rows only through their keys and values. So between the points where those of all rows are
//! there, threads work on rows of their own from one linear to the next, and meet twice a layer instead of once a linear.

use crate::config::ModelConfig;
use crate::linear::Rows;
use crate::workspace::{Lane, Row};
use fura_quant::ROW_BLOCK;

/// Rows below which a cut between threads lies anywhere, and from which on between blocks of codes; in between it lies where
/// a kernel's pass ends.
const FEW: usize = 8;
const MANY: usize = 4 * ROW_BLOCK;
const PASS: usize = 4;

/// Consecutive rows with what belongs to them of every buffer of a pass.
pub(crate) struct Part<'w> {
    /// One for each thread that these rows may be split over.
    pub(crate) lanes: &'w mut [Lane],
    /// Threads that a product of these rows may be split over.
    pub(crate) threads: usize,
    /// The first row's index in the pass.
    pub(crate) first: usize,
    pub(crate) rows: &'w [Row],
    pub(crate) x: &'w mut [f32],
    pub(crate) h: &'w mut [f32],
    pub(crate) q: &'w mut [f32],
    pub(crate) k: &'w mut [f32],
    pub(crate) v: &'w mut [f32],
    pub(crate) attended: &'w mut [f32],
    pub(crate) gate: &'w mut [f32],
    pub(crate) up: &'w mut [f32],
}

impl Part<'_> {
    /// What a linear needs to know of these rows.
    pub(crate) fn linear_rows(&self) -> Rows {
        Rows { first: self.first, threads: if self.rows.len() == 1 { self.threads } else { 1 } }
    }

    /// Does `job` for all rows, on as many threads as there are lanes. Each gets rows of about the same `cost`. A single
    /// row stays on this thread.
    pub(crate) fn run(
        self,
        c: &ModelConfig,
        cost: &(impl Fn(&Row) -> usize + Sync),
        job: &(impl Fn(Part<'_>) + Sync),
    ) {
        if self.lanes.len() < 2 || self.rows.len() < 2 {
            return job(self);
        }
        let (left, right) = self.split(c, cost);
        rayon::join(|| left.run(c, cost, job), || right.run(c, cost, job));
    }

    fn split(self, c: &ModelConfig, cost: impl Fn(&Row) -> usize) -> (Self, Self) {
        let lanes = self.lanes.len() / 2;
        let at = cut(self.rows, cost, lanes, self.lanes.len());
        let (left_lanes, right_lanes) = self.lanes.split_at_mut(lanes);
        let (left_rows, right_rows) = self.rows.split_at(at);
        let [x, h, q, k, v, attended, gate, up] = [
            (self.x, c.d_model),
            (self.h, c.d_model),
            (self.q, c.d_query()),
            (self.k, c.d_kv()),
            (self.v, c.d_kv()),
            (self.attended, c.d_query()),
            (self.gate, c.d_ff),
            (self.up, c.d_ff),
        ]
        .map(|(buffer, width)| buffer.split_at_mut(at * width));
        let left = Self {
            lanes: left_lanes,
            threads: 1,
            first: self.first,
            rows: left_rows,
            x: x.0,
            h: h.0,
            q: q.0,
            k: k.0,
            v: v.0,
            attended: attended.0,
            gate: gate.0,
            up: up.0,
        };
        let right = Self {
            lanes: right_lanes,
            threads: 1,
            first: self.first + at,
            rows: right_rows,
            x: x.1,
            h: h.1,
            q: q.1,
            k: k.1,
            v: v.1,
            attended: attended.1,
            gate: gate.1,
            up: up.1,
        };
        (left, right)
    }
}

/// Where to cut at least two rows so that those before the cut cost about `left` of `all` parts; at least one is on each
/// side.
fn cut(rows: &[Row], cost: impl Fn(&Row) -> usize, left: usize, all: usize) -> usize {
    let n = rows.len();
    let share = rows.iter().map(&cost).sum::<usize>() / all * left;
    let mut sum = 0;
    let at = rows.iter().take_while(|row| {
        sum += cost(row);
        sum <= share
    });
    let unit = match n {
        _ if n < FEW => 1,
        _ if n < MANY => PASS,
        _ => ROW_BLOCK,
    };
    ((at.count() + unit / 2) / unit * unit).clamp(1, n - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_leave_both_sides_rows_and_share_the_cost() {
        for n in 2..300 {
            let rows: Vec<Row> =
                (0..n).map(|position| Row { position, store: position, sequence: 0 }).collect();
            for (left, all) in [(1, 2), (1, 3), (2, 4), (3, 7)] {
                for slope in [0, 1, 7] {
                    let cost = |r: &Row| 100 + slope * r.position;
                    let at = cut(&rows, cost, left, all);
                    assert!((1..n).contains(&at), "{n} rows, cut at {at}");
                    let of = |rows: &[Row]| rows.iter().map(cost).sum::<usize>();
                    let (got, share) = (of(&rows[..at]), of(&rows) * left / all);
                    // Within one unit of rows, and the rounding of the share.
                    let most = cost(&rows[n - 1]) * ROW_BLOCK;
                    assert!(got.abs_diff(share) <= most, "{n} rows, cut at {at}: {got} of {share}");
                }
            }
        }
    }
}
