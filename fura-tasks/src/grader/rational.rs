//! Exact fractions of bounded size.

use std::cmp::Ordering;

/// Numerators and denominators stay below this, so that products of two fit an `i128`.
const BOUND: i128 = 1_000_000_000_000_000_000;

/// A fraction in lowest terms: `|num| < 10^18`, `0 < den < 10^18`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rational {
    num: i64,
    den: i64,
}

impl Rational {
    /// `num / den` in lowest terms; `None` when `den` is 0 or the result is out of bounds.
    pub(super) fn new(num: i128, den: i128) -> Option<Self> {
        if den == 0 {
            return None;
        }
        let divisor = i128::try_from(gcd(num.unsigned_abs(), den.unsigned_abs())).ok()?;
        let (mut num, mut den) = (num / divisor, den / divisor);
        if den < 0 {
            (num, den) = (num.checked_neg()?, den.checked_neg()?);
        }
        if num.unsigned_abs() >= BOUND.unsigned_abs() || den >= BOUND {
            return None;
        }
        Some(Self { num: i64::try_from(num).ok()?, den: i64::try_from(den).ok()? })
    }

    /// A decimal of ASCII digits, its whole and its fractional part; either may be empty, not
    /// both. `None` for anything else or when out of bounds.
    pub(super) fn from_decimal(whole: &str, fraction: &str) -> Option<Self> {
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let (mut num, mut den) = (0i128, 1i128);
        for byte in whole.bytes() {
            num = push(num, byte)?;
        }
        for byte in fraction.bytes() {
            num = push(num, byte)?;
            den *= 10;
            if den >= BOUND {
                return None;
            }
        }
        Self::new(num, den)
    }

    /// The decimal that `value` prints as, which is the one a person wrote; `None` when it
    /// has more digits than fit, or is negative or not finite.
    pub(super) fn from_f64(value: f64) -> Option<Self> {
        let text = value.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        Self::from_decimal(whole, fraction)
    }

    pub(super) fn is_zero(self) -> bool {
        self.num == 0
    }

    /// The same number with the other sign.
    pub(super) fn negated(self) -> Self {
        Self { num: -self.num, den: self.den }
    }

    /// `self + by`, `None` when the result is out of bounds.
    pub(super) fn plus(self, by: Self) -> Option<Self> {
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        // Each product is below 10^36, so their sum fits.
        Self::new(product(self.num, by.den) + product(by.num, self.den), product(self.den, by.den))
    }

    /// `self * by`, `None` when the result is out of bounds.
    pub(super) fn times(self, by: Self) -> Option<Self> {
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        Self::new(product(self.num, by.num), product(self.den, by.den))
    }

    /// `self / by`, `None` when `by` is 0 or the result is out of bounds.
    pub(super) fn divided(self, by: Self) -> Option<Self> {
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        Self::new(product(self.num, by.den), product(self.den, by.num))
    }

    /// A hundredth of it, `None` when out of bounds.
    pub(super) fn percent(self) -> Option<Self> {
        Self::new(i128::from(self.num), i128::from(self.den) * 100)
    }

    /// Whether `|self - gold| <= abs`, exactly.
    pub(super) fn within_abs(self, gold: Self, abs: Self) -> bool {
        let (num, den) = self.distance(gold);
        let limit = (abs.num.unsigned_abs().into(), abs.den.unsigned_abs().into());
        compare((num, den), limit) != Ordering::Greater
    }

    /// Whether `|self - gold| <= rel * |gold|`, exactly.
    pub(super) fn within_rel(self, gold: Self, rel: Self) -> bool {
        let product = |a: i64, b: i64| u128::from(a.unsigned_abs()) * u128::from(b.unsigned_abs());
        let limit = (product(rel.num, gold.num), product(rel.den, gold.den));
        compare(self.distance(gold), limit) != Ordering::Greater
    }

    /// `|self - other|` as a fraction, not in lowest terms; below `2 * 10^36`.
    fn distance(self, other: Self) -> (u128, u128) {
        let cross = |a: Self, b: Self| i128::from(a.num) * i128::from(b.den);
        let den = u128::from(self.den.unsigned_abs()) * u128::from(other.den.unsigned_abs());
        ((cross(self, other) - cross(other, self)).unsigned_abs(), den)
    }
}

/// Appends a decimal digit, `None` when it is no digit or the number grows past an `i128`.
fn push(num: i128, byte: u8) -> Option<i128> {
    if !byte.is_ascii_digit() {
        return None;
    }
    num.checked_mul(10)?.checked_add(i128::from(byte - b'0'))
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The order of `a.0 / a.1` and `b.0 / b.1` (denominators not 0), by comparing their
/// continued fractions: exact, and no product can overflow.
fn compare(mut a: (u128, u128), mut b: (u128, u128)) -> Ordering {
    loop {
        let (whole_a, rest_a) = (a.0 / a.1, a.0 % a.1);
        let (whole_b, rest_b) = (b.0 / b.1, b.0 % b.1);
        if whole_a != whole_b {
            return whole_a.cmp(&whole_b);
        }
        if rest_a == 0 || rest_b == 0 {
            return rest_a.cmp(&rest_b);
        }
        // rest_a / a.1 against rest_b / b.1 is the reciprocals the other way round.
        (a, b) = ((b.1, rest_b), (a.1, rest_a));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn out_of_bounds_is_none() {
        let nines = "9".repeat(18);
        assert!(Rational::from_decimal(&nines, "").is_some());
        assert_eq!(Rational::from_decimal(&format!("1{}", "0".repeat(18)), ""), None);
        assert_eq!(Rational::from_decimal(&"9".repeat(1000), ""), None);
        assert_eq!(Rational::from_decimal("0", &format!("{}1", "0".repeat(1000))), None);
        assert_eq!(Rational::new(1, 0), None);
        assert_eq!(Rational::new(i128::MIN, 1), None);
    }

    #[test]
    fn zeros_that_do_not_matter_do_not_matter() {
        let zeros = "0".repeat(1000);
        let two = Rational::new(2, 1);
        assert_eq!(Rational::from_decimal(&format!("{zeros}2"), &zeros), two);
    }

    #[test]
    fn the_written_decimal_of_a_float_is_taken() {
        assert_eq!(Rational::from_f64(0.1), Rational::new(1, 10));
        assert_eq!(Rational::from_f64(25.0), Rational::new(25, 1));
        for bad in [f64::NAN, f64::INFINITY, -0.5, -0.0, 1e300, 5e-324] {
            assert_eq!(Rational::from_f64(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_cross_products(a in 0u64.., b in 1u64.., c in 0u64.., d in 1u64..) {
            let wide = u128::from;
            let want = (wide(a) * wide(d)).cmp(&(wide(c) * wide(b)));
            prop_assert_eq!(compare((wide(a), wide(b)), (wide(c), wide(d))), want);
        }

        #[test]
        fn equal_fractions_are_equal(n in -1000i128..1000, d in 1i128..1000, k in 1i128..1000) {
            prop_assert_eq!(Rational::new(n, d), Rational::new(n * k, d * k));
            prop_assert_eq!(Rational::new(n, d), Rational::new(-n, -d));
        }
    }
}
