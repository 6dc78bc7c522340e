//! Activations quantized to integers, one f32 scale for each group of 32 channels of a row.

use crate::code::Code;
use crate::format::GROUP;
use fura_simd::Isa;

/// Quantized rows, in buffers that are reused from call to call.
///
/// For each group, with `most` 127 for codes of 8 bits and 32512 for 16: `scale = amax / most`, `code = round(x * (most /
/// amax))` ties to even, in `-most..=most`. A group of zeros, or with `amax` below `2^-119` (16 bits: `2^-111`), has scale 0
/// and codes 0. A group with an infinity or NaN has codes 0 and scale NaN, so that the rows it feeds come out NaN on every
/// tier instead of plausible.
///
/// ```
/// use fura_quant::Activations;
/// let mut x = [0.0f32; 32];
/// x[3] = -2.0;
/// let mut a = Activations::<i8>::with_capacity(1, 32);
/// a.quantize(fura_simd::Isa::detect(), &x, 32);
/// assert_eq!(a.view().group(0, 0).codes[3], -127);
/// let mut a = Activations::<i16>::with_capacity(1, 32);
/// a.quantize(fura_simd::Isa::detect(), &x, 32);
/// assert_eq!(a.view().group(0, 0).codes[3], -32512);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Activations<C: Code = i8> {
    d_in: usize,
    rows: usize,
    groups: Vec<RowBlock<C>>,
}

/// Rows that are stored together.
///
/// Group `g` of twelve consecutive rows lies in one [`RowBlock`], so a kernel that works on up to twelve rows reads
/// one stream. Twelve is three times the four rows or twice the six that kernels take at once.
pub const ROW_BLOCK: usize = 12;

/// The same group of [`ROW_BLOCK`] consecutive rows. Rows that are not there hold old values or zeros: kernels may
/// compute with them and drop the results.
#[derive(Clone, Debug, Default)]
pub struct RowBlock<C: Code = i8> {
    pub(crate) codes: C::Rows,
    pub(crate) scale: [f32; ROW_BLOCK],
    /// `-8 * sum`: undoes the offset of unsigned 4-bit codes.
    pub(crate) offset: [i32; ROW_BLOCK],
    pub(crate) weighted: [f32; ROW_BLOCK],
}

impl<C: Code> RowBlock<C> {
    #[inline(always)]
    fn set(&mut self, row: usize, group: &ActivationGroup<C>) {
        C::set(&mut self.codes, row, &group.codes);
        self.scale[row] = group.scale;
        self.offset[row] = -8 * group.sum;
        self.weighted[row] = group.weighted;
    }

    fn get(&self, row: usize) -> ActivationGroup<C> {
        let codes = C::get(&self.codes, row);
        let (scale, sum, weighted) = (self.scale[row], self.offset[row] / -8, self.weighted[row]);
        ActivationGroup { codes, scale, sum, weighted }
    }
}

/// 32 quantized channels of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActivationGroup<C: Code = i8> {
    /// The codes, -127..=127 or -32512..=32512.
    pub codes: [C; GROUP],
    /// What a code of 1 stands for.
    pub scale: f32,
    /// Sum of the codes: undoes the offset of unsigned weight codes.
    pub sum: i32,
    /// `scale * sum`: what a weight group's minimum is multiplied by.
    pub weighted: f32,
}

/// Borrowed quantized rows (a whole [`Activations`] or some of its rows).
#[derive(Clone, Copy, Debug)]
pub struct ActivationRows<'a, C: Code = i8> {
    groups_per_row: usize,
    rows: usize,
    /// Row block `k` is `groups[k * groups_per_row ..][.. groups_per_row]`.
    groups: &'a [RowBlock<C>],
}

impl<C: Code> Activations<C> {
    /// Room for `rows` rows of up to `d_in` channels without further allocation.
    pub fn with_capacity(rows: usize, d_in: usize) -> Self {
        let groups = Vec::with_capacity(rows.div_ceil(ROW_BLOCK) * d_in.div_ceil(GROUP));
        Self { d_in, rows: 0, groups }
    }

    /// Quantizes the rows in `x`, replacing what was there.
    ///
    /// # Panics
    /// If `d_in` is not a positive multiple of 32 or `x` is not whole rows.
    pub fn quantize(&mut self, isa: Isa, x: &[f32], d_in: usize) {
        assert!(d_in > 0 && x.len().is_multiple_of(d_in));
        self.begin(x.len() / d_in, d_in);
        self.quantize_from(isa, 0, x);
    }

