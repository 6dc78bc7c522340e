//! The blocks of one linear as a queue that any number of the caller's threads work through.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{BlockSpectrum, Decomposer, LinearSpectrum, SpectrumError, check_size};
use crate::layout::column_blocks;

/// The spectra of one linear, computed by as many threads as the caller has.
///
/// This crate spawns no threads and knows no pool. Every thread that calls [`work`](Self::work), from whatever
/// pool, takes blocks until none is left; [`finish`](Self::finish) puts them together. The result is that of
/// [`Decomposer::decompose_columns`], bit for bit, for any number of threads.
///
/// ```
/// use fura_core::spectrum::{BlockQueue, Decomposer};
/// use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
///
/// let (d_out, d_in, block) = (6, 10, 4);
/// let w: Vec<f32> = (0..60).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
/// let fetch = |columns: std::ops::Range<usize>, out: &mut [f32]| {
///     let rows = w.chunks_exact(d_in).flat_map(|row| &row[columns.clone()]);
///     out.iter_mut().zip(rows).for_each(|(out, w)| *out = *w);
/// };
/// let queue = BlockQueue::new(d_out, d_in, block, &fetch)?;
/// let (cancel, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
/// let progress = |_done: usize, _of: usize| { calls.fetch_add(1, Ordering::Relaxed); };
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| queue.work(&mut Decomposer::default(), &progress, &cancel));
///     }
/// });
/// assert_eq!(calls.into_inner(), 3);
/// assert_eq!(queue.finish()?, Decomposer::default().decompose_linear(&w, d_out, d_in, block)?);
/// # Ok::<(), fura_core::spectrum::SpectrumError>(())
/// ```
pub struct BlockQueue<'a> {
    d_out: usize,
    d_in: usize,
    block: usize,
    fetch: &'a (dyn Fn(Range<usize>, &mut [f32]) + Sync),
    next: AtomicUsize,
    done: AtomicUsize,
    results: Vec<OnceLock<Result<BlockSpectrum, SpectrumError>>>,
}

impl std::fmt::Debug for BlockQueue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("BlockQueue").field("d_out", &self.d_out).field("d_in", &self.d_in))
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

impl<'a> BlockQueue<'a> {
    /// The blocks of a `d_out x d_in` linear. `fetch(columns, out)` writes the dequantized row-major
    /// `d_out x columns.len()` block; it is called once for each block, from any of the threads.
    ///
    /// # Errors
    /// [`SpectrumError::BadSize`].
    pub fn new(
        d_out: usize,
        d_in: usize,
        block: usize,
        fetch: &'a (dyn Fn(Range<usize>, &mut [f32]) + Sync),
    ) -> Result<Self, SpectrumError> {
        check_size(d_out, d_in, block)?;
        let results = column_blocks(d_in, block).map(|_| OnceLock::new()).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Self { d_out, d_in, block, fetch, next, done, results })
    }

    /// Decomposes blocks until none is left or `cancel` is set, which is looked at before each block. After each,
    /// `progress` is called with blocks done and blocks in all.
    pub fn work(
        &self,
        decomposer: &mut Decomposer,
        progress: &(dyn Fn(usize, usize) + Sync),
        cancel: &AtomicBool,
    ) {
        while !cancel.load(Ordering::Relaxed) {
            let k = self.next.fetch_add(1, Ordering::Relaxed);
            // The counter runs past the end once for each thread.
            let Some(columns) = column_blocks(self.d_in, self.block).nth(k) else { return };
            let result = decomposer.decompose_fetched(self.d_out, columns, |c, out| (self.fetch)(c, out));
            // Nobody else was given block `k`.
            let _ = self.results[k].set(result);
            progress(self.done.fetch_add(1, Ordering::Relaxed) + 1, self.results.len());
        }
    }

    /// The spectra, blocks in order.
    ///
    /// # Errors
    /// The first failing block's error in column order; [`SpectrumError::Cancelled`] if blocks are left.
    pub fn finish(self) -> Result<LinearSpectrum, SpectrumError> {
        let blocks = self.results.len();
        let mut spectrum = LinearSpectrum {
            block: self.block.min(self.d_in),
            v: Vec::with_capacity(check_size(self.d_out, self.d_in, self.block)?),
            s: Vec::with_capacity(self.d_in),
        };
        for (done, result) in self.results.into_iter().enumerate() {
            let Some(result) = result.into_inner() else {
                return Err(SpectrumError::Cancelled { done, blocks });
            };
            let block = result?;
            spectrum.v.extend(block.v);
            spectrum.s.extend(block.s);
        }
        Ok(spectrum)
    }
}
