//! What one core can do at most: streams of a tier's own instructions and nothing else.
//!
//! A kernel's rate is read as a share of these: of [`read`] where it waits for memory (one row), of [`integer`] where
//! it multiplies (many rows), of [`float`] for the input transform. Arithmetic runs on registers alone, in enough
//! independent chains to hide the latency of one; each result is fed back as an operand, so that nothing can be moved
//! out of the loop.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use fura_simd::{Isa, Tier};
use std::hint::black_box;

/// Chains of dependent instructions that run side by side: more than latency times throughput of any core known to
/// us, and with an operand they fit the 16 registers of AVX2.
const CHAINS: usize = 12;

/// Steps of every chain in one call.
const STEPS: usize = 10_000;

/// Reads `bytes` once with the tier's widest loads and returns how many were read. Bytes past the last whole 512 are
/// left out.
#[allow(unsafe_code)]
pub fn read(isa: Isa, bytes: &[u8]) -> usize {
    match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::read(bytes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::read(bytes) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon | Tier::NeonDot | Tier::NeonI8mm => unsafe { neon::read(bytes) },
        _ => read_words(bytes),
    };
    bytes.len() / 512 * 512
}

/// Runs the tier's integer multiply-adds, as its 4-bit kernels use them, and returns how many products were summed.
/// `None` for the scalar tier, whose instructions are the compiler's choice.
#[allow(unsafe_code)]
pub fn integer(isa: Isa) -> Option<usize> {
    let products = match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::integer(STEPS) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::integer(STEPS) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::NeonI8mm => unsafe { neon::i8mm(STEPS) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::NeonDot => unsafe { neon::dotprod(STEPS) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon => unsafe { neon::integer(STEPS) },
        _ => return None,
    };
    Some(products * CHAINS * STEPS)
}

/// Runs the tier's fused multiply-adds of f32 and returns how many there were, one a lane. `None` for the scalar tier.
#[allow(unsafe_code)]
pub fn float(isa: Isa) -> Option<usize> {
    let lanes = match isa.tier() {
        // SAFETY: an `Isa` of this tier exists only if detection found the features.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::float(STEPS) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::float(STEPS) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Tier::Neon | Tier::NeonDot | Tier::NeonI8mm => unsafe { neon::float(STEPS) },
        _ => return None,
    };
    Some(lanes * CHAINS * STEPS)
}

/// Defines `fn $name(steps)` that repeats `$step` on every one of the chains and returns `$work`, what one step of one
/// chain does.
macro_rules! chains {
    ($(#[$doc:meta])* $name:ident, $features:literal, $work:expr, $start:expr, $operand:expr, $step:path) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        pub(super) fn $name(steps: usize) -> usize {
            let mut chain = [$start; super::CHAINS];
            let operand = std::hint::black_box($operand);
            for _ in 0..steps {
                for c in &mut chain {
                    *c = $step(*c, operand);
                }
            }
            std::hint::black_box(chain);
            $work
        }
    };
}
use chains;

/// How far ahead of the loads lines are asked for, in bytes: further than memory is away, nearer than a first-level
/// cache is large.
const AHEAD: usize = 2048;

/// Defines `fn read(bytes)` that combines all loads of `$bytes` bytes with `$xor`, and asks for lines ahead.
macro_rules! stream {
    ($features:literal, $bytes:literal, $load:path, $zero:expr, $xor:path, $prefetch:path) => {
        #[target_feature(enable = $features)]
        pub(super) fn read(bytes: &[u8]) {
            let (chunks, _) = bytes.as_chunks::<512>();
            let mut sums = [$zero; 8];
            for chunk in chunks {
                for line in 0..8 {
                    $prefetch(chunk.as_ptr().wrapping_add(super::AHEAD + 64 * line));
                }
                let (parts, _) = chunk.as_chunks::<$bytes>();
                for (i, part) in parts.iter().enumerate() {
                    sums[i % 8] = $xor(sums[i % 8], $load(part));
                }
            }
            std::hint::black_box(sums);
        }
    };
}
use stream;

/// The scalar tier's.
fn read_words(bytes: &[u8]) {
    let (chunks, _) = bytes.as_chunks::<512>();
    let mut sums = [0u64; 8];
    for chunk in chunks {
        let (words, _) = chunk.as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            sums[i % 8] ^= u64::from_ne_bytes(*word);
        }
    }
    black_box(sums);
}
