//! Attention of the query heads that share keys and values, over a cache of them whose rows may lie in several spans.
//!
//! Keys lie sixteen side by side, so that the products of a query with sixteen keys are sums of vectors, and none has to be
//! summed up within one.

use crate::elementwise::cap_lane;
use crate::lanes::{LANES, Stored};
use crate::softmax::softmax_body;

/// Keys that lie side by side.
pub const KEY_BLOCK: usize = LANES;

/// Query heads whose values are summed together: they read them once, and their sums keep a processor busy.
const TOGETHER: usize = 3;

/// Keys or values of one head, whose first rows may lie in a place of their own: those of a text that several caches go on
/// from. Values are rows of the head's width; [`store_key`] says how keys lie.
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

/// Stores the key of a row: number `i` of row `16 b + k` is number `k` of `[b][i]`.
///
/// ```
/// use fura_simd::attention::{KEY_BLOCK, store_key};
/// let mut keys = [0.0; 2 * KEY_BLOCK * 3];
/// store_key(&mut keys, 17, &[1.0, 2.0, 3.0]);
/// assert_eq!([keys[48 + 1], keys[48 + 16 + 1], keys[48 + 32 + 1]], [1.0, 2.0, 3.0]);
/// ```
///
/// # Panics
/// If `keys` has no such row.
pub fn store_key<T: Copy>(keys: &mut [T], row: usize, key: &[T]) {
    let block = &mut keys[row / KEY_BLOCK * KEY_BLOCK * key.len()..][..KEY_BLOCK * key.len()];
    for (lanes, key) in block.chunks_exact_mut(KEY_BLOCK).zip(key) {
        lanes[row % KEY_BLOCK] = *key;
    }
}

#[inline(always)]
fn attend_body<T: Stored>(
    queries: &[f32],
    d: usize,
    keys: CacheRows<'_, T>,
    values: CacheRows<'_, T>,
    spans: &[Span],
    scale: f32,
    cap: Option<f32>,
    scratch: &mut [f32],
    out: &mut [f32],
) {
    assert_eq!(out.len(), queries.len(), "attend: output length differs from the queries'");
    assert!(d > 0 && queries.len().is_multiple_of(d), "attend: queries of another width");
    let n: usize = spans.iter().map(|s| s.len).sum();
    if n == 0 {
        return out.fill(0.0);
    }
    let (scores, wide) = scratch.split_at_mut(queries.len() / d * n);
    score(queries, d, keys, spans, scale, scores, wide);
    for scores in scores.chunks_exact_mut(n) {
        if let Some(cap) = cap {
            for s in scores.iter_mut() {
                *s = cap_lane(*s, cap);
            }
        }
        softmax_body(scores);
    }
    let heads = scores.chunks(TOGETHER * n).zip(out.chunks_mut(TOGETHER * d));
    for (weights, out) in heads {
        match out.len() / d {
            1 => mix::<T, 1>(values, d, spans, weights, out),
            2 => mix::<T, 2>(values, d, spans, weights, out),
            _ => mix::<T, TOGETHER>(values, d, spans, weights, out),
        }
    }
}

#[inline(always)]
fn score<T: Stored>(
    queries: &[f32],
    d: usize,
    keys: CacheRows<'_, T>,
    spans: &[Span],
    scale: f32,
    scores: &mut [f32],
    wide: &mut [f32],
) {
    let n = scores.len() / (queries.len() / d);
    let mut done = 0;
    for span in spans {
        let (keys, first) = keys.place(span);
        let mut row = first;
        while row < first + span.len {
            let lane = row % KEY_BLOCK;
            let count = (KEY_BLOCK - lane).min(first + span.len - row);
            let block = T::widened(&keys[(row - lane) * d..][..KEY_BLOCK * d], wide);
            for (query, scores) in queries.chunks_exact(d).zip(scores.chunks_exact_mut(n)) {
                // Lanes of other rows are not looked at, whatever they hold.
                let mut all = dots(query, block);
                all.iter_mut().for_each(|s| *s *= scale);
                let scores = &mut scores[done..done + count];
                match scores.first_chunk_mut() {
                    Some(scores) => *scores = all,
                    None => scores.copy_from_slice(&all[lane..lane + count]),
                }
            }
            (row, done) = (row + count, done + count);
        }
    }
}

