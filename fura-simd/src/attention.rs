//! Attention of one query head over cached keys and values, which may lie in several spans of rows.

use crate::elementwise::cap_lane;
use crate::lanes::{LANES, Stored, dot};
use crate::softmax::softmax_body;

/// Where the keys and values of one head lie: row `j` starts at `offset + j * stride`.
#[derive(Clone, Copy, Debug)]
pub struct HeadRows {
    /// Index of the first element of row 0.
    pub offset: usize,
    /// Distance between rows, in elements.
    pub stride: usize,
}

/// Keys or values of a layer, whose first rows may lie in a place of their own: those of a text that several caches go on
/// from.
#[derive(Clone, Copy, Debug)]
pub struct CacheRows<'a, T> {
    earlier: &'a [T],
    /// Rows in `earlier`.
    count: usize,
    own: &'a [T],
}

impl<'a, T> CacheRows<'a, T> {
    /// Rows in one place.
    pub fn new(own: &'a [T]) -> Self {
        Self { earlier: &[], count: 0, own }
    }

    /// Rows `0 .. count` in `earlier`, further ones from the first of `own` on. No span may have rows of both.
    pub fn after(earlier: &'a [T], count: usize, own: &'a [T]) -> Self {
        Self { earlier, count, own }
    }

    /// The place of a span, and its first row there.
    #[inline(always)]
    fn place(&self, span: &Span) -> (&'a [T], usize) {
        match span.first.checked_sub(self.count) {
            Some(first) => (self.own, first),
            None => (self.earlier, span.first),
        }
    }
}

/// Consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first row.
    pub first: usize,
    /// Number of rows.
    pub len: usize,
}

#[inline(always)]
fn attend_body<T: Stored>(
    query: &[f32],
    keys: CacheRows<'_, T>,
    values: CacheRows<'_, T>,
    rows: HeadRows,
    spans: &[Span],
    scale: f32,
    cap: Option<f32>,
    scores: &mut [f32],
    out: &mut [f32],
) {
    assert_eq!(out.len(), query.len(), "attend: output length differs from the query's");
    score(query, keys, rows, spans, scale, scores);
    if let Some(cap) = cap {
        for s in scores.iter_mut() {
            *s = cap_lane(*s, cap);
        }
    }
    mix(values, rows, spans, scores, out);
}

#[inline(always)]
fn score<T: Stored>(
    query: &[f32],
    keys: CacheRows<'_, T>,
    rows: HeadRows,
    spans: &[Span],
    scale: f32,
    scores: &mut [f32],
) {
    let d = query.len();
    let mut rest = scores;
    for span in spans {
        let (scores, others) = rest.split_at_mut(span.len);
        rest = others;
        let (keys, first) = keys.place(span);
        for (j, s) in scores.iter_mut().enumerate() {
            let at = rows.offset + (first + j) * rows.stride;
            *s = dot(query, &keys[at..at + d]) * scale;
        }
    }
    assert!(rest.is_empty(), "attend: more scores than rows");
}

#[inline(always)]
fn mix<T: Stored>(
    values: CacheRows<'_, T>,
    rows: HeadRows,
    spans: &[Span],
    scores: &mut [f32],
    out: &mut [f32],
) {
    softmax_body(scores);
    // Pieces whose sums stay in registers while the rows go by.
    let mut first = 0;
    while out.len() - first >= 4 * LANES {
        mix_piece::<T, { 4 * LANES }>(values, rows, first, spans, scores, out);
        first += 4 * LANES;
    }
    while out.len() - first >= LANES {
        mix_piece::<T, LANES>(values, rows, first, spans, scores, out);
        first += LANES;
    }
    while first < out.len() {
        mix_piece::<T, 1>(values, rows, first, spans, scores, out);
        first += 1;
    }
}

/// Elements `first .. first + N` of the output.
#[inline(always)]
fn mix_piece<T: Stored, const N: usize>(
    values: CacheRows<'_, T>,
    rows: HeadRows,
    first: usize,
    spans: &[Span],
    scores: &[f32],
    out: &mut [f32],
) {
    let mut sums = [0.0f32; N];
    let mut rest = scores;
    for span in spans {
        let (scores, others) = rest.split_at(span.len);
        rest = others;
        let (values, row) = values.place(span);
        for (j, p) in scores.iter().enumerate() {
            let at = rows.offset + (row + j) * rows.stride + first;
            let values = &values[at..at + N];
            for i in 0..N {
                sums[i] = p.mul_add(values[i].value(), sums[i]);
            }
        }
    }
    out[first..first + N].copy_from_slice(&sums);
}

