//! Instruction-set detection: which kernels this CPU may run, and which were asked for.

use std::fmt;

/// An instruction-set tier. Kernels of every tier give the same bits (contract C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Plain Rust, the specification every other tier is tested against.
    Scalar,
    /// ARM64 baseline vectors (128-bit).
    Neon,
    /// ARM64 with the 8-bit dot product, `FEAT_DotProd` (128-bit).
    NeonDot,
    /// ARM64 with the 8-bit dot product and the 8-bit matrix product, `FEAT_I8MM` (128-bit).
    NeonI8mm,
    /// x86-64 with AVX2, FMA and F16C (256-bit).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI (512-bit).
    Avx512,
}

impl Tier {
    /// All tiers, slowest first.
    pub const ALL: [Tier; 6] =
        [Tier::Scalar, Tier::Neon, Tier::NeonDot, Tier::NeonI8mm, Tier::Avx2, Tier::Avx512];

    /// The name understood by [`Isa::named`], for example `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Scalar => "scalar",
            Tier::Neon => "neon",
            Tier::NeonDot => "dotprod",
            Tier::NeonI8mm => "i8mm",
            Tier::Avx2 => "avx2",
            Tier::Avx512 => "avx512",
        }
    }

    fn is_available(self) -> bool {
        match self {
            Tier::Scalar => true,
            #[cfg(target_arch = "aarch64")]
            Tier::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "aarch64")]
            Tier::NeonDot => Tier::Neon.is_available() && std::arch::is_aarch64_feature_detected!("dotprod"),
            #[cfg(target_arch = "aarch64")]
            Tier::NeonI8mm => Tier::NeonDot.is_available() && std::arch::is_aarch64_feature_detected!("i8mm"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_of_this_cpu_start_with_scalar_ascend_and_are_found_by_name() {
        let tiers: Vec<Tier> = Isa::available().map(Isa::tier).collect();
        // With --nocapture this reports which tiers the other tests covered.
        println!("tiers: {}", tiers.iter().map(|t| t.name()).collect::<Vec<_>>().join(" "));
        assert_eq!(tiers[0], Tier::Scalar);
        assert!(tiers.is_sorted_by(|a, b| a < b));
        assert_eq!(Isa::detect().tier(), *tiers.last().unwrap());
        for tier in Tier::ALL {
            assert_eq!(Isa::named(tier.name()).is_ok(), tiers.contains(&tier), "{tier}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_what_works() {
        let error = Isa::named("sse9").unwrap_err();
        assert_eq!(error.asked, "sse9");
        assert!(error.available.split(", ").eq(Isa::available().map(|isa| isa.tier().name())));
    }
}
