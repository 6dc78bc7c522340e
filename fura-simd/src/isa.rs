//! Instruction-set detection: which kernels this CPU may run, and which were asked for.

use std::fmt;

/// An instruction-set tier. Kernels of every tier give the same bits (contract C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Plain Rust, the specification every other tier is tested against.
    Scalar,
    /// ARM64 baseline vectors (128-bit).
    Neon,
    /// x86-64 with AVX2, FMA and F16C (256-bit).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI (512-bit).
    Avx512,
}

impl Tier {
    /// All tiers, slowest first.
    pub const ALL: [Tier; 4] = [Tier::Scalar, Tier::Neon, Tier::Avx2, Tier::Avx512];

    /// The name understood by [`Isa::named`], for example `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Scalar => "scalar",
            Tier::Neon => "neon",
            Tier::Avx2 => "avx2",
            Tier::Avx512 => "avx512",
        }
    }

    fn is_available(self) -> bool {
        match self {
            Tier::Scalar => true,
            #[cfg(target_arch = "aarch64")]
            Tier::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => {
                Tier::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Proof that this CPU can run a tier's kernels: a value exists only if detection said so.
///
/// It is the size of a byte and is passed down to whoever runs kernels; nothing is global.
///
/// ```
/// use fura_simd::{Isa, Tier};
/// let best = Isa::detect();
/// assert!(Isa::available().any(|isa| isa == best));
/// assert_eq!(Isa::named("scalar").unwrap().tier(), Tier::Scalar);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Tier);

/// A tier was asked for that does not exist or that this CPU lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction set '{asked}' cannot run here; this CPU has: {available}")]
#[non_exhaustive]
pub struct UnknownTier {
    /// The name that was asked for.
    pub asked: String,
    /// The names that would work, separated by commas.
    pub available: String,
}

impl Isa {
    /// The fastest tier this CPU supports.
    pub fn detect() -> Isa {
        Isa::available().last().unwrap_or(Isa(Tier::Scalar))
    }

    /// The plain Rust tier, which runs everywhere.
    pub fn scalar() -> Isa {
        Isa(Tier::Scalar)
    }

    /// Every tier this CPU supports, slowest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Tier::ALL.into_iter().filter(|t| t.is_available()).map(Isa)
    }

    /// The tier of that name.
    ///
    /// # Errors
    /// [`UnknownTier`] if there is no such tier or this CPU lacks it; the message lists what works.
    pub fn named(name: &str) -> Result<Isa, UnknownTier> {
        Isa::available().find(|isa| isa.0.name().eq_ignore_ascii_case(name)).ok_or_else(|| UnknownTier {
            asked: name.to_owned(),
            available: Isa::available().map(|i| i.0.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Which tier this is.
    pub fn tier(self) -> Tier {
        self.0
    }
}
