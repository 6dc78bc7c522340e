//! What activations are rounded to, and how codes of both widths lie in memory.

use crate::activations::{ActivationRows, ROW_BLOCK, RowBlock};
use crate::format::GROUP;
use crate::matrix::PackedMatrix;
use fura_simd::Isa;
use layout::Layout;
use std::fmt::Debug;
use std::ops::Range;

/// An activation's code: `i8` for the inputs of linears, `i16` where rounding is not averaged out, as in an output head.
///
/// Codes of 16 bits cost about twice the time of 8 bits where products bound the speed, and nothing where reading the
/// weights does.
pub trait Code: Layout {}

impl Code for i8 {}
impl Code for i16 {}

/// Two rows, eight channels of the one beside eight channels of the other: what `smmla` multiplies. Four channels
/// of a row stay together, which is what `vpdpbusd`, `sdot` and a broadcast take.
pub(crate) type RowPair = [[[i8; 8]; 2]; GROUP / 8];

/// Row `row` of a pair.
#[inline(always)]
fn set(pair: &mut RowPair, row: usize, codes: &[i8; GROUP]) {
    for (to, from) in pair.iter_mut().zip(codes.as_chunks::<8>().0) {
        to[row] = *from;
    }
}

fn get(pair: &RowPair, row: usize) -> [i8; GROUP] {
    let mut codes = [0; GROUP];
    for (to, from) in codes.as_chunks_mut::<8>().0.iter_mut().zip(pair) {
        *to = from[row];
    }
    codes
}

/// Out of sight, so that nobody else implements [`Code`] and layouts stay free to change.
pub(crate) mod layout {
    use super::*;

    pub trait Layout: Copy + Debug + Default + Into<i32> + PartialEq + Send + Sync + 'static {
        /// The largest code; the smallest is its negative.
        const MOST: f32;
        /// The least magnitude that does not count as zero: from here on `MOST / amax` is finite and `amax / MOST` not
        /// subnormal.
        const LEAST: f32;
        /// Whether codes have 16 bits.
        const WIDE: bool;
        /// Rows whose codes fill a [`RowPair`].
        const ROWS_OF_PAIR: usize;
        /// The codes of [`ROW_BLOCK`] rows.
        type Rows: AsRef<[RowPair]> + Clone + Debug + Default + Send + Sync;

        /// A number in the range of codes.
        fn from_integer(code: i32) -> Self;
        fn set(rows: &mut Self::Rows, row: usize, codes: &[Self; GROUP]);
        fn get(rows: &Self::Rows, row: usize) -> [Self; GROUP];
        fn quantize(isa: Isa, x: &[f32], d_in: usize, groups: &mut [RowBlock<Self>])
        where
            Self: Code;

        /// The product, its shapes checked. Here, so that kernels are compiled in this crate and not where they are used.
        fn multiply(
            isa: Isa,
            w: &PackedMatrix<'_>,
            x: ActivationRows<'_, Self>,
            tiles: Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) where
            Self: Code;
    }

    impl Layout for i8 {
        const MOST: f32 = 127.0;
        const LEAST: f32 = f32::from_bits((127 - 119) << 23);
        const WIDE: bool = false;
        const ROWS_OF_PAIR: usize = 2;
        type Rows = [RowPair; ROW_BLOCK / 2];

        fn from_integer(code: i32) -> Self {
            code as i8
        }

        #[inline(always)]
        fn set(rows: &mut Self::Rows, row: usize, codes: &[Self; GROUP]) {
            set(&mut rows[row / 2], row % 2, codes);
        }

        fn get(rows: &Self::Rows, row: usize) -> [Self; GROUP] {
            get(&rows[row / 2], row % 2)
        }

        fn quantize(isa: Isa, x: &[f32], d_in: usize, groups: &mut [RowBlock<Self>]) {
            crate::kernel::quantize(isa, x, d_in, groups);
        }

        fn multiply(
            isa: Isa,
            w: &PackedMatrix<'_>,
            x: ActivationRows<'_, Self>,
            tiles: Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            crate::kernel::multiply(isa, w, x, tiles, out, stride);
        }
    }

    /// The kernels of x86-64 multiply 16-bit codes as they are: of every four channels the first and the third, then the second
    /// and the fourth, since a register of weights is taken apart that way. Others multiply bytes, `255 a + b` with both
    /// in -127..=127, as two rows: to 255 and not 256, since no byte may be -128 (`vmull_s8` and `vmlal_s8` of two
    /// such products would leave 16 bits). Hence the largest code.
    impl Layout for i16 {
        const MOST: f32 = 32512.0;
        const LEAST: f32 = f32::from_bits((127 - 111) << 23);
        const WIDE: bool = true;
        const ROWS_OF_PAIR: usize = 1;
        type Rows = [RowPair; ROW_BLOCK];

        fn from_integer(code: i32) -> Self {
            code as i16
        }

        #[cfg(target_arch = "x86_64")]
        fn set(rows: &mut Self::Rows, row: usize, codes: &[Self; GROUP]) {
            let quads = rows[row].as_flattened_mut();
            for (quad, [a, b, c, d]) in quads.iter_mut().zip(codes.as_chunks::<4>().0) {
                for (to, code) in quad.as_chunks_mut::<2>().0.iter_mut().zip([a, c, b, d]) {
                    *to = code.to_le_bytes().map(|byte| byte as i8);
                }
            }
        }

        #[cfg(target_arch = "x86_64")]
        fn get(rows: &Self::Rows, row: usize) -> [Self; GROUP] {
            let mut codes = [0; GROUP];
            for (to, quad) in codes.as_chunks_mut::<4>().0.iter_mut().zip(rows[row].as_flattened()) {
                let code = |i: usize| i16::from_le_bytes([quad[2 * i] as u8, quad[2 * i + 1] as u8]);
                *to = [code(0), code(2), code(1), code(3)];
            }
            codes
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn set(rows: &mut Self::Rows, row: usize, codes: &[Self; GROUP]) {
            // To the nearest: 127 away from zero either way.
            let high = codes.map(|code| (code + 127 * code.signum()) / 255);
            let low = std::array::from_fn(|i| (codes[i] - 255 * high[i]) as i8);
            set(&mut rows[row], 0, &high.map(|high| high as i8));
            set(&mut rows[row], 1, &low);
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn get(rows: &Self::Rows, row: usize) -> [Self; GROUP] {
            let (high, low) = (get(&rows[row], 0), get(&rows[row], 1));
            std::array::from_fn(|i| 255 * i16::from(high[i]) + i16::from(low[i]))
        }

        fn quantize(_: Isa, x: &[f32], d_in: usize, groups: &mut [RowBlock<Self>]) {
            crate::kernel::quantize_wide(x, d_in, groups);
        }

        fn multiply(
            isa: Isa,
            w: &PackedMatrix<'_>,
            x: ActivationRows<'_, Self>,
            tiles: Range<usize>,
            out: &mut [f32],
            stride: usize,
        ) {
            crate::kernel::multiply(isa, w, x, tiles, out, stride);
        }
    }
}
