//! Memory for rows and transforms that begins with a cache line.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

/// A fixed number of floats, zeros at first, that begin with a cache line of 64 bytes.
///
/// An allocator promises 16 bytes. A vector of 64 bytes that does not begin with a line is two loads or two stores;
/// where rows and transforms do, the kernels of [`block`](crate::block) are faster. Results are the same.
///
/// ```
/// let mut row = fura_simd::AlignedBuffer::new(576);
/// row[575] = 1.0;
/// assert!(row.as_ptr().addr().is_multiple_of(64));
/// assert_eq!(row.iter().sum::<f32>(), 1.0);
/// ```
#[derive(Debug)]
pub struct AlignedBuffer {
    /// Some more than asked for: the first ones up to a line are not used.
    floats: Vec<f32>,
    len: usize,
}

impl AlignedBuffer {
    /// Floats allocated beyond those asked for.
    pub const EXTRA: usize = LINE / size_of::<f32>() - 1;

    /// `len` zeros.
    pub fn new(len: usize) -> Self {
        Self { floats: vec![0.0; len + Self::EXTRA], len }
    }

    /// Where the line begins. The allocation stays where it is, so this never changes.
    fn first(&self) -> usize {
        // At most that by the alignment of a float; the bound only keeps the slices below from a check.
        self.floats.as_ptr().align_offset(LINE).min(Self::EXTRA)
    }
}

impl Deref for AlignedBuffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.floats[self.first()..][..self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        let first = self.first();
        &mut self.floats[first..][..self.len]
    }
}

impl Clone for AlignedBuffer {
    /// Another allocation may need another offset, so only the contents are copied.
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_with_a_line_wherever_it_was_allocated_and_keeps_its_contents() {
        // Kept, so that allocations differ in their place.
        let mut kept = Vec::new();
        for len in (0..200).chain([4096, 100_000]) {
            let mut buffer = AlignedBuffer::new(len);
            assert!(buffer.as_ptr().addr().is_multiple_of(LINE));
            assert!(buffer.len() == len && buffer.iter().all(|x| *x == 0.0));
            buffer.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
            let copy = buffer.clone();
            assert!(copy.as_ptr().addr().is_multiple_of(LINE));
            assert_eq!(*copy, *buffer);
            kept.push((buffer, copy, vec![0u8; len % 48]));
        }
        for (buffer, copy, _) in &kept {
            assert!(buffer.iter().zip(copy.iter()).enumerate().all(|(i, (a, b))| *a == i as f32 && a == b));
        }
    }
}
