//! Counter-addressed noise: any stretch of any member's perturbation, on its own.
//!
//! Evolution strategies never store a perturbation. It is generated again wherever it is
//! needed: once per linear while a member is evaluated, once more for the update, and once more by
//! whoever replays a run log. So a noise value is a pure function of
//! `(run seed, generation, pair, coordinate)`, computed with operations that give the same
//! bits on every machine.
//!
//! # Gaussian noise, byte for byte
//! 1. `key` = BLAKE3 `derive_key` with context `"fura 2026 noise v1 chacha8 box-muller"` over the
//!    run seed as 8 little-endian bytes.
//! 2. The words are the ChaCha8 key stream (64-bit block counter, 64-bit stream) of `key` with
//!    `stream = generation << 32 | pair`, read as little-endian `u32`s and numbered from 0.
//! 3. Coordinates `2j` and `2j + 1` of the flat layout use words `a = word[2j]` and
//!    `b = word[2j + 1]`, both exact in `f64`:
//!    `u = (a + 1) / 2^32`, `theta = 2 pi (b / 2^32)`, `r = sqrt(-2 ln u)`;
//!    `e[2j] = r cos theta`, `e[2j + 1] = r sin theta`, each rounded once to `f32`.
//! 4. `ln` and `sin`/`cos` are those of the `libm` crate (a port of musl's, plain `f64`
//!    operations), never the platform's; [`fura_simd::normal`] computes them side by side, with the same bits.
//!
//! Nothing is rejected, so positions never shift. The address space of a member is the whole
//! flat vector: two linears of equal shape never share noise, nor do two pairs or generations.
//! Since `u >= 2^-32`, `|e| <= 6.661`.
//!
//! # Rademacher noise, byte for byte
//! Words as above, with context `"fura 2026 noise v1 chacha8 rademacher"`. Coordinate `j` is `+1` if bit
//! `j mod 32` (0 the lowest) of `word[j div 32]` is set, else `-1`.

use std::ops::Range;

use fura_simd::Isa;
use fura_simd::normal::box_muller;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// Words that become noise together.
const WORDS: usize = 128;

/// Distribution of every single noise value. All have mean 0 and variance 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Distribution {
    /// Standard normal.
    #[default]
    Gaussian,
    /// `+1` or `-1`, equally likely: the same length for every perturbation, and cheaper.
    Rademacher,
}

/// The noise of one run, a function of its seed and distribution.
///
/// ```
/// use fura_core::noise::Noise;
/// let noise = Noise::new(7);
/// let mut whole = [0.0; 100];
/// noise.fill(3, 0, 0..100, &mut whole);
/// let mut part = [0.0; 9];
/// noise.fill(3, 0, 41..50, &mut part);
/// assert_eq!(part, whole[41..50]);
/// ```
#[derive(Debug, Clone)]
pub struct Noise {
    words: Words,
    distribution: Distribution,
    isa: Isa,
}

impl Noise {
    /// Gaussian noise for a run with this seed.
    pub fn new(seed: u64) -> Self {
        Self::with_distribution(seed, Distribution::Gaussian)
    }

    /// Noise of a given distribution for a run with this seed.
    pub fn with_distribution(seed: u64, distribution: Distribution) -> Self {
        let context = match distribution {
            Distribution::Gaussian => "fura 2026 noise v1 chacha8 box-muller",
            Distribution::Rademacher => "fura 2026 noise v1 chacha8 rademacher",
        };
        Self { words: Words::new(context, seed), distribution, isa: Isa::detect() }
    }

    /// The same noise, computed with the instructions of this tier instead of the best one.
    #[must_use]
    pub fn on(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// Writes the noise of `range` (flat coordinates) of a pair of a generation to `out`.
    ///
    /// Allocates nothing.
    ///
    /// # Panics
    /// If `out` and `range` differ in length.
    pub fn fill(&self, generation: u32, pair: u32, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(out.len(), range.len(), "noise output length");
        if range.is_empty() {
            return;
        }
        match self.distribution {
            Distribution::Gaussian => self.gaussian(generation, pair, range.start, out),
            Distribution::Rademacher => self.rademacher(generation, pair, range.start, out),
        }
    }

    fn gaussian(&self, generation: u32, pair: u32, start: usize, out: &mut [f32]) {
        let mut rng = self.words.at(generation, pair, start & !1);
        let mut out = out;
        if start % 2 == 1 {
            // The range begins on the second half of a couple.
            out[0] = self.couple(&mut rng)[1];
            out = &mut out[1..];
        }
        let (whole, last) = out.split_at_mut(out.len() & !1);
        for numbers in whole.chunks_mut(WORDS) {
            let mut words = [0; WORDS];
            let words = &mut words[..numbers.len()];
            words.fill_with(|| rng.next_u32());
            box_muller(self.isa, words, numbers);
        }
        if let [last] = last {
            *last = self.couple(&mut rng)[0];
        }
    }

    /// The noise of the next two words.
    fn couple(&self, rng: &mut ChaCha8Rng) -> [f32; 2] {
        let (words, mut couple) = ([rng.next_u32(), rng.next_u32()], [0.0; 2]);
        box_muller(self.isa, &words, &mut couple);
        couple
    }

    fn rademacher(&self, generation: u32, pair: u32, start: usize, out: &mut [f32]) {
        let mut rng = self.words.at(generation, pair, start / 32);
        let mut bit = start % 32;
        let mut word = rng.next_u32() >> bit;
        for e in out {
            if bit == 32 {
                (bit, word) = (0, rng.next_u32());
            }
            *e = if word & 1 == 1 { 1.0 } else { -1.0 };
            word >>= 1;
            bit += 1;
        }
    }
}

/// Key streams addressed by generation, pair and word.
#[derive(Clone)]
pub(crate) struct Words {
    key: [u8; 32],
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").finish_non_exhaustive()
    }
}

impl Words {
    /// The streams of `seed` under a context that no other use shares.
    pub(crate) fn new(context: &str, seed: u64) -> Self {
        Self { key: blake3::derive_key(context, &seed.to_le_bytes()) }
    }

    /// The stream of a pair of a generation, from its word number `start` on.
    pub(crate) fn at(&self, generation: u32, pair: u32, start: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::from_seed(self.key);
        rng.set_stream(u64::from(generation) << 32 | u64::from(pair));
        rng.set_word_pos(start as u128);
        rng
    }
}