/// Numbers of scratch that [`attend_half`] needs for so many queries of `d` numbers and rows; [`attend`] needs no more.
pub const fn scratch_len(queries: usize, d: usize, rows: usize) -> usize {
    queries * rows + KEY_BLOCK * d
}

/// The product of the query and each of sixteen keys, a key a lane. Each is the canonical one: element `i` is added to sum `i
/// mod 16`, then the sums are [folded](crate::lanes::fold_add).
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

/// The sums of values of `H` heads, each with its own weights.
#[inline(always)]
fn mix<T: Stored, const H: usize>(
    values: CacheRows<'_, T>,
    d: usize,
    spans: &[Span],
    weights: &[f32],
    out: &mut [f32],
) {
    // Pieces whose sums stay in registers while the rows go by.
    let mut first = 0;
    if H == 1 {
        while d - first >= 4 * LANES {
            mix_piece::<T, H, 4, LANES>(values, d, first, spans, weights, out);
            first += 4 * LANES;
        }
    }
    while d - first >= 2 * LANES {
        mix_piece::<T, H, 2, LANES>(values, d, first, spans, weights, out);
        first += 2 * LANES;
    }
    while d - first >= LANES {
        mix_piece::<T, H, 1, LANES>(values, d, first, spans, weights, out);
        first += LANES;
    }
    while first < d {
        mix_piece::<T, H, 1, 1>(values, d, first, spans, weights, out);
        first += 1;
    }
}

/// Runs the body for `0 .. N`, at most four times, unrolled: the sums of a rolled loop would live in memory.
macro_rules! unrolled {
    ($k:ident < $N:ident, $body:block) => { unrolled!(@ $k $N $body 0 1 2 3) };
    (@ $k:ident $N:ident $body:block $($n:literal)*) => {{
        $({ let $k: usize = $n; if $k < $N $body })*
    }};
}

/// Elements `first .. first + P L` of the outputs, as `P` vectors of `L`.
#[inline(always)]
fn mix_piece<T: Stored, const H: usize, const P: usize, const L: usize>(
    values: CacheRows<'_, T>,
    d: usize,
    first: usize,
    spans: &[Span],
    weights: &[f32],
    out: &mut [f32],
) {
    let n = weights.len() / H;
    let mut sums = [[[0.0f32; L]; P]; H];
    let mut done = 0;
    for span in spans {
        let mut of_heads = [&weights[..0]; H];
        unrolled!(h < H, { of_heads[h] = &weights[h * n + done..][..span.len] });
        done += span.len;
        let (values, row) = values.place(span);
        for j in 0..span.len {
            let at = (row + j) * d + first;
            let (values, _) = values[at..at + P * L].as_chunks::<L>();
            unrolled!(p < P, {
                let mut wide = [0.0; L];
                for l in 0..L {
                    wide[l] = values[p][l].value();
                }
                unrolled!(h < H, {
                    let weight = of_heads[h][j];
                    for l in 0..L {
                        sums[h][p][l] = weight.mul_add(wide[l], sums[h][p][l]);
                    }
                });
            });
        }
    }
    for (sums, out) in sums.iter().zip(out.chunks_exact_mut(d)) {
        out[first..first + P * L].copy_from_slice(sums.as_flattened());
    }
}

