//! Rates of a kernel and of its limit, measured alternately so that both see the same machine.
//!
//! Seconds are those of processor time, not of the clock on the wall: a kernel that another program pushes aside for a
//! while is not slower for it. What is left of other programs' influence, the caches and the memory bandwidth they
//! take, hits kernel and limit alike.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The shortest time that one rate is measured over; the clock is far finer.
const SLICE: Duration = Duration::from_millis(20);

/// What one kernel reached, and what its limit reached beside it.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Median rate of the kernel, units a second.
    pub rate: f64,
    /// Median rate of the limit, units a second.
    pub limit: f64,
    /// Median over the rounds of the kernel's rate over the limit's of the same round.
    pub share: f64,
}

/// Runs `kernel` and `limit` by turns, `rounds` times each; both keep `threads` threads busy and return the units of
/// work they did.
///
/// # Panics
/// If `rounds` is 0.
pub fn interleaved(
    rounds: usize,
    threads: usize,
    mut kernel: impl FnMut() -> usize,
    mut limit: impl FnMut() -> usize,
) -> Share {
    assert!(rounds > 0);
    kernel();
    limit();
    let pairs: Vec<(f64, f64)> =
        (0..rounds).map(|_| (rate(threads, &mut kernel), rate(threads, &mut limit))).collect();
    Share {
        rate: median(pairs.iter().map(|(kernel, _)| *kernel)),
        limit: median(pairs.iter().map(|(_, limit)| *limit)),
        share: median(pairs.iter().map(|(kernel, limit)| kernel / limit)),
    }
}

/// Units a second over calls that take a slice together.
fn rate(threads: usize, run: &mut impl FnMut() -> usize) -> f64 {
    let start = processor_time();
    let mut done = 0;
    loop {
        done += run();
        let elapsed = (processor_time() - start) / threads as u32;
        if elapsed >= SLICE {
            return done as f64 / elapsed.as_secs_f64();
        }
    }
}

/// What all threads of this process have used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Neither part is negative, and the second is less than 10^9.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The middle value, or the mean of the middle two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 100.0].into_iter()), 3.0);
    }

    /// Each takes a whole slice, which one call fills here.
    #[test]
    fn kernel_and_limit_run_by_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        let run = |name| {
            order.borrow_mut().push(name);
            let start = processor_time();
            while processor_time() - start < SLICE {}
            1
        };
        let share = interleaved(3, 1, || run("kernel"), || run("limit"));
        assert_eq!(*order.borrow(), ["kernel", "limit"].repeat(4));
        // At least a slice for one unit.
        let most = 1.0 / SLICE.as_secs_f64();
        assert!(share.rate > 0.0 && share.rate <= most && share.limit > 0.0 && share.limit <= most);
    }
}
