//! Confidence intervals for a success rate.

/// The 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A closed interval of proportions, `0 <= low <= high <= 1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound, a proportion.
    pub low: f64,
    /// The upper bound, a proportion.
    pub high: f64,
}

/// Wilson's 95 % score interval for `k` successes in `n` independent trials.
///
/// Without continuity correction: the set of proportions `p` for which `k` lies within
/// 1.96 standard errors `sqrt(p (1 - p) / n)` of `n p`. It never leaves `[0, 1]` and keeps
/// its coverage when `k` is near 0 or `n`, where the textbook interval fails. `None` when
/// `n` is 0 or `k > n`, for which no interval exists.
///
/// Source: E. B. Wilson, Probable inference, the law of succession, and statistical
/// inference, JASA 22 (1927); method 3 of R. G. Newcombe, Statist. Med. 17 (1998) 857-872.
///
/// ```
/// let i = fura_tasks::wilson95(81, 263).unwrap();
/// assert_eq!(format!("{:.4} {:.4}", i.low, i.high), "0.2553 0.3662");
/// ```
#[must_use]
pub fn wilson95(k: u64, n: u64) -> Option<Interval> {
    if n == 0 || k > n {
        return None;
    }
    let (trials, z2) = (n as f64, Z * Z);
    let p = k as f64 / trials;
    let scale = 1.0 + z2 / trials;
    let centre = (p + z2 / (2.0 * trials)) / scale;
    let half = Z * (p * (1.0 - p) / trials + z2 / (4.0 * trials * trials)).sqrt() / scale;
    // At the ends a bound is 0 or 1 exactly; rounding would leave a stray last bit.
    let low = if k == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if k == n { 1.0 } else { (centre + half).min(1.0) };
    Some(Interval { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_values_of_newcombe_1998_table_i() {
        for (k, n, want) in [
            (81, 263, "0.2553 0.3662"),
            (15, 148, "0.0624 0.1605"),
            (0, 20, "0.0000 0.1611"),
            (1, 29, "0.0061 0.1718"),
        ] {
            let i = wilson95(k, n).unwrap();
            assert_eq!(format!("{:.4} {:.4}", i.low, i.high), want, "{k} of {n}");
        }
    }

    #[test]
    fn no_interval_without_trials_or_with_too_many_successes() {
        assert_eq!(wilson95(0, 0), None);
        assert_eq!(wilson95(3, 2), None);
    }

    #[test]
    fn the_largest_counts_stay_in_the_unit_interval() {
        for k in [0, 1, u64::MAX - 1, u64::MAX] {
            let i = wilson95(k, u64::MAX).unwrap();
            assert!(0.0 <= i.low && i.low <= i.high && i.high <= 1.0, "{i:?}");
        }
    }

    proptest! {
        #[test]
        fn holds_the_rate_and_mirrors(n in 1u64..5000, share in 0.0f64..=1.0) {
            let k = (share * n as f64) as u64;
            let (i, mirror) = (wilson95(k, n).unwrap(), wilson95(n - k, n).unwrap());
            let p = k as f64 / n as f64;
            prop_assert!(i.low <= p && p <= i.high);
            prop_assert!((i.low + mirror.high - 1.0).abs() <= 4.0 * f64::EPSILON);
        }
    }
}