dispatch! {
    /// For each query, a row of `d` numbers: `out = sum_j softmax(s)_j v_j` over the rows of `spans`, where `s_j = q . k_j *
    /// scale`, or with a `cap` `cap * tanh(q . k_j * scale / cap)`. `scratch` has room for [`scratch_len`] numbers. Rows
    /// are accumulated in order, so how they are cut into spans changes nothing, nor which queries are together.
    ///
    /// # Panics
    /// If a row lies outside `keys` or `values`, `scratch` is too short, or `out` and `queries` differ in length or are not
    /// rows of `d`.
    pub fn attend(
        queries: &[f32],
        d: usize,
        keys: CacheRows<'_, f32>,
        values: CacheRows<'_, f32>,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scratch: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<f32>
}

dispatch! {
    /// As [`attend`] on keys and values in [f16](crate::half): the bits of [`attend`] on the widened ones.
    ///
    /// # Panics
    /// As [`attend`].
    pub fn attend_half(
        queries: &[f32],
        d: usize,
        keys: CacheRows<'_, u16>,
        values: CacheRows<'_, u16>,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scratch: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<u16>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::half::{narrow, widen};
    use crate::lanes::fold_add;
    use crate::softmax::softmax;

    /// Numbers that repeat late.
    fn numbers(k: usize, n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * k % 89) as f32 - 44.0) * 0.0371).collect()
    }

    /// Rows of `d` numbers as keys; what is not a row is NaN.
    fn keys_of<T: Copy>(rows: &[T], d: usize, nan: T) -> Vec<T> {
        let mut keys = vec![nan; (rows.len() / d).next_multiple_of(KEY_BLOCK) * d];
        for (row, key) in rows.chunks_exact(d).enumerate() {
            store_key(&mut keys, row, key);
        }
        keys
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        let mut sums = [0.0f32; LANES];
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            sums[i % LANES] = a.mul_add(*b, sums[i % LANES]);
        }
        fold_add(sums)
    }

    /// Attention of one query in the canonical order, row by row.
    fn reference(q: &[f32], k: &[f32], v: &[f32], rows: &[usize], scale: f32, cap: Option<f32>) -> Vec<f32> {
        let d = q.len();
        let mut weights: Vec<f32> = rows.iter().map(|r| dot(q, &k[r * d..][..d]) * scale).collect();
        if let Some(cap) = cap {
            weights.iter_mut().for_each(|s| *s = cap_lane(*s, cap));
        }
        softmax(Isa::scalar(), &mut weights);
        let mut out = vec![0.0f32; d];
        for (row, p) in rows.iter().zip(weights) {
            for (o, v) in out.iter_mut().zip(&v[row * d..][..d]) {
                *o = p.mul_add(*v, *o);
            }
        }
        out
    }

    #[test]
    fn the_bits_of_single_rows_on_every_tier_in_any_spans() {
        for (d, n) in [(64usize, 40usize), (80, 17), (5, 33), (24, 1), (150, 16), (128, 100)] {
            for heads in [1usize, 2, 3, 5, 8] {
                let q = numbers(7, heads * d);
                let [k, v] =
                    [11, 13].map(|p| numbers(p, n * d).into_iter().map(narrow).collect::<Vec<u16>>());
                let [wide_k, wide_v] = [&k, &v].map(|x| x.iter().map(|h| widen(*h)).collect::<Vec<f32>>());
                let (keys, half_keys) = (keys_of(&wide_k, d, f32::NAN), keys_of(&k, d, 0x7e00));
                let third = n / 3;
                for spans in [
                    vec![Span { first: 0, len: n }],
                    vec![Span { first: 0, len: 1 }, Span { first: 1, len: 0 }, Span { first: 1, len: n - 1 }],
                    // A gap, and not in order.
                    vec![Span { first: n - third, len: third }, Span { first: 0, len: n - third - n / 4 }],
                    vec![Span { first: n - 1, len: 1 }],
                ] {
                    let rows: Vec<usize> = spans.iter().flat_map(|s| s.first..s.first + s.len).collect();
                    for cap in [None, Some(3.0)] {
                        let expected: Vec<f32> = q
                            .chunks_exact(d)
                            .flat_map(|q| reference(q, &wide_k, &wide_v, &rows, 0.2, cap))
                            .collect();
                        for isa in Isa::available() {
                            let (mut s, mut out) =
                                (vec![f32::NAN; scratch_len(heads, d, n)], vec![f32::NAN; heads * d]);
                            let (ck, cv) = (CacheRows::new(&keys[..]), CacheRows::new(&wide_v[..]));
                            attend(isa, &q, d, ck, cv, &spans, 0.2, cap, &mut s, &mut out);
                            assert_eq!(out, expected, "{isa:?}, {heads} x {d}, {spans:?}");
                            out.fill(f32::NAN);
                            let (ck, cv) = (CacheRows::new(&half_keys[..]), CacheRows::new(&v[..]));
                            attend_half(isa, &q, d, ck, cv, &spans, 0.2, cap, &mut s, &mut out);
                            assert_eq!(out, expected, "{isa:?}, {heads} x {d}, {spans:?}, f16");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_in_two_places_give_the_bits_of_one() {
        let (d, n, cut) = (24usize, 43usize, 21usize);
        let (q, k, v) = (numbers(7, d), numbers(11, n * d), numbers(13, n * d));
        let spans = [Span { first: 0, len: cut }, Span { first: cut, len: n - cut }];
        let all: Vec<usize> = (0..n).collect();
        let expected = reference(&q, &k, &v, &all, 0.2, None);
        let [before, after] = [&k[..cut * d], &k[cut * d..]].map(|k| keys_of(k, d, f32::NAN));
        let keys = CacheRows::after(&before, cut, &after);
        let values = CacheRows::after(&v[..cut * d], cut, &v[cut * d..]);
        for isa in Isa::available() {
            let (mut s, mut out) = (vec![0.0; n], vec![0.0; d]);
            attend(isa, &q, d, keys, values, &spans, 0.2, None, &mut s, &mut out);
            assert_eq!(out, expected, "{isa:?}");
        }
    }

    #[test]
    fn equal_to_the_formula() {
        for (d, n, scale, cap) in [(64usize, 30usize, 0.125, None), (16, 9, 1.0f32, Some(2.0f64))] {
            let (q, k, v) = (numbers(7, d), numbers(11, n * d), numbers(13, n * d));
            let (mut s, mut out) = (vec![0.0; n], vec![0.0; d]);
            let keys = keys_of(&k, d, f32::NAN);
            let (keys, values) = (CacheRows::new(&keys[..]), CacheRows::new(&v[..]));
            let spans = [Span { first: 0, len: n }];
            let of_f32 = cap.map(|c| c as f32);
            attend(Isa::scalar(), &q, d, keys, values, &spans, scale, of_f32, &mut s, &mut out);
            let score = |j: usize| -> f64 {
                let s =
                    (0..d).map(|i| f64::from(q[i]) * f64::from(k[j * d + i])).sum::<f64>() * f64::from(scale);
                cap.map_or(s, |c| c * (s / c).tanh())
            };
            assert!(cap.is_none_or(|c| (0..n).any(|j| score(j).abs() > 0.9 * c)), "the cap is felt");
            let top = (0..n).map(score).fold(f64::MIN, f64::max);
            let z: f64 = (0..n).map(|j| (score(j) - top).exp()).sum();
            for i in 0..d {
                let exact: f64 = (0..n).map(|j| (score(j) - top).exp() / z * f64::from(v[j * d + i])).sum();
                // A product is below 1.65^2 = 2.73; d of them are summed with d roundings of 2^-24, the cap is off by 3e-7
                // itself, and a weight by twice as much as its exponent, of values below 1.65.
                let exponent = (d * d) as f64 * 2.73 * 6e-8 * f64::from(scale) + 3e-7;
                assert!((f64::from(out[i]) - exact).abs() < 1.65 * 2.0 * exponent);
            }
        }
    }
}
