//! Decoding the elements of every tensor type to f32, 32 at a time.
//!
//! Sources: the block structs of `ggml-common.h` and the `dequantize_row_*` functions of `ggml-quants.c` in
//! `ggml-org/ggml`, which define each type; the order of the f32 operations is theirs, so the values are equal
//! bit for bit.

use super::TensorKind;

/// Elements that [`TensorKind::decode_group`] decodes together. Every quantized type's block is a multiple of it.
pub const DECODE_GROUP: usize = 32;

/// The values of IQ4_NL's codes.
pub(crate) const IQ4_NL_VALUES: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of MXFP4's codes: sign, two bits of exponent, one of mantissa.
pub(crate) const MXFP4_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

impl TensorKind {
    /// Decodes elements `32 group .. 32 group + 32` of a row; `row` holds the whole row as stored.
    ///
    /// ```
    /// use fura_model::gguf::TensorKind;
    ///
    /// let row: Vec<u8> = (0..32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    /// let mut out = [0.0; 32];
    /// TensorKind::F32.decode_group(&row, 0, &mut out);
    /// assert_eq!(out[31], 31.0);
    /// ```
    ///
    /// # Panics
    /// If the row is shorter than that.
    pub fn decode_group(self, row: &[u8], group: usize, out: &mut [f32; DECODE_GROUP]) {
        let first = group * DECODE_GROUP;
        let (block, part) = (first / self.block_len(), first % self.block_len() / DECODE_GROUP);
        let size = self.block_bytes();
        match self {
            Self::F32 | Self::F16 | Self::BF16 => {
                let bytes = &row[first * size..(first + DECODE_GROUP) * size];
                for (o, b) in out.iter_mut().zip(bytes.chunks_exact(size)) {
                    *o = self.float(b);
                }
            }
            _ => {
                let block = &row[block * size..(block + 1) * size];
                match self {
                    Self::Q4_0 => q4_0(block, out),
                    Self::Q4_1 => q4_1(block, out),
                    Self::Q5_0 => q5_0(block, out),
                    Self::Q5_1 => q5_1(block, out),
                    Self::Q8_0 => q8_0(block, out),
                    Self::Q2_K => q2_k(block, part, out),
                    Self::Q3_K => q3_k(block, part, out),
                    Self::Q4_K => q4_k(block, part, out),
                    Self::Q5_K => q5_k(block, part, out),
                    Self::Q6_K => q6_k(block, part, out),
                    Self::IQ4_NL => iq4_nl(block, out),
                    // The unquantized types were decoded above.
                    Self::MXFP4 | Self::F32 | Self::F16 | Self::BF16 => mxfp4(block, out),
                }
            }
        }
    }
}

impl TensorKind {
    /// All values of a tensor that is not quantized; `None` of a quantized one.
    pub(crate) fn floats(self, bytes: &[u8]) -> Option<Vec<f32>> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => {
                Some(bytes.chunks_exact(self.block_bytes()).map(|b| self.float(b)).collect())
            }
            _ => None,
        }
    }

    /// An element of a type that is not quantized.
    fn float(self, b: &[u8]) -> f32 {
        match self {
            Self::F32 => f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            Self::F16 => f16(b, 0),
            _ => half::bf16::from_le_bytes([b[0], b[1]]).to_f32(),
        }
    }
}

type Group = [f32; DECODE_GROUP];

pub(crate) fn f16(bytes: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Code `i` of 16 bytes of nibbles: the first 16 are the low ones.
pub(crate) fn nibble(bytes: &[u8], i: usize) -> u8 {
    if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 }
}

/// Code `i` of a Q5_0 or Q5_1 block: bit 4 comes from a 32-bit word at `at`, the nibbles follow it.
pub(crate) fn five_bits(block: &[u8], at: usize, i: usize) -> u8 {
    nibble(&block[at + 4..], i) | (block[at + i / 8] >> (i % 8) & 1) << 4
}

fn q4_0(b: &[u8], out: &mut Group) {
    let d = f16(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * (f32::from(nibble(&b[2..], i)) - 8.0);
    }
}

fn q4_1(b: &[u8], out: &mut Group) {
    let (d, m) = (f16(b, 0), f16(b, 2));
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * f32::from(nibble(&b[4..], i)) + m;
    }
}

fn q5_0(b: &[u8], out: &mut Group) {
    let d = f16(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * (f32::from(five_bits(b, 2, i)) - 16.0);
    }
}

fn q5_1(b: &[u8], out: &mut Group) {
    let (d, m) = (f16(b, 0), f16(b, 2));
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * f32::from(five_bits(b, 4, i)) + m;
    }
}

fn q8_0(b: &[u8], out: &mut Group) {
    let d = f16(b, 0);
    for (o, q) in out.iter_mut().zip(&b[2..]) {
        *o = d * f32::from(q.cast_signed());
    }
}

