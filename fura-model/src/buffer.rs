//! Large buffers in pages of their own.

use bytemuck::Pod;
use fura_simd::AlignedBuffer;
use memmap2::MmapMut;
use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Bytes from which on a buffer has pages of its own.
const LARGE: usize = 1 << 18;

/// A fixed number of zeros that begin with a cache line.
///
/// ```
/// let mut states = fura_model::Buffer::<f32>::new(1 << 20);
/// states[7] = 1.0; // The first page is there now, of 1024.
/// assert_eq!(states.iter().sum::<f32>(), 1.0);
/// ```
///
/// A large one is a map of its own: it takes memory only where it was written, and all of that goes back to the system
/// when it is dropped. An allocator promises neither. That of glibc takes large blocks from maps at first, but after the
/// first one was freed from its heaps, one a thread, which keep up to 64 MiB of what is freed and clear, so touch, what
/// they give again: the same run then takes 70 MB of memory or 110.
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    of: PhantomData<T>,
}

enum Memory {
    Heap(AlignedBuffer),
    Pages(MmapMut),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(floats) => bytemuck::cast_slice(floats),
            Self::Pages(map) => map,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(floats) => bytemuck::cast_slice_mut(floats),
            Self::Pages(map) => map,
        }
    }
}

impl<T: Pod> Buffer<T> {
    /// `len` zeros.
    ///
    /// # Panics
    /// Where a `Vec` would: if the bytes cannot be counted. It aborts, as a `Vec` does, if there is no such memory.
    pub fn new(len: usize) -> Self {
        let layout = Layout::array::<T>(len).expect("more bytes than can be addressed");
        let memory = match layout.size() < LARGE {
            true => Memory::Heap(AlignedBuffer::new(layout.size().div_ceil(size_of::<f32>()))),
            false => {
                Memory::Pages(MmapMut::map_anon(layout.size()).unwrap_or_else(|_| handle_alloc_error(layout)))
            }
        };
        Self { memory, len, of: PhantomData }
    }

    /// Makes it one of `len` numbers, whatever they are; allocates only to grow, after what was there is given back.
    pub fn reshape(&mut self, len: usize) {
        if len <= self.memory.bytes().len() / size_of::<T>() {
            self.len = len;
            return;
        }
        self.memory = Memory::Heap(AlignedBuffer::new(0));
        *self = Self::new(len);
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.memory.bytes()[..self.len * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.memory.bytes_mut()[..self.len * size_of::<T>()])
    }
}

impl<T: Pod> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.memory {
            Memory::Heap(_) => "heap",
            Memory::Pages(_) => "pages",
        };
        f.debug_struct("Buffer").field("place", &place).field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds<T: Pod + PartialEq + fmt::Debug>(number: impl Fn(usize) -> T) {
        let edge = LARGE / size_of::<T>();
        for len in [0, 1, 15, 1000, edge - 1, edge, edge + 1] {
            let mut buffer = Buffer::<T>::new(len);
            assert_eq!(matches!(buffer.memory, Memory::Pages(_)), len >= edge);
            assert!(buffer.as_ptr().addr().is_multiple_of(64));
            assert!(buffer.len() == len && buffer.iter().all(|x| *x == T::zeroed()));
            buffer.iter_mut().enumerate().for_each(|(i, x)| *x = number(i));
            let copy = buffer.clone();
            assert!(copy.iter().enumerate().all(|(i, x)| *x == number(i)));
            let place = buffer.as_ptr();
            for shorter in [len / 2, len] {
                buffer.reshape(shorter);
                assert!(buffer.as_ptr() == place && buffer.len() == shorter);
            }
            assert_eq!(*buffer, *copy);
            for longer in [len + 1, len + edge] {
                buffer.reshape(longer);
                assert!(buffer.len() == longer && buffer.as_ptr().addr().is_multiple_of(64));
                buffer.fill(number(1));
            }
        }
    }

    #[test]
    fn begins_with_a_line_and_holds_what_it_was_given_in_either_place() {
        holds(|i| i as f32);
        holds(|i| i as u16);
    }
}
