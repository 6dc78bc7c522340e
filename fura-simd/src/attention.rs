//! Attention of queries that share keys and values, those of several heads and of several rows, over a cache of them whose
//! rows may lie in several spans.
//!
//! Keys lie sixteen side by side, so that the products of a query with sixteen keys are sums of vectors, and none has to be
//! summed up within one.

use crate::elementwise::cap_lane;
use crate::lanes::{LANES, Stored};
use crate::softmax::softmax_body;
use std::ops::Range;

/// Keys that lie side by side.
pub const KEY_BLOCK: usize = LANES;

/// Values that are summed for all queries before the next ones.
const VALUES: usize = 32;

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

/// Runs the body for `0 .. N`, at most six times, unrolled: the sums of a rolled loop would live in memory.
macro_rules! unrolled {
    ($k:ident < $N:expr, $body:block) => { unrolled!(@ $k $N; $body 0 1 2 3 4 5) };
    (@ $k:ident $N:expr; $body:block $($n:literal)*) => {{
        $({ let $k: usize = $n; if $k < $N $body })*
    }};
}

/// Two queries read keys together, and six sum values together, `P` vectors at a time: as many as registers keep.
#[inline(always)]
fn attend_body<T: Stored, const P: usize>(
    queries: &[f32],
    rows: usize,
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
    assert!(d > 0 && rows > 0 && queries.len().is_multiple_of(rows * d), "attend: queries of another width");
    let n: usize = spans.iter().map(|s| s.len).sum();
    let heads = queries.len() / (rows * d);
    // What the first row sees; each further one sees one more.
    let common = (n + 1).checked_sub(rows).expect("attend: more rows than they see");
    out.fill(0.0);
    if n == 0 || heads == 0 {
        return;
    }
    let (scores, wide) = scratch.split_at_mut(queries.len() / d * n);
    score(queries, d, keys, spans, scale, scores, wide);
    for (seen, scores) in (common..).zip(scores.chunks_exact_mut(heads * n)) {
        for scores in scores.chunks_exact_mut(n) {
            let scores = &mut scores[..seen];
            if let Some(cap) = cap {
                for s in scores.iter_mut() {
                    *s = cap_lane(*s, cap);
                }
            }
            softmax_body(scores);
        }
    }
    // Some values at a time, for all heads: they stay close by, and their sums wait in `out`.
    let mut done = 0;
    for span in spans {
        let (values, first) = values.place(span);
        let mut row = first;
        while row < first + span.len {
            // Those that only the later rows see go one by one.
            let (count, from) = match common.checked_sub(done) {
                None | Some(0) => (1, (done + 1 - common) * heads),
                Some(left) => (VALUES.min(first + span.len - row).min(left), 0),
            };
            let values = T::widened(&values[row * d..(row + count) * d], wide);
            mix::<P>(values, d, &scores[from * n..], n, done, &mut out[from * d..]);
            (row, done) = (row + count, done + count);
        }
    }
}

/// The scores of all queries, a block of keys after the other.
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
            for (queries, scores) in queries.chunks(2 * d).zip(scores.chunks_mut(2 * n)) {
                let lanes = lane..lane + count;
                match queries.len() / d {
                    1 => score_block::<1>(queries, d, block, scale, lanes, done, n, scores),
                    _ => score_block::<2>(queries, d, block, scale, lanes, done, n, scores),
                }
            }
            (row, done) = (row + count, done + count);
        }
    }
}

/// The scores of `Q` queries with some of the keys of a block.
#[inline(always)]
fn score_block<const Q: usize>(
    queries: &[f32],
    d: usize,
    block: &[f32],
    scale: f32,
    lanes: Range<usize>,
    done: usize,
    n: usize,
    scores: &mut [f32],
) {
    let mut each = [&queries[..0]; Q];
    unrolled!(q < Q, { each[q] = &queries[q * d..][..d] });
    let all = dots(each, block);
    unrolled!(q < Q, {
        // Lanes of other rows are not looked at, whatever they hold.
        let mut all = all[q];
        all.iter_mut().for_each(|s| *s *= scale);
        let scores = &mut scores[q * n + done..][..lanes.len()];
        match scores.first_chunk_mut() {
            Some(scores) => *scores = all,
            None => scores.copy_from_slice(&all[lanes.clone()]),
        }
    });
}

