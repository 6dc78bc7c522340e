//! Counter-addressed Gaussian noise: any stretch of any member's perturbation, on its own.
//!
//! Evolution strategies never store a perturbation. It is generated again wherever it is
//! needed: once per linear while a member is evaluated, once more for the update, and once more by
//! whoever replays a run log. So a noise value is a pure function of
//! `(run seed, generation, pair, coordinate)`, computed with operations that give the same
//! bits on every machine.
//!
//! # The scheme, byte for byte
//! 1. `key` = BLAKE3 `derive_key` with context `"fura 2026 noise v1 chacha8 box-muller"` over the
//!    run seed as 8 little-endian bytes.
//! 2. The words are the ChaCha8 key stream (64-bit block counter, 64-bit stream) of `key` with
//!    `stream = generation << 32 | pair`, read as little-endian `u32`s and numbered from 0.
//! 3. Coordinates `2j` and `2j + 1` of the flat layout use words `a = word[2j]` and
//!    `b = word[2j + 1]`, both exact in `f64`:
//!    `u = (a + 1) / 2^32`, `theta = 2 pi (b / 2^32)`, `r = sqrt(-2 ln u)`;
//!    `e[2j] = r cos theta`, `e[2j + 1] = r sin theta`, each rounded once to `f32`.
//! 4. `ln` and `sin`/`cos` are those of the `libm` crate (a port of musl's, plain `f64`
//!    operations), never the platform's.
//!
//! Nothing is rejected, so positions never shift. The address space of a member is the whole
//! flat vector: two linears of equal shape never share noise, nor do two pairs or generations.
//! Since `u >= 2^-32`, `|e| <= 6.661`.

use std::f64::consts::TAU;
use std::ops::Range;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// The noise of one run, a function of its seed.
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
#[derive(Clone)]
pub struct Noise {
    key: [u8; 32],
}

impl std::fmt::Debug for Noise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Noise").finish_non_exhaustive()
    }
}

impl Noise {
    /// Noise for a run with this seed.
    pub fn new(seed: u64) -> Self {
        Self { key: blake3::derive_key("fura 2026 noise v1 chacha8 box-muller", &seed.to_le_bytes()) }
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
        let mut rng = ChaCha8Rng::from_seed(self.key);
        rng.set_stream(u64::from(generation) << 32 | u64::from(pair));
        rng.set_word_pos((range.start & !1) as u128);
        let mut out = out;
        if range.start % 2 == 1 {
            // The range begins on the second half of a couple.
            out[0] = couple(&mut rng).1;
            out = &mut out[1..];
        }
        let (couples, tail) = out.as_chunks_mut::<2>();
        for [first, second] in couples {
            (*first, *second) = couple(&mut rng);
        }
        if let [last] = tail {
            *last = couple(&mut rng).0;
        }
    }
}

/// Box-Muller on the next two words.
fn couple(rng: &mut ChaCha8Rng) -> (f32, f32) {
    const UNIT: f64 = 1.0 / 4_294_967_296.0;
    let u = (f64::from(rng.next_u32()) + 1.0) * UNIT;
    let theta = TAU * (f64::from(rng.next_u32()) * UNIT);
    let r = (-2.0 * libm::log(u)).sqrt();
    let (sin, cos) = libm::sincos(theta);
    ((r * cos) as f32, (r * sin) as f32)
}
