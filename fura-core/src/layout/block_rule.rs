//! How wide the column blocks of a linear are.

use super::{LayoutError, Linear};

/// The rule that gives a linear its block size.
///
/// The number of coordinates is `d_in` under every rule; block size moves the cost of the transform and of the
/// spectra, and the size of `V`.
///
/// | rule | blocks | what it is |
/// |---|---|---|
/// | `Size(1)` | `d_in` | channel scaling (`V` is 1) |
/// | `Size(32)` | `d_in / 32` | the default: the quantization group |
/// | `FactorPair` | about `sqrt(d_in)` | the layout of FuRA (Y. Zhao et al., arXiv 2605.22869) |
/// | `Heads(h)` | `h` | one block for each attention head, for the output projection |
/// | `Size(d_in)` | 1 | SVF: scaling the singular values of the whole matrix |
///
/// ```
/// use fura_core::layout::{BlockRule, Linear};
/// let down = Linear::new("down", 4096, 14336);
/// assert_eq!(BlockRule::Size(64).block(&down)?, 64);
/// assert_eq!(BlockRule::FactorPair.block(&down)?, 128); // 112 blocks of 128
/// let output = Linear::new("o", 4096, 4096);
/// assert_eq!(BlockRule::Heads(32).block(&output)?, 128);
/// # Ok::<(), fura_core::layout::LayoutError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRule {
    /// Blocks of this many channels; the last one is shorter where it does not divide `d_in`.
    Size(usize),
    /// `n` blocks of `b` channels with `n b = d_in`, `n <= b`, and `n` the largest divisor for which that holds.
    /// (A prime `d_in` has one block.)
    FactorPair,
    /// As many equal blocks as there are heads; `d_in` must be a multiple of it.
    Heads(usize),
}

impl BlockRule {
    /// Block size of `linear`, at least 1.
    ///
    /// # Errors
    /// A size of 0; heads that do not divide `d_in`; a linear without inputs.
    pub fn block(self, linear: &Linear) -> Result<usize, LayoutError> {
        let Linear { name, d_in, d_out } = linear;
        let (d_in, d_out) = (*d_in, *d_out);
        if d_in == 0 {
            return Err(LayoutError::ZeroSize { name: name.clone(), d_out, d_in });
        }
        match self {
            Self::Size(0) => Err(LayoutError::ZeroBlock),
            Self::Size(size) => Ok(size),
            // 1 divides everything, so there is a divisor.
            Self::FactorPair => {
                Ok(d_in / (1..=d_in.isqrt()).rev().find(|n| d_in.is_multiple_of(*n)).unwrap_or(1))
            }
            Self::Heads(heads) if heads > 0 && d_in.is_multiple_of(heads) => Ok(d_in / heads),
            Self::Heads(heads) => Err(LayoutError::Heads { name: name.clone(), heads, d_in }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(rule: BlockRule, d_in: usize) -> Result<usize, LayoutError> {
        rule.block(&Linear::new("l", 1, d_in))
    }

    /// The pairs that FuRA's published layouts have for the widths of Llama, Qwen and SmolLM2 models.
    #[test]
    fn factor_pairs_of_known_models() {
        for (d_in, n, b) in [
            (576, 24, 24),
            (896, 28, 32),
            (1024, 32, 32),
            (1536, 32, 48),
            (2048, 32, 64),
            (2560, 40, 64),
            (3072, 48, 64),
            (3584, 56, 64),
            (4096, 64, 64),
            (4864, 64, 76),
            (6144, 64, 96),
            (8192, 64, 128),
            (8960, 80, 112),
            (9728, 76, 128),
            (11008, 86, 128),
            (12288, 96, 128),
            (14336, 112, 128),
            (18944, 128, 148),
        ] {
            assert_eq!((block(BlockRule::FactorPair, d_in), n * b), (Ok(b), d_in));
        }
    }

    proptest! {
        #[test]
        fn a_factor_pair_is_the_closest(d_in in 1usize..5000) {
            let b = block(BlockRule::FactorPair, d_in).unwrap();
            let n = d_in / b;
            prop_assert!(n * b == d_in && n <= b);
            prop_assert!((n + 1..=d_in.isqrt()).all(|closer| d_in % closer != 0));
        }

        #[test]
        fn heads_cut_evenly_or_not_at_all(d_in in 1usize..500, heads in 0usize..40) {
            match block(BlockRule::Heads(heads), d_in) {
                Ok(b) => prop_assert_eq!(b * heads, d_in),
                Err(error) => {
                    prop_assert!(heads == 0 || d_in % heads != 0);
                    prop_assert_eq!(error, LayoutError::Heads { name: "l".to_owned(), heads, d_in });
                }
            }
        }
    }

    #[test]
    fn refuses_empty_blocks_and_linears() {
        assert_eq!(block(BlockRule::Size(0), 4), Err(LayoutError::ZeroBlock));
        for rule in [BlockRule::Size(1), BlockRule::FactorPair, BlockRule::Heads(1)] {
            assert!(matches!(block(rule, 0), Err(LayoutError::ZeroSize { .. })));
        }
    }
}