/// Numbers of scratch that [`attend_half`] needs for so many queries of `d` numbers, all rows counted, and cached rows;
/// [`attend`] needs no more.
pub const fn scratch_len(queries: usize, d: usize, cached: usize) -> usize {
    queries * cached + if VALUES > KEY_BLOCK { VALUES } else { KEY_BLOCK } * d
}

/// The product of `Q` queries and each of sixteen keys, a key a lane. Each is the canonical one: element `i` is added to sum
/// `i mod 16`, then the sums are [folded](crate::lanes::fold_add).
#[inline(always)]
fn dots<const Q: usize>(queries: [&[f32]; Q], block: &[f32]) -> [[f32; LANES]; Q] {
    let (keys, _) = block.as_chunks::<LANES>();
    let whole: [&[[f32; LANES]]; Q] = queries.map(|q| q.as_chunks().0);
    let tail: [&[f32]; Q] = queries.map(|q| q.as_chunks::<LANES>().1);
    let (blocks, keys_tail) = keys.as_chunks::<LANES>();
    // The tree of `fold_add` ends in (0 + 2) + (1 + 3), each the sum of four lanes, which is again (0 + 2) + (1 + 3). One such
    // sum at a time, in a loop that is not unrolled: else all of them wait for registers.
    let mut quarters = [[[0.0f32; LANES]; Q]; 4];
    for (g, quarter) in quarters.iter_mut().enumerate() {
        let mut halves = [[[0.0; LANES]; Q]; 2];
        unrolled!(half < 2, {
            let (low, high) = (g + 4 * half, g + 4 * half + 8);
            let mut sums = [[[0.0f32; LANES]; 2]; Q];
            for (b, keys) in blocks.iter().enumerate() {
                unrolled!(q < Q, {
                    let x = [whole[q][b][low], whole[q][b][high]];
                    for l in 0..LANES {
                        sums[q][0][l] = x[0].mul_add(keys[low][l], sums[q][0][l]);
                        sums[q][1][l] = x[1].mul_add(keys[high][l], sums[q][1][l]);
                    }
                });
            }
            unrolled!(s < 2, {
                if let Some(key) = keys_tail.get(low + 8 * s) {
                    unrolled!(q < Q, {
                        for l in 0..LANES {
                            sums[q][s][l] = tail[q][low + 8 * s].mul_add(key[l], sums[q][s][l]);
                        }
                    });
                }
            });
            unrolled!(q < Q, {
                for l in 0..LANES {
                    halves[half][q][l] = sums[q][0][l] + sums[q][1][l];
                }
            });
        });
        unrolled!(q < Q, {
            for l in 0..LANES {
                quarter[q][l] = halves[0][q][l] + halves[1][q][l];
            }
        });
    }
    let mut out = [[0.0; LANES]; Q];
    unrolled!(q < Q, {
        for l in 0..LANES {
            out[q][l] = (quarters[0][q][l] + quarters[2][q][l]) + (quarters[1][q][l] + quarters[3][q][l]);
        }
    });
    out
}

/// Adds to the sums of heads, rows of `out`, some rows of values with weights `at ..` of their `n`.
#[inline(always)]
fn mix<const P: usize>(values: &[f32], d: usize, weights: &[f32], n: usize, at: usize, out: &mut [f32]) {
    let (mut weights, mut out) = (weights, out);
    while !out.is_empty() {
        let heads = match out.len() / d {
            1 => mix_heads::<P, 1>(values, d, weights, n, at, out),
            2 => mix_heads::<P, 2>(values, d, weights, n, at, out),
            3..6 => mix_heads::<P, 3>(values, d, weights, n, at, out),
            _ => mix_heads::<P, 6>(values, d, weights, n, at, out),
        };
        weights = &weights[heads * n..];
        out = &mut out[heads * d..];
    }
}

