//! A linear's weights as integer codes with a scale and a minimum for each group.

use crate::layout::Linear;

/// Why codes were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodesError {
    /// Not 1 to 8 bits, or groups of nothing.
    #[error(
        "codes of {linear:?}: {bits} bits in groups of {group}, expected 1 to 8 bits, groups of at least 1"
    )]
    Format {
        /// The linear.
        linear: String,
        /// Bits a code.
        bits: u32,
        /// Input channels a group.
        group: usize,
    },
    /// A slice of another length.
    #[error("codes of {linear:?}: {found} {what}, expected {expected}")]
    Length {
        /// The linear.
        linear: String,
        /// Codes, scales or minima.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A code beyond its bits.
    #[error("codes of {linear:?}: code {index} is {found}, expected at most {largest}")]
    Range {
        /// The linear.
        linear: String,
        /// Index of the code.
        index: usize,
        /// Its value.
        found: u8,
        /// The largest code.
        largest: u8,
    },
}

/// Integer codes `q` of a linear, row-major, and for each row and group of input channels a scale and a
/// minimum: the weight is `scale q + minimum`.
///
/// A symmetric format with weights `d (q - z)` has the minimum `-z d`.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    linear: Linear,
    largest: u8,
    group: usize,
    codes: Vec<u8>,
    scales: Vec<f32>,
    minima: Vec<f32>,
}

impl Codes {
    /// Codes of `bits` bits in groups of `group` input channels, the last group of a row shorter where
    /// `group` does not divide `d_in`. `scales` and `minima` have one value for each row and group, row by
    /// row.
    ///
    /// # Errors
    /// Lengths that do not fit, or a code beyond its bits.
    pub fn new(
        linear: Linear,
        bits: u32,
        group: usize,
        codes: Vec<u8>,
        scales: Vec<f32>,
        minima: Vec<f32>,
    ) -> Result<Self, CodesError> {
        let name = || linear.name.clone();
        if !(1..=8).contains(&bits) || group == 0 {
            return Err(CodesError::Format { linear: name(), bits, group });
        }
        let groups = linear.d_out.saturating_mul(linear.d_in.div_ceil(group));
        let weights = linear.d_out.saturating_mul(linear.d_in);
        for (what, found, expected) in [
            ("codes", codes.len(), weights),
            ("scales", scales.len(), groups),
            ("minima", minima.len(), groups),
        ] {
            if found != expected {
                return Err(CodesError::Length { linear: name(), what, found, expected });
            }
        }
        let largest = u8::MAX >> (8 - bits);
        if let Some((index, &found)) = codes.iter().enumerate().find(|&(_, &q)| q > largest) {
            return Err(CodesError::Range { linear: name(), index, found, largest });
        }
        Ok(Self { linear, largest, group, codes, scales, minima })
    }

    /// The linear.
    pub fn linear(&self) -> &Linear {
        &self.linear
    }

    /// The largest code.
    pub fn largest(&self) -> u8 {
        self.largest
    }

    /// The codes, row-major.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    pub(super) fn codes_mut(&mut self) -> &mut [u8] {
        &mut self.codes
    }

    /// Writes the weights of a row, its codes moved by `moves` (whole numbers that lead to codes).
    pub(super) fn dequantize(&self, row: usize, moves: &[f32], w: &mut [f32]) {
        let d_in = self.linear.d_in;
        let groups = d_in.div_ceil(self.group);
        let codes = &self.codes[row * d_in..(row + 1) * d_in];
        for (g, w) in w.chunks_mut(self.group).enumerate() {
            let (scale, minimum) = (self.scales[row * groups + g], self.minima[row * groups + g]);
            let start = g * self.group;
            for ((w, &q), d) in w.iter_mut().zip(&codes[start..]).zip(&moves[start..]) {
                *w = scale * (f32::from(q) + d) + minimum;
            }
        }
    }
}