    /// Makes room for `rows` rows, which follow piece by piece with [`quantize_from`](Self::quantize_from).
    ///
    /// # Panics
    /// If `d_in` is not a positive multiple of 32.
    pub fn begin(&mut self, rows: usize, d_in: usize) {
        assert!(d_in > 0 && d_in.is_multiple_of(GROUP));
        (self.d_in, self.rows) = (d_in, rows);
        self.groups.resize(rows.div_ceil(ROW_BLOCK) * (d_in / GROUP), RowBlock::default());
    }

    /// Quantizes the rows in `x` as those from `first` on.
    ///
    /// # Panics
    /// If `first` is not a multiple of [`ROW_BLOCK`] or `x` is not whole rows that there is room for.
    pub fn quantize_from(&mut self, isa: Isa, first: usize, x: &[f32]) {
        let rows = x.len() / self.d_in;
        assert!(first.is_multiple_of(ROW_BLOCK) && x.len().is_multiple_of(self.d_in));
        assert!(first + rows <= self.rows);
        let groups = self.d_in / GROUP;
        let blocks = first / ROW_BLOCK * groups..(first + rows).div_ceil(ROW_BLOCK) * groups;
        C::quantize(isa, x, self.d_in, &mut self.groups[blocks]);
    }

    /// All rows.
    pub fn view(&self) -> ActivationRows<'_, C> {
        ActivationRows { groups_per_row: self.d_in / GROUP, rows: self.rows, groups: &self.groups }
    }
}

impl<'a, C: Code> ActivationRows<'a, C> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input channels of a row.
    pub fn d_in(&self) -> usize {
        self.groups_per_row * GROUP
    }

    /// Rows `first .. first + count`; `first` is a multiple of [`ROW_BLOCK`].
    ///
    /// # Panics
    /// If they are not all there or `first` is not such a multiple.
    pub fn slice(&self, first: usize, count: usize) -> ActivationRows<'a, C> {
        assert!(first.is_multiple_of(ROW_BLOCK) && first + count <= self.rows);
        let n = self.groups_per_row;
        let groups = &self.groups[first / ROW_BLOCK * n..][..count.div_ceil(ROW_BLOCK) * n];
        ActivationRows { groups_per_row: n, rows: count, groups }
    }

    /// The groups of row block `block`, and how many of its rows are there.
    pub(crate) fn block(&self, block: usize) -> (&'a [RowBlock<C>], usize) {
        let n = self.groups_per_row;
        (&self.groups[block * n..][..n], ROW_BLOCK.min(self.rows - block * ROW_BLOCK))
    }

    /// One group of one row.
    ///
    /// # Panics
    /// If there is no such row or group.
    pub fn group(&self, row: usize, group: usize) -> ActivationGroup<C> {
        assert!(row < self.rows && group < self.groups_per_row);
        self.groups[row / ROW_BLOCK * self.groups_per_row + group].get(row % ROW_BLOCK)
    }
}

/// `(most / amax, amax / most)` of a group whose largest magnitude has the bits `top`; `None` if it is infinite or
/// NaN, which compare above every number. Below [`LEAST`](crate::code::layout::Layout::LEAST) a group counts as zeros.
#[inline(always)]
pub(crate) fn scales<C: Code>(top: u32) -> Option<(f32, f32)> {
    if top >= f32::INFINITY.to_bits() {
        return None;
    }
    let amax = f32::from_bits(top);
    Some(if amax >= C::LEAST { (C::MOST / amax, amax / C::MOST) } else { (0.0, 0.0) })
}

/// `1.5 * 2^23`: after adding it the low bits of an f32 are the rounded integer (ties to even).
pub(crate) const ROUND: f32 = 12_582_912.0;

impl<C: Code> ActivationGroup<C> {
    /// What stands for a group with an infinity or NaN: neither may reach the integers.
    pub(crate) fn not_finite() -> Self {
        Self { codes: [C::default(); GROUP], scale: f32::NAN, sum: 0, weighted: f32::NAN }
    }
}

/// Calls `f` for each group of each row and stores what it makes of it.
#[inline(always)]
pub(crate) fn for_each_group<C: Code>(
    x: &[f32],
    d_in: usize,
    groups: &mut [RowBlock<C>],
    mut f: impl FnMut(&[f32; GROUP], &mut ActivationGroup<C>),
) {
    for (rows, blocks) in x.chunks(d_in * ROW_BLOCK).zip(groups.chunks_exact_mut(d_in / GROUP)) {
        for (r, row) in rows.chunks_exact(d_in).enumerate() {
            let (row, _) = row.as_chunks::<GROUP>();
            for (x, block) in row.iter().zip(blocks.iter_mut()) {
                let mut group = ActivationGroup::default();
                f(x, &mut group);
                block.set(r, &group);
            }
        }
    }
}
