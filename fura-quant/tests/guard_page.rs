//! Kernels on buffers that end where memory ends: one byte read or written past the weights, the activations or the
//! outputs ends the test with SIGBUS, and the results are those on ordinary buffers.

use fura_quant::{Activations, Code, Format, PackedMatrix, SourceMatrix, TILE, pack};
use fura_simd::Isa;
use memmap2::{MmapOptions, MmapRaw};
use std::slice;

/// A whole number of pages on every Linux: pages have 4, 16 or 64 KiB.
const PAGES: usize = 64 << 10;

/// Memory whose end is the end of what may be touched.
struct Guarded {
    map: MmapRaw,
    bytes: usize,
}

impl Guarded {
    /// Zeros, `bytes` of them before the guard.
    ///
    /// The mapping is longer than its file. Its pages past the end of the file cannot be touched, by POSIX.
    fn new(bytes: usize) -> Self {
        let file = tempfile::tempfile().unwrap();
        let backed = bytes.next_multiple_of(PAGES);
        file.set_len(backed as u64).unwrap();
        let map = MmapOptions::new().len(backed + PAGES).map_raw(&file).unwrap();
        Self { map, bytes }
    }

    /// A copy of `values` that ends at the guard.
    fn holding<T: Plain>(values: &[T]) -> Self {
        let mut guarded = Self::new(size_of_val(values));
        guarded.as_mut::<T>().copy_from_slice(values);
        guarded
    }

    /// Offset of the buffer in the mapping.
    fn start(&self) -> usize {
        self.bytes.next_multiple_of(PAGES) - self.bytes
    }

    fn as_ref<T: Plain>(&self) -> &[T] {
        // SAFETY: the range lies in the part of the mapping that the file backs, which only `self` and what borrows it
        // can reach. `bytes` is a multiple of the element size, hence of its alignment; so is the end of the range,
        // hence its start. Every bit pattern is a `T`.
        unsafe {
            slice::from_raw_parts(self.map.as_ptr().add(self.start()).cast(), self.bytes / size_of::<T>())
        }
    }

    fn as_mut<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as above, and the slice borrows `self` mutably.
        unsafe {
            slice::from_raw_parts_mut(
                self.map.as_mut_ptr().add(self.start()).cast(),
                self.bytes / size_of::<T>(),
            )
        }
    }

    /// Whether the bytes of the mapping before the buffer are still the zeros they were.
    fn is_clear_before(&self) -> bool {
        // SAFETY: as for `as_ref`; the range ends where the buffer begins.
        unsafe { slice::from_raw_parts(self.map.as_ptr(), self.start()) }.iter().all(|b| *b == 0)
    }
}

/// Types whose values are all their bit patterns, as large as they are aligned.
trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for f32 {}

/// Through the kernel's own window on memory, so that nothing dies: the last byte can be read, the next one cannot.
#[test]
fn the_guard_is_where_the_buffer_ends() {
    use std::os::unix::fs::FileExt;
    let guarded = Guarded::holding(&[1u8, 2, 3, 4, 5]);
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    let end = (guarded.map.as_mut_ptr() as usize + guarded.start() + guarded.bytes) as u64;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, end - 1).unwrap();
    assert_eq!(byte, [5]);
    assert!(memory.read_exact_at(&mut byte, end).is_err());
}

/// Values that vary, codes and scales alike.
fn weights(format: Format, d_out: usize, d_in: usize) -> Vec<u8> {
    let group = format.source_group();
    let floats = if format.has_minimum() { 4 } else { 2 };
    let source: Vec<u8> = (0..d_out * d_in / format.group() * group)
        .map(|i| if i % group < floats { 0x2e } else { (i.wrapping_mul(2_654_435_761) >> 9) as u8 })
        .collect();
    pack(&SourceMatrix::new(format, d_out, d_in, &source).unwrap()).unwrap()
}

/// Every tier and format, with one to three tiles of whole and of partial width, row counts around every block of rows
/// that a kernel takes at once, all tiles and the last one alone.
#[test]
fn kernels_stay_within_their_buffers() {
    kernels_stay_within_their_buffers_with::<i8>();
    kernels_stay_within_their_buffers_with::<i16>();
}

fn kernels_stay_within_their_buffers_with<C: Code>() {
    for format in Format::ALL {
        for (d_out, groups) in [(1, 1), (4, 2), (15, 1), (16, 3), (21, 5), (31, 1), (48, 2)] {
            let d_in = groups * format.group();
            let packed = weights(format, d_out, d_in);
            let guarded = Guarded::holding(&packed);
            for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 24, 25, 36, 37] {
                let x: Vec<f32> = (0..rows * d_in).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
                let expected = ordinary::<C>(&packed, format, d_out, &x, d_in);
                for isa in Isa::available() {
                    let case = format!("{isa:?} {format:?} {d_out}x{d_in} rows {rows}");
                    let x = Guarded::holding(&x);
                    let mut codes = Activations::<C>::with_capacity(rows, d_in);
                    codes.quantize(isa, x.as_ref(), d_in);
                    let w = PackedMatrix::new(format, d_out, d_in, guarded.as_ref()).unwrap();

                    let mut out = Guarded::new(4 * rows * d_out);
                    w.multiply(isa, codes.view(), 0..w.tiles(), out.as_mut(), d_out);
                    assert_eq!(out.as_ref::<f32>(), expected, "{case}");
                    assert!(out.is_clear_before(), "{case}: written before the outputs");

                    let last = w.tiles() - 1;
                    let (first, width) = (last * TILE, d_out - last * TILE);
                    let mut out = Guarded::new(4 * rows * width);
                    w.multiply(isa, codes.view(), last..w.tiles(), out.as_mut(), width);
                    for (row, out) in out.as_ref::<f32>().chunks(width).enumerate() {
                        assert_eq!(out, &expected[row * d_out + first..][..width], "{case}");
                    }
                    assert!(out.is_clear_before(), "{case}: written before the outputs");
                }
            }
        }
    }
}

/// The scalar kernel's outputs, on vectors.
fn ordinary<C: Code>(packed: &[u8], format: Format, d_out: usize, x: &[f32], d_in: usize) -> Vec<f32> {
    let rows = x.len() / d_in;
    let w = PackedMatrix::new(format, d_out, d_in, packed).unwrap();
    let mut codes = Activations::<C>::with_capacity(rows, d_in);
    codes.quantize(Isa::scalar(), x, d_in);
    let mut out = vec![f32::NAN; rows * d_out];
    w.multiply(Isa::scalar(), codes.view(), 0..w.tiles(), &mut out, d_out);
    out
}