/// The same for `H` heads; returns `H`.
#[inline(always)]
fn mix_heads<const P: usize, const H: usize>(
    values: &[f32],
    d: usize,
    weights: &[f32],
    n: usize,
    at: usize,
    out: &mut [f32],
) -> usize {
    let mut of_heads = [&weights[..0]; H];
    unrolled!(h < H, { of_heads[h] = &weights[h * n + at..][..values.len() / d] });
    // Pieces whose sums stay in registers while the rows go by.
    let mut first = 0;
    if H == 1 {
        while d - first >= 4 * LANES {
            mix_piece::<H, 4, LANES>(values, d, first, of_heads, out);
            first += 4 * LANES;
        }
    }
    while d - first >= P * LANES {
        mix_piece::<H, P, LANES>(values, d, first, of_heads, out);
        first += P * LANES;
    }
    while d - first >= LANES {
        mix_piece::<H, 1, LANES>(values, d, first, of_heads, out);
        first += LANES;
    }
    while first < d {
        mix_piece::<H, 1, 1>(values, d, first, of_heads, out);
        first += 1;
    }
    H
}

/// Elements `first .. first + P L` of the sums, as `P` vectors of `L`.
#[inline(always)]
fn mix_piece<const H: usize, const P: usize, const L: usize>(
    values: &[f32],
    d: usize,
    first: usize,
    weights: [&[f32]; H],
    out: &mut [f32],
) {
    let mut sums = [[[0.0f32; L]; P]; H];
    unrolled!(h < H, {
        let (from, _) = out[h * d + first..][..P * L].as_chunks::<L>();
        unrolled!(p < P, { sums[h][p] = from[p] });
    });
    for (j, values) in values.chunks_exact(d).enumerate() {
        let (values, _) = values[first..first + P * L].as_chunks::<L>();
        unrolled!(p < P, {
            unrolled!(h < H, {
                let weight = weights[h][j];
                for l in 0..L {
                    sums[h][p][l] = weight.mul_add(values[p][l], sums[h][p][l]);
                }
            });
        });
    }
    unrolled!(h < H, {
        let (to, _) = out[h * d + first..][..P * L].as_chunks_mut::<L>();
        unrolled!(p < P, { to[p] = sums[h][p] });
    });
}

