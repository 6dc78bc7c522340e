//! IEEE 754 binary16 to and from binary32.

/// Largest binary16 below 1.
const BELOW_ONE: u16 = 0x3bff;

/// The nearest binary16 of a number between -1 and 1, ties to even; what would round to 1 becomes the
/// largest number below, so that a coordinate stays one.
pub(super) fn from_f32(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.abs();
    let bits = if magnitude < 1.0 / 16384.0 {
        // Subnormal there: a whole multiple of 2^-24. Scaling is exact.
        (magnitude * 16_777_216.0).round_ties_even() as u16
    } else {
        // Round the 23 bits of the fraction to 10, ties to even; a carry goes into the exponent as it
        // should. Then the bias of the exponent falls from 127 to 15.
        let bits = magnitude.to_bits();
        let rounded = bits + 0xfff + (bits >> 13 & 1);
        ((rounded >> 13) - ((127 - 15) << 10)) as u16
    };
    sign | bits.min(BELOW_ONE)
}

/// The number itself: every binary16 is a binary32.
pub(super) fn to_f32(half: u16) -> f32 {
    let fraction = f32::from(half & 0x3ff);
    let magnitude = match half >> 10 & 0x1f {
        0 => fraction / 16_777_216.0,
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        exponent => f32::from_bits((u32::from(exponent) + 127 - 15) << 23 | u32::from(half & 0x3ff) << 13),
    };
    if half >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The value of a binary16 by its definition.
    fn defined(half: u16) -> f64 {
        let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-24),
            _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
        };
        if half >> 15 == 1 { -magnitude } else { magnitude }
    }

    #[test]
    fn every_number_below_one_is_kept() {
        for magnitude in 0..=BELOW_ONE {
            for half in [magnitude, magnitude | 0x8000] {
                assert_eq!(f64::from(to_f32(half)), defined(half));
                assert_eq!(from_f32(to_f32(half)), half);
            }
        }
        assert!(to_f32(0x7c00).is_infinite() && to_f32(0xfc01).is_nan());
        assert_eq!((to_f32(0x3c00), to_f32(0xbc00)), (1.0, -1.0));
    }

    /// Half way between two neighbours goes to the even one, the next f32 on either side to the nearer.
    #[test]
    fn every_midpoint_goes_to_the_even_neighbour() {
        for low in 0..BELOW_ONE {
            let middle = ((defined(low) + defined(low + 1)) / 2.0) as f32; // exact: one more bit
            assert_eq!(from_f32(middle), low + (low & 1));
            assert_eq!(from_f32(middle.next_down()), low);
            assert_eq!(from_f32(middle.next_up()), low + 1);
        }
        assert_eq!(from_f32(1f32.next_down()), BELOW_ONE);
    }

    proptest! {
        #[test]
        fn nothing_is_nearer(x in -1f32..1.0) {
            let half = from_f32(x);
            let off = |half: u16| (defined(half) - f64::from(x)).abs();
            let neighbours = [half.saturating_sub(1), (half + 1).min(half & 0x8000 | BELOW_ONE)];
            prop_assert!(neighbours.into_iter().all(|n| off(n) >= off(half)));
        }
    }
}