/// Keys of a head, sixteen side by side: element `i` of key `16 b + k` is number `k` of `[b][i]`. The last block
/// is filled up with zeros.
#[inline(always)]
fn transpose_body<T: Stored>(
    keys: CacheRows<'_, T>,
    d: usize,
    rows: HeadRows,
    spans: &[Span],
    out: &mut [f32],
) {
    let n: usize = spans.iter().map(|s| s.len).sum();
    assert_eq!(out.len(), transposed_len(n, d), "transpose_keys: output length differs from the keys'");
    let mut j = 0;
    for span in spans {
        let (keys, first) = keys.place(span);
        for row in first..first + span.len {
            let at = rows.offset + row * rows.stride;
            let block = &mut out[j / LANES * LANES * d..][..LANES * d];
            for (lanes, key) in block.chunks_exact_mut(LANES).zip(&keys[at..at + d]) {
                lanes[j % LANES] = key.value();
            }
            j += 1;
        }
    }
    if !n.is_multiple_of(LANES) {
        for lanes in out[n / LANES * LANES * d..].chunks_exact_mut(LANES) {
            lanes[n % LANES..].fill(0.0);
        }
    }
}

/// [`dot`] of the query and each of sixteen keys, a key a lane: the same operations in the same order.
#[inline(always)]
fn dots(query: &[f32], block: &[f32]) -> [f32; LANES] {
    let (keys, _) = block.as_chunks::<LANES>();
    // The tree of `fold_add` ends in (0 + 2) + (1 + 3), each the sum of four lanes; one such sum at a time.
    let mut quarters = [[0.0f32; LANES]; 4];
    let (whole, tail) = query.as_chunks::<LANES>();
    let (blocks, keys_tail) = keys.as_chunks::<LANES>();
    for (g, quarter) in quarters.iter_mut().enumerate() {
        let mut sums = [[0.0f32; LANES]; 4];
        for (query, keys) in whole.iter().zip(blocks) {
            for r in 0..4 {
                for l in 0..LANES {
                    sums[r][l] = query[g + 4 * r].mul_add(keys[g + 4 * r][l], sums[r][l]);
                }
            }
        }
        for r in 0..4 {
            if let (Some(q), Some(key)) = (tail.get(g + 4 * r), keys_tail.get(g + 4 * r)) {
                for l in 0..LANES {
                    sums[r][l] = q.mul_add(key[l], sums[r][l]);
                }
            }
        }
        for l in 0..LANES {
            quarter[l] = (sums[0][l] + sums[2][l]) + (sums[1][l] + sums[3][l]);
        }
    }
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        out[l] = (quarters[0][l] + quarters[2][l]) + (quarters[1][l] + quarters[3][l]);
    }
    out
}

#[inline(always)]
fn attend_transposed_body<T: Stored>(
    query: &[f32],
    keys: &[f32],
    skip: usize,
    values: CacheRows<'_, T>,
    rows: HeadRows,
    spans: &[Span],
    scale: f32,
    cap: Option<f32>,
    scores: &mut [f32],
    out: &mut [f32],
) {
    let d = query.len();
    assert_eq!(out.len(), d, "attend: output length differs from the query's");
    let n: usize = spans.iter().map(|s| s.len).sum();
    let (first, end) = (skip / LANES, (skip + n).div_ceil(LANES));
    assert!(scores.len() >= (end - first) * LANES, "attend: too few scores");
    let blocks = keys[first * LANES * d..end * LANES * d].chunks_exact(LANES * d);
    for (block, scores) in blocks.zip(scores.chunks_exact_mut(LANES)) {
        for (s, dot) in scores.iter_mut().zip(dots(query, block)) {
            *s = dot * scale;
        }
    }
    let scores = &mut scores[skip % LANES..][..n];
    if let Some(cap) = cap {
        for s in scores.iter_mut() {
            *s = cap_lane(*s, cap);
        }
    }
    mix(values, rows, spans, scores, out);
}