dispatch! {
    /// For each query of `d` numbers: `out = sum_j softmax(s)_j v_j` over the cached rows of `spans`, where `s_j = q . k_j *
    /// scale`, or with a `cap` `cap * tanh(q . k_j * scale / cap)`. Queries of several `rows` may follow each other, as many
    /// for each: the last row's see all of `spans`, those of each row before one cached row less at the end. `scratch` has
    /// room for [`scratch_len`] numbers. Cached rows are accumulated in order, so how they are cut into spans changes nothing,
    /// nor which queries are together.
    ///
    /// # Panics
    /// If a row lies outside `keys` or `values`, there are more `rows` than cached ones and one, `scratch` is too short, or
    /// `out` and `queries` differ in length or are not `rows` times some of `d`.
    pub fn attend(
        queries: &[f32],
        rows: usize,
        d: usize,
        keys: CacheRows<'_, f32>,
        values: CacheRows<'_, f32>,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scratch: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<f32, 1>, avx512: attend_body::<f32, 2>
}

dispatch! {
    /// As [`attend`] on keys and values in [f16](crate::half): the bits of [`attend`] on the widened ones.
    ///
    /// # Panics
    /// As [`attend`].
    pub fn attend_half(
        queries: &[f32],
        rows: usize,
        d: usize,
        keys: CacheRows<'_, u16>,
        values: CacheRows<'_, u16>,
        spans: &[Span],
        scale: f32,
        cap: Option<f32>,
        scratch: &mut [f32],
        out: &mut [f32],
    ) = attend_body::<u16, 1>, avx512: attend_body::<u16, 2>
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
    fn the_bits_of_single_cached_rows_on_every_tier_in_any_spans() {
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
                            attend(isa, &q, 1, d, ck, cv, &spans, 0.2, cap, &mut s, &mut out);
                            assert_eq!(out, expected, "{isa:?}, {heads} x {d}, {spans:?}");
                            out.fill(f32::NAN);
                            let (ck, cv) = (CacheRows::new(&half_keys[..]), CacheRows::new(&v[..]));
                            attend_half(isa, &q, 1, d, ck, cv, &spans, 0.2, cap, &mut s, &mut out);
                            assert_eq!(out, expected, "{isa:?}, {heads} x {d}, {spans:?}, f16");
                        }
                    }
                }
            }
        }
    }

    /// Also where the last value is not a number, which only the last row sees.
    #[test]
    fn rows_that_see_one_more_each_have_the_bits_of_single_ones() {
        for (d, n, heads) in [(64usize, 75usize, 3usize), (24, 12, 2), (80, 40, 1), (16, 5, 4)] {
            let [k, v] = [11, 13].map(|p| numbers(p, n * d).into_iter().map(narrow).collect::<Vec<u16>>());
            let wide = |x: &[u16]| x.iter().map(|h| widen(*h)).collect::<Vec<f32>>();
            let (keys, half_keys) = (keys_of(&wide(&k), d, f32::NAN), keys_of(&k, d, 0x7e00));
            let last_missing = [&v[..(n - 1) * d], &vec![0x7e00; d][..]].concat();
            let seen: Vec<usize> = (0..n).collect();
            let cut = n / 2;
            for (rows, v) in
                [2usize, 3, 4, 6].into_iter().flat_map(|rows| [(rows, &v), (rows, &last_missing)])
            {
                let (q, wide_v) = (numbers(7, rows * heads * d), wide(v));
                let expected: Vec<u32> = (0..rows * heads)
                    .flat_map(|i| {
                        let seen = &seen[..n + 1 + i / heads - rows];
                        reference(&q[i * d..][..d], &wide(&k), &wide_v, seen, 0.2, Some(3.0))
                    })
                    .map(f32::to_bits)
                    .collect();
                let one = vec![Span { first: 0, len: n }];
                let two = vec![Span { first: 0, len: cut }, Span { first: cut, len: n - cut }];
                for (isa, spans) in Isa::available().flat_map(|isa| [(isa, &one), (isa, &two)]) {
                    let mut s = vec![f32::NAN; scratch_len(rows * heads, d, n)];
                    let mut out = [vec![f32::NAN; q.len()], vec![f32::NAN; q.len()]];
                    let (ck, cv) = (CacheRows::new(&keys[..]), CacheRows::new(&wide_v[..]));
                    attend(isa, &q, rows, d, ck, cv, spans, 0.2, Some(3.0), &mut s, &mut out[0]);
                    let (ck, cv) = (CacheRows::new(&half_keys[..]), CacheRows::new(&v[..]));
                    attend_half(isa, &q, rows, d, ck, cv, spans, 0.2, Some(3.0), &mut s, &mut out[1]);
                    for out in out {
                        for (got, expected) in out.iter().zip(&expected) {
                            let both_nan = got.is_nan() && f32::from_bits(*expected).is_nan();
                            assert!(
                                got.to_bits() == *expected || both_nan,
                                "{isa:?}, {rows} rows of {heads} x {d}, {spans:?}"
                            );
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
            attend(isa, &q, 1, d, keys, values, &spans, 0.2, None, &mut s, &mut out);
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
            attend(Isa::scalar(), &q, 1, d, keys, values, &spans, scale, of_f32, &mut s, &mut out);
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