/// 16 bytes of (scale, minimum) nibbles, 64 bytes of 2-bit codes, f16 scale and minimum of the block.
fn q2_k(b: &[u8], part: usize, out: &mut Group) {
    let (d, min) = (f16(b, 80), f16(b, 82));
    let codes = &b[16 + part / 4 * 32..][..32];
    for (i, o) in out.iter_mut().enumerate() {
        let scale = b[2 * part + i / 16];
        let q = codes[i] >> (2 * (part % 4)) & 3;
        *o = d * f32::from(scale & 15) * f32::from(q) - min * f32::from(scale >> 4);
    }
}

/// 32 bytes of high bits, 64 of 2 low bits, 12 of 6-bit scales, f16 scale of the block.
fn q3_k(b: &[u8], part: usize, out: &mut Group) {
    let d = f16(b, 108);
    let (high, codes, scales) = (&b[..32], &b[32 + part / 4 * 32..][..32], &b[96..108]);
    for (i, o) in out.iter_mut().enumerate() {
        let k = 2 * part + i / 16;
        let low = if k < 8 { scales[k] & 15 } else { scales[k - 8] >> 4 };
        let scale = low | (scales[8 + k % 4] >> (2 * (k / 4)) & 3) << 4;
        let q = codes[i] >> (2 * (part % 4)) & 3 | (high[i] >> part & 1) << 2;
        *o = d * (f32::from(scale) - 32.0) * (f32::from(q) - 4.0);
    }
}

/// Scale and minimum `k` of the 12 bytes of 6-bit pairs of a Q4_K or Q5_K block.
pub(crate) fn scale_min(b: &[u8], k: usize) -> (f32, f32) {
    let (scale, min) = if k < 4 {
        (b[k] & 63, b[k + 4] & 63)
    } else {
        (b[k + 4] & 15 | (b[k - 4] >> 6) << 4, b[k + 4] >> 4 | (b[k] >> 6) << 4)
    };
    (f32::from(scale), f32::from(min))
}

/// Code `i` of part `part` of 128 bytes of nibbles: 64 elements share 32 bytes.
pub(crate) fn k_nibble(codes: &[u8], part: usize, i: usize) -> u8 {
    codes[part / 2 * 32 + i] >> (4 * (part % 2)) & 15
}

/// f16 scale and minimum of the block, 12 bytes of 6-bit pairs, 128 bytes of nibbles.
fn q4_k(b: &[u8], part: usize, out: &mut Group) {
    let (scale, min) = scale_min(&b[4..16], part);
    let (d, m) = (f16(b, 0) * scale, f16(b, 2) * min);
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * f32::from(k_nibble(&b[16..], part, i)) - m;
    }
}

/// As Q4_K with 32 bytes of high bits before the nibbles.
fn q5_k(b: &[u8], part: usize, out: &mut Group) {
    let (scale, min) = scale_min(&b[4..16], part);
    let (d, m) = (f16(b, 0) * scale, f16(b, 2) * min);
    for (i, o) in out.iter_mut().enumerate() {
        let q = k_nibble(&b[48..], part, i) | (b[16 + i] >> part & 1) << 4;
        *o = d * f32::from(q) - m;
    }
}

/// 128 bytes of low nibbles, 64 of 2 high bits, 16 i8 scales, f16 scale of the block.
fn q6_k(b: &[u8], part: usize, out: &mut Group) {
    let d = f16(b, 208);
    let (half, j) = (part / 4, part % 4);
    let (low, high) = (&b[64 * half + 32 * (j % 2)..], &b[128 + 32 * half..]);
    for (i, o) in out.iter_mut().enumerate() {
        let scale = b[192 + 8 * half + 2 * j + i / 16].cast_signed();
        let q = low[i] >> (4 * (j / 2)) & 15 | (high[i] >> (2 * j) & 3) << 4;
        *o = d * f32::from(scale) * (f32::from(q) - 32.0);
    }
}

fn iq4_nl(b: &[u8], out: &mut Group) {
    let d = f16(b, 0);
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * f32::from(IQ4_NL_VALUES[usize::from(nibble(&b[2..], i))]);
    }
}

/// Half of MXFP4's block scale `2^(e - 127)`, exactly: the codes are doubled to be integers.
pub(crate) fn mxfp4_half_scale(e: u8) -> f32 {
    // Below 2^-126 an f32 is a denormal with the bits of its mantissa alone.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

fn mxfp4(b: &[u8], out: &mut Group) {
    let d = mxfp4_half_scale(b[0]);
    for (i, o) in out.iter_mut().enumerate() {
        *o = d * f32::from(MXFP4_DOUBLED[usize::from(nibble(&b[1..], i))]);
    }
}