/// Numbers that [`transpose_keys`] makes of `n` keys of `d` numbers.
pub fn transposed_len(n: usize, d: usize) -> usize {
    n.next_multiple_of(LANES) * d
}

/// Scores that [`attend_transposed`] needs room for if it sees `n` keys.
pub fn transposed_scores(n: usize) -> usize {
    n.next_multiple_of(LANES) + LANES
}

dispatch! {
    /// `out = sum_j softmax(s)_j v_j` over the rows of `spans`, where `s_j = q . k_j * scale`, or with a `cap`
    /// `cap * tanh(q . k_j * scale / cap)`; `scores`, one for each row, is
    /// scratch and holds the attention weights afterwards. Rows are accumulated in order, so how they are cut into
    /// spans changes nothing.
    ///
    /// # Panics
    /// If a row lies outside `keys` or `values`, `scores` is not as long as there are rows, or `out` and `query`
    /// differ in length.
    pub fn attend(
        query: &[f32],
        keys: CacheRows<'_, f32>,
        values: CacheRows<'_, f32>,
        rows: HeadRows,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<f32>
}

dispatch! {
    /// As [`attend`] on keys and values in [f16](crate::half): the bits of [`attend`] on the widened ones.
    ///
    /// # Panics
    /// As [`attend`].
    pub fn attend_half(
        query: &[f32],
        keys: CacheRows<'_, u16>,
        values: CacheRows<'_, u16>,
        rows: HeadRows,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<u16>
}

dispatch! {
    /// Puts the keys of one head, of `d` numbers each, side by side in blocks of sixteen for [`attend_transposed`]:
    /// worth while if several queries see them.
    ///
    /// # Panics
    /// If a row lies outside `keys`, or `out` does not hold [`transposed_len`] numbers.
    pub fn transpose_keys(keys: CacheRows<'_, f32>, d: usize, rows: HeadRows, spans: &[Span], out: &mut [f32])
        = transpose_body::<f32>
}

dispatch! {
    /// As [`transpose_keys`] for keys in [f16](crate::half), which are widened.
    ///
    /// # Panics
    /// As [`transpose_keys`].
    pub fn transpose_keys_half(keys: CacheRows<'_, u16>, d: usize, rows: HeadRows, spans: &[Span], out: &mut [f32])
        = transpose_body::<u16>
}

dispatch! {
    /// The bits of [`attend`], with `keys` from [`transpose_keys`]. `spans` are the rows that the query sees, those of the
    /// transposed keys from number `skip` on; `scores` is scratch.
    ///
    /// # Panics
    /// If a row lies outside `keys` or `values`, `scores` has not room for [`transposed_scores`], or `out` and `query`
    /// differ in length.
    pub fn attend_transposed(
        query: &[f32],
        keys: &[f32],
        skip: usize,
        values: CacheRows<'_, f32>,
        rows: HeadRows,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_transposed_body::<f32>
}

dispatch! {
    /// As [`attend_transposed`] on values in [f16](crate::half): the bits of [`attend_half`].
    ///
    /// # Panics
    /// As [`attend_transposed`].
    pub fn attend_transposed_half(
        query: &[f32],
        keys: &[f32],
        skip: usize,
        values: CacheRows<'_, u16>,
        rows: HeadRows,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scores: &mut [f32],
        out: &mut [f32],
    ) = attend_transposed_body::<u16>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::half::widen;

    fn one<T>(rows: &[T]) -> CacheRows<'_, T> {
        CacheRows::new(rows)
    }

    #[test]
    fn equal_on_every_tier_and_equal_to_the_formula() {
        for (d, n) in [(64usize, 1usize), (64, 30), (80, 17), (5, 40)] {
            let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.05;
            let q: Vec<f32> = (0..d).map(|i| f(7, i)).collect();
            let stride = d + 3;
            let k: Vec<f32> = (0..n * stride + d).map(|i| f(11, i)).collect();
            let v: Vec<f32> = (0..n * stride + d).map(|i| f(13, i)).collect();
            let rows = HeadRows { offset: 2, stride };
            let run = |isa| {
                let (mut s, mut o) = (vec![0.0; n], vec![0.0; d]);
                attend(
                    isa,
                    &q,
                    one(&k),
                    one(&v),
                    rows,
                    &[Span { first: 0, len: n }],
                    0.125,
                    None,
                    &mut s,
                    &mut o,
                );
                (s, o)
            };
            let reference = run(Isa::scalar());
            for isa in Isa::available() {
                assert_eq!(run(isa), reference, "{isa:?}");
            }
            let score = |j: usize| -> f64 {
                (0..d).map(|i| f64::from(q[i]) * f64::from(k[2 + j * stride + i])).sum::<f64>() * 0.125
            };
            let top = (0..n).map(score).fold(f64::MIN, f64::max);
            let z: f64 = (0..n).map(|j| (score(j) - top).exp()).sum();
            for i in 0..d {
                let exact: f64 =
                    (0..n).map(|j| (score(j) - top).exp() / z * f64::from(v[2 + j * stride + i])).sum();
                // |scores| < 40, so the exponents carry at most 40 * d rounding errors of 2^-24.
                assert!((f64::from(reference.1[i]) - exact).abs() < 40.0 * 64.0 * 6e-8);
            }
        }
    }
    #[test]
    fn a_cap_bounds_the_scores_on_every_tier() {
        let (d, n, cap) = (16usize, 9usize, 2.0f32);
        let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.05;
        let [q, k, v] = [7, 11, 13].map(|p| (0..n * d).map(|i| f(p, i)).collect::<Vec<f32>>());
        let rows = HeadRows { offset: 0, stride: d };
        let run = |isa| {
            let (mut s, mut o) = (vec![0.0; n], vec![0.0; d]);
            attend(
                isa,
                &q[..d],
                one(&k),
                one(&v),
                rows,
                &[Span { first: 0, len: n }],
                1.0,
                Some(cap),
                &mut s,
                &mut o,
            );
            (s, o)
        };
        let reference = run(Isa::scalar());
        for isa in Isa::available() {
            assert_eq!(run(isa), reference, "{isa:?}");
        }
        let score = |j: usize| -> f64 {
            let s = (0..d).map(|i| f64::from(q[i]) * f64::from(k[j * d + i])).sum::<f64>();
            2.0 * (s / 2.0).tanh()
        };
        assert!((0..n).any(|j| score(j).abs() > 1.9), "the cap is felt");
        let z: f64 = (0..n).map(|j| score(j).exp()).sum();
        for i in 0..d {
            let exact: f64 = (0..n).map(|j| score(j).exp() / z * f64::from(v[j * d + i])).sum();
            // An exponent is off by five roundings of a sum of magnitudes below 80 and by the cap's own error; that
            // of a weight, relative to it, is at most twice as much.
            let exponent = 5.0 * 80.0 * 6e-8 + 2.0 * 3e-7;
            assert!((f64::from(reference.1[i]) - exact).abs() < 2.2 * 2.0 * exponent);
        }
    }

    #[test]
    fn spans_and_halves_give_the_bits_of_whole_widened_rows() {
        let (d, n) = (24usize, 23usize);
        let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.0371;
        let q: Vec<f32> = (0..d).map(|i| f(7, i)).collect();
        let [k, v] = [11, 13].map(|p| (0..n * d).map(|i| crate::half::narrow(f(p, i))).collect::<Vec<u16>>());
        let [wide_k, wide_v] = [&k, &v].map(|x| x.iter().map(|h| widen(*h)).collect::<Vec<f32>>());
        let rows = HeadRows { offset: 0, stride: d };
        let whole = [Span { first: 0, len: n }];
        let cut = [
            Span { first: 0, len: 1 },
            Span { first: 1, len: 0 },
            Span { first: 1, len: 15 },
            Span { first: 16, len: 7 },
        ];
        let (mut s, mut expected) = (vec![0.0; n], vec![0.0; d]);
        attend(Isa::scalar(), &q, one(&wide_k), one(&wide_v), rows, &whole, 0.2, None, &mut s, &mut expected);
        let mut capped = vec![0.0; d];
        attend(
            Isa::scalar(),
            &q,
            one(&wide_k),
            one(&wide_v),
            rows,
            &whole,
            0.2,
            Some(3.0),
            &mut s,
            &mut capped,
        );
        assert_ne!(expected, capped);
        for isa in Isa::available() {
            for spans in [&whole[..], &cut] {
                let mut out = vec![0.0; d];
                attend(isa, &q, one(&wide_k), one(&wide_v), rows, spans, 0.2, None, &mut s, &mut out);
                assert_eq!(out, expected, "{isa:?}");
                attend_half(isa, &q, one(&k), one(&v), rows, spans, 0.2, None, &mut s, &mut out);
                assert_eq!(out, expected, "{isa:?}");
                if spans.len() > 1 {
                    let [k, v] = [&wide_k, &wide_v].map(|x| CacheRows::after(&x[..16 * d], 16, &x[16 * d..]));
                    out.fill(f32::NAN);
                    attend(isa, &q, k, v, rows, spans, 0.2, None, &mut s, &mut out);
                    assert_eq!(out, expected, "{isa:?}, in two places");
                    let mut keys = vec![f32::NAN; transposed_len(n, d)];
                    let mut s = vec![f32::NAN; transposed_scores(n)];
                    out.fill(f32::NAN);
                    transpose_keys(isa, k, d, rows, spans, &mut keys);
                    attend_transposed(isa, &q, &keys, 0, v, rows, spans, 0.2, None, &mut s, &mut out);
                    assert_eq!(out, expected, "{isa:?}, in two places, transposed");
                }
                attend_half(isa, &q, one(&k), one(&v), rows, spans, 0.2, Some(3.0), &mut s, &mut out);
                assert_eq!(out, capped, "{isa:?}");
            }
        }
    }

    #[test]
    fn transposed_keys_give_the_same_bits() {
        for (d, n) in [(64usize, 40usize), (80, 17), (5, 33), (24, 1), (150, 16)] {
            let f = |k: usize, i: usize| ((i * k % 89) as f32 - 44.0) * 0.0371;
            let q: Vec<f32> = (0..d).map(|i| f(7, i)).collect();
            let stride = d + 3;
            let [k, v] = [11, 13]
                .map(|p| (0..(n + 4) * stride).map(|i| crate::half::narrow(f(p, i))).collect::<Vec<u16>>());
            let [wide_k, wide_v] = [&k, &v].map(|x| x.iter().map(|h| widen(*h)).collect::<Vec<f32>>());
            let rows = HeadRows { offset: 1, stride };
            // Two spans with a gap, of which the query sees the keys from `skip` on.
            let all = [Span { first: 0, len: n / 2 }, Span { first: n / 2 + 3, len: n - n / 2 }];
            for skip in [0, 1, n / 2, n - 1] {
                let seen = [
                    Span { first: skip, len: (n / 2).saturating_sub(skip) },
                    Span { first: n / 2 + 3 + skip.saturating_sub(n / 2), len: n - skip.max(n / 2) },
                ];
                for cap in [None, Some(3.0)] {
                    let (mut s, mut expected) = (vec![0.0; n - skip], vec![0.0; d]);
                    let scalar = Isa::scalar();
                    attend(
                        scalar,
                        &q,
                        one(&wide_k),
                        one(&wide_v),
                        rows,
                        &seen,
                        0.2,
                        cap,
                        &mut s,
                        &mut expected,
                    );
                    for isa in Isa::available() {
                        // What was there before does not matter.
                        let mut keys = vec![f32::NAN; transposed_len(n, d)];
                        let mut s = vec![f32::NAN; transposed_scores(n - skip)];
                        let mut out = vec![f32::NAN; d];
                        transpose_keys(isa, one(&wide_k), d, rows, &all, &mut keys);
                        attend_transposed(
                            isa,
                            &q,
                            &keys,
                            skip,
                            one(&wide_v),
                            rows,
                            &seen,
                            0.2,
                            cap,
                            &mut s,
                            &mut out,
                        );
                        assert_eq!(out, expected, "{isa:?}, {d} x {n}, from {skip}");
                        keys.fill(f32::NAN);
                        transpose_keys_half(isa, one(&k), d, rows, &all, &mut keys);
                        attend_transposed_half(
                            isa,
                            &q,
                            &keys,
                            skip,
                            one(&v),
                            rows,
                            &seen,
                            0.2,
                            cap,
                            &mut s,
                            &mut out,
                        );
                        assert_eq!(out, expected, "{isa:?}, {d} x {n}, from {skip}");
                    }
                }
            }
        }
    }
}
