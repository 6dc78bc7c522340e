//! Random draws that are the same on every machine and with every version of `rand`.
//!
//! The bits are the ChaCha8 key stream, which a specification fixes; how they become
//! numbers and orders is written out here, so that no library's sampling code can change it.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// A random stream: the ChaCha8 key stream of one (seed, stream) pair.
#[derive(Debug)]
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream `stream` of `seed`. The key is the seed in little-endian bytes, then zeros;
    /// the nonce is the stream number.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(stream);
        Self(rng)
    }

    /// A uniform integer in `0..n`; 0 when `n` is 0 or 1.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        if n <= 1 {
            return 0;
        }
        // Reject the draws above the largest multiple of n, which would favour small results;
        // fewer than half of all draws are above it, so this ends.
        let limit = u32::MAX - u32::MAX % n;
        loop {
            let word = self.0.next_u32();
            if word < limit {
                return word % n;
            }
        }
    }

    /// Puts a list into a uniformly random order (Fisher and Yates, from the end).
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_are_those_of_chacha8_with_a_zero_key() {
        // draft-strombergson-chacha-test-vectors-01, TC1, 8 rounds, 256-bit key:
        // the key stream begins 3e 00 ef 2f 89 5f 40 d6.
        let mut stream = Stream::new(0, 0);
        assert_eq!(stream.0.next_u32(), u32::from_le_bytes([0x3e, 0x00, 0xef, 0x2f]));
        assert_eq!(stream.0.next_u32(), u32::from_le_bytes([0x89, 0x5f, 0x40, 0xd6]));
    }

    #[test]
    fn seeds_and_streams_differ() {
        let first = |seed, stream| Stream::new(seed, stream).0.next_u64();
        assert_ne!(first(1, 0), first(2, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 1), first(1, 1 << 32));
    }

    #[test]
    fn below_stays_in_range_at_the_ends() {
        let mut stream = Stream::new(3, 0);
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
        assert!((0..1000).all(|_| stream.below(u32::MAX) < u32::MAX));
        assert!((0..1000).all(|_| stream.below(3) < 3));
    }

    #[test]
    fn shuffle_keeps_every_element() {
        let mut list: Vec<u32> = (0..100).collect();
        Stream::new(5, 0).shuffle(&mut list);
        assert_ne!(list, (0..100).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
