//! Threads that stay awake for a pass.
//!
//! Threads that pass few rows meet a hundred times within milliseconds. A worker of rayon without work soon sleeps, and waking
//! it takes the kernel ten microseconds or more; one that looks for work all the while begins it in a fraction of one.

use rayon::Yield;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a pass waits for threads that may be busy with something else.
const PATIENCE: Duration = Duration::from_micros(100);

/// Does `job` while up to so many `others` of the pool's threads look for work without a pause.
pub(crate) fn keep_awake(others: usize, job: &mut (dyn FnMut() + Send)) {
    if others == 0 {
        return job();
    }
    let watch = Watch::default();
    watch.call(others, &mut || {
        let _end = End(&watch);
        let start = Instant::now();
        while watch.arrived.load(Ordering::Relaxed) < others && start.elapsed() < PATIENCE {
            spin_loop();
        }
        watch.begun.store(true, Ordering::Release);
        job();
    });
}

#[derive(Default)]
struct Watch {
    arrived: AtomicUsize,
    begun: AtomicBool,
    over: AtomicBool,
}

impl Watch {
    /// Asks so many threads to stay, and does `job`.
    fn call(&self, others: usize, job: &mut (dyn FnMut() + Send)) {
        match others {
            0 => job(),
            _ => {
                rayon::join(|| self.call(others - 1, job), || self.stay());
            }
        }
    }

    /// Looks for work until the job is over. A thread that was not there when it began goes: it may be one that waits, within
    /// the job, for another's part of it, and would never return.
    fn stay(&self) {
        if self.begun.load(Ordering::Acquire) {
            return;
        }
        self.arrived.fetch_add(1, Ordering::Relaxed);
        // One that looked for work already would also take the others' calls.
        while !self.begun.load(Ordering::Acquire) {
            spin_loop();
        }
        while !self.over.load(Ordering::Acquire) {
            if rayon::yield_now() != Some(Yield::Executed) {
                spin_loop();
            }
        }
    }
}

/// Lets the others go, also when the job panics.
struct End<'a>(&'a Watch);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.begun.store(true, Ordering::Release);
        self.0.over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(n: u64) -> u64 {
        match n {
            0..2 => n,
            _ => {
                let (a, b) = rayon::join(|| sum(n / 2), || sum(n - n / 2));
                a + b
            }
        }
    }

    /// Jobs that split themselves, several at once on one pool, on more threads than there are processors.
    #[test]
    fn jobs_end_whatever_the_threads_do() {
        for threads in 1..6 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut sums = [0; 3];
            pool.install(|| {
                rayon::scope(|scope| {
                    for s in &mut sums {
                        scope.spawn(move |_| {
                            for n in 0..200 {
                                keep_awake(rayon::current_num_threads() - 1, &mut || *s += sum(n));
                            }
                        });
                    }
                });
            });
            assert_eq!(sums, [(0..200).sum::<u64>(); 3]);
        }
    }

    #[test]
    fn a_panic_lets_the_others_go() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let job = || pool.install(|| keep_awake(2, &mut || panic!("as asked")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err());
        assert_eq!(pool.install(|| sum(100)), 100);
    }
}
