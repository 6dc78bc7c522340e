//! IEEE 754 binary16 as its bits, in plain arithmetic: the same on every instruction set.

/// The f16 nearest to `x`, ties to even. What is beyond the largest finite f16 becomes that one (65504), so storing
/// never makes an infinity of a number; NaN stays NaN.
#[inline(always)]
pub fn narrow(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let bits = x.to_bits() & 0x7fff_ffff;
    if bits > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    let magnitude = f32::from_bits(bits);
    let half = if magnitude < 6.103_515_6e-5 {
        // Below 2^-14 the step is 2^-24, which is that of f32 between 1/2 and 1: the sum rounds to it.
        (magnitude + 0.5).to_bits() - 0x3f00_0000
    } else {
        // Thirteen bits go; a carry into the exponent is the right one.
        let odd = (bits >> 13) & 1;
        ((bits + 0xfff + odd) >> 13) - (112 << 10)
    };
    sign | half.min(0x7bff) as u16
}

/// The value of an f16, exactly.
#[inline(always)]
pub fn widen(h: u16) -> f32 {
    // 2^112 moves the exponent; subnormals come out right since the product is exact.
    const SHIFT: f32 = f32::from_bits((112 + 127) << 23);
    let bits = u32::from(h & 0x7fff) << 13;
    let finite = (f32::from_bits(bits) * SHIFT).to_bits();
    let bits = if h & 0x7c00 == 0x7c00 { bits | 0x7f80_0000 } else { finite };
    f32::from_bits(bits | u32::from(h & 0x8000) << 16)
}

#[inline(always)]
fn narrow_all_body(x: &[f32], out: &mut [u16]) {
    assert_eq!(x.len(), out.len(), "narrow_all: lengths differ");
    for (x, out) in x.iter().zip(out) {
        *out = narrow(*x);
    }
}

dispatch! {
    /// Narrows every value.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn narrow_all(x: &[f32], out: &mut [u16]) = narrow_all_body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_is_the_definition_of_binary16() {
        for h in 0..=u16::MAX {
            let (sign, exponent, fraction) = (h >> 15, i32::from(h >> 10 & 31), f64::from(h & 1023));
            let magnitude = match exponent {
                0 => fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                e => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
            };
            let exact = if sign == 1 { -magnitude } else { magnitude };
            let got = f64::from(widen(h));
            assert!(got == exact && got.is_sign_negative() == (sign == 1) || got.is_nan() && exact.is_nan());
        }
    }

    #[test]
    fn narrowing_takes_the_nearest_and_the_even_one_of_two() {
        for h in 0..0x7bffu16 {
            let (low, high) = (widen(h), widen(h + 1));
            let middle = (low + high) / 2.0; // exact: f32 has thirteen bits more
            let even = if h % 2 == 0 { h } else { h + 1 };
            for sign in [1.0, -1.0] {
                let bit = if sign < 0.0 { 0x8000 } else { 0 };
                assert_eq!(narrow(sign * low), bit | h);
                assert_eq!(narrow(sign * middle), bit | even);
                assert_eq!(narrow(sign * middle.next_down()), bit | h);
                assert_eq!(narrow(sign * middle.next_up()), bit | (h + 1));
            }
        }
        for big in [65504.0, 65519.0, 65520.0, 1e9, f32::MAX, f32::INFINITY] {
            assert_eq!((narrow(big), narrow(-big)), (0x7bff, 0xfbff));
        }
        assert!(widen(narrow(f32::NAN)).is_nan());
        assert_eq!(narrow(f32::MIN_POSITIVE), 0);
    }
}
