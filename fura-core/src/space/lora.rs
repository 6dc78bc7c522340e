//! Low-rank adapters as a space.

use std::ops::Range;

use super::full::add;
use super::{Entry, Read, Space};
use crate::layout::Linear;
use crate::noise::Noise;

/// Which factors of a low-rank adapter are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factors {
    /// `A` and `B`. The weights are then quadratic in the coordinates: a perturbation of size `sigma` has a
    /// part of relative size `sigma sqrt(d_in)` that both twins share and that no difference cancels.
    Both,
    /// `B` alone, linear in the coordinates; `A` keeps its random start.
    B,
}

/// Low-rank adaptation, `W + (alpha / r) B (A_0 + A)` with `B` of shape `d_out x r` and `A` of `r x d_in`.
///
/// `A_0` is Gaussian with variance `1 / d_in`, a function of the seed, the linear's index and nothing
/// else. `B` and `A` are the coordinates; at zero nothing is added. A linear's coordinates are `A` by rows,
/// unless it is fixed, then `B` by rows. Source: Hu et al., arXiv 2106.09685.
#[derive(Debug, Clone)]
pub struct Lora {
    linears: Vec<Linear>,
    rank: usize,
    scale: f32,
    factors: Factors,
    /// `A_0` of each linear, by rows.
    starts: Vec<Vec<f32>>,
}

impl Lora {
    /// Adapters of rank `rank` (`r`, usually 16) with `alpha` (usually `2 r`) for each of `linears`.
    ///
    /// # Panics
    /// If `rank` is 0.
    pub fn new(linears: Vec<Linear>, rank: usize, alpha: f32, factors: Factors, seed: u64) -> Self {
        assert!(rank > 0, "an adapter has a rank of at least 1");
        let noise = Noise::new(seed);
        let starts = (0..).zip(&linears).map(|(l, linear)| {
            let mut start = vec![0.0; rank * linear.d_in];
            // No search tells the last generation, so its noise is free.
            noise.fill(u32::MAX, l, 0..start.len(), &mut start);
            let deviation = 1.0 / (linear.d_in as f32).sqrt();
            start.iter_mut().for_each(|a| *a *= deviation);
            start
        });
        let starts = starts.collect();
        Self { linears, rank, scale: alpha / rank as f32, factors, starts }
    }
}

impl Space for Lora {
    fn linears(&self) -> &[Linear] {
        &self.linears
    }

    fn coordinates(&self, linear: usize) -> usize {
        let Linear { d_out, d_in, .. } = self.linears[linear];
        match self.factors {
            Factors::Both => self.rank * (d_in + d_out),
            Factors::B => self.rank * d_out,
        }
    }

    fn entry(&self) -> Entry {
        Entry::Weight
    }

    fn transform(&self, _: usize, _: Read<'_>, _: &[f32], _: &mut [f32], _: &mut Vec<f32>) {
        panic!("low-rank adapters change weights, not inputs");
    }

    fn perturb(
        &self,
        linear: usize,
        read: Read<'_>,
        rows: Range<usize>,
        w: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        let (d_in, r) = (self.linears[linear].d_in, self.rank);
        assert_eq!(w.len(), rows.len() * d_in, "weights of {} rows", rows.len());
        let start = &self.starts[linear];
        scratch.clear();
        scratch.resize(r * d_in + r + d_in, 0.0);
        let (a, rest) = scratch.split_at_mut(r * d_in);
        let (b, change) = rest.split_at_mut(r);
        let skip = match self.factors {
            Factors::Both => {
                read(0..r * d_in, a);
                a.iter_mut().zip(start).for_each(|(a, start)| *a += start);
                r * d_in
            }
            Factors::B => {
                a.copy_from_slice(start);
                0
            }
        };
        for (row, w) in rows.zip(w.chunks_exact_mut(d_in)) {
            read(skip + row * r..skip + (row + 1) * r, b);
            change.fill(0.0);
            for (&b, a) in b.iter().zip(a.chunks_exact(d_in)) {
                change.iter_mut().zip(a).for_each(|(sum, a)| *sum += b * a);
            }
            w.iter_mut().zip(change.iter()).for_each(|(w, c)| add(w, self.scale * c));
        }
    }
}
