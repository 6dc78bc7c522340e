//! Keys and values of earlier positions.

use crate::buffer::Buffer;
use crate::config::ModelConfig;
use fura_simd::Isa;
use fura_simd::attention::{CacheRows, KEY_BLOCK, store_key};
use fura_simd::half::narrow_all;
use std::ops::Range;

/// Keys and values of `rows` positions in planes of layers; in f32 or, in half the memory and with other bits, in f16.
/// Those of a head lie together: it is read whole, position after position, from memory that is far.
#[derive(Clone, Debug)]
pub struct KvCache {
    planes: usize,
    rows: usize,
    heads: usize,
    head_dim: usize,
    stored: Stored,
    /// A key on its way to its block.
    narrowed: Vec<u16>,
}

/// Keys and values of all planes.
#[derive(Clone, Debug)]
enum Stored {
    Single(Buffer<f32>, Buffer<f32>),
    Half(Buffer<u16>, Buffer<u16>),
}

/// Positions that a plane has room for if it holds `rows`: keys lie in blocks.
fn room(rows: usize) -> usize {
    rows.next_multiple_of(KEY_BLOCK)
}

/// Keys and values of one head of a layer, a row of `head_dim` for each position.
#[derive(Clone, Copy)]
pub(crate) enum HeadCache<'a> {
    Single(CacheRows<'a, f32>, CacheRows<'a, f32>),
    Half(CacheRows<'a, u16>, CacheRows<'a, u16>),
}

/// How a cache stores numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits: keys and values as they were computed.
    #[default]
    Single,
    /// 16 bits: each rounded to the nearest f16. Results are the same on every instruction set, in any batch and in
    /// any chunks, but they are not those of [`Precision::Single`].
    Half,
}

impl Precision {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Precision::Single => 4,
            Precision::Half => 2,
        }
    }
}

impl KvCache {
    /// A cache that outlives a forward pass: one plane a layer, `rows` positions in all (shared between
    /// sequences as their `base` rows say).
    pub fn new(config: &ModelConfig, rows: usize) -> Self {
        Self::with_precision(config, rows, Precision::Single)
    }

    /// As [`KvCache::new`], with the precision of the caller's choice.
    pub fn with_precision(config: &ModelConfig, rows: usize, precision: Precision) -> Self {
        Self::with_planes(config, config.layers, rows, precision)
    }

    /// As [`KvCache::new`], for passes through `layers` consecutive layers only.
    pub(crate) fn for_layers(config: &ModelConfig, layers: usize, rows: usize) -> Self {
        Self::with_planes(config, layers, rows, Precision::Single)
    }

    /// A cache for passes that score and forget: a single plane that every layer overwrites.
    pub fn transient(config: &ModelConfig, rows: usize) -> Self {
        Self::with_planes(config, 1, rows, Precision::Single)
    }

    fn with_planes(config: &ModelConfig, planes: usize, rows: usize, precision: Precision) -> Self {
        let n = planes * room(rows) * config.d_kv();
        let stored = match precision {
            Precision::Single => Stored::Single(Buffer::new(n), Buffer::new(n)),
            Precision::Half => Stored::Half(Buffer::new(n), Buffer::new(n)),
        };
        Self {
            planes,
            rows,
            heads: config.kv_heads,
            head_dim: config.head_dim,
            stored,
            narrowed: vec![0; config.head_dim],
        }
    }

    /// Bytes of one position in one layer.
    pub fn row_bytes(config: &ModelConfig, precision: Precision) -> u64 {
        (2 * config.d_kv() * precision.bytes()) as u64
    }

    /// Bytes of a cache of `rows` positions that outlives a pass; at most `u64::MAX`.
    pub fn bytes(config: &ModelConfig, rows: usize, precision: Precision) -> u64 {
        let rows = (rows as u64).checked_next_multiple_of(KEY_BLOCK as u64).unwrap_or(u64::MAX);
        (config.layers as u64 * Self::row_bytes(config, precision)).saturating_mul(rows)
    }

    /// Bytes of a [`KvCache::transient`] one of `rows` positions.
    pub fn transient_bytes(config: &ModelConfig, rows: usize) -> u64 {
        Self::row_bytes(config, Precision::Single) * room(rows) as u64
    }

    /// Makes it one of `rows` positions for passes through `layers` consecutive layers, which forgets what it holds;
    /// allocates only to grow.
    pub fn reshape(&mut self, layers: usize, rows: usize) {
        (self.planes, self.rows) = (layers, rows);
        let n = layers * room(rows) * self.heads * self.head_dim;
        match &mut self.stored {
            Stored::Single(keys, values) => [keys, values].into_iter().for_each(|x| x.reshape(n)),
            Stored::Half(keys, values) => [keys, values].into_iter().for_each(|x| x.reshape(n)),
        }
    }

    /// Positions it can hold.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How it stores numbers.
    pub fn precision(&self) -> Precision {
        match self.stored {
            Stored::Single(..) => Precision::Single,
            Stored::Half(..) => Precision::Half,
        }
    }

    /// Keys and values of a head of a layer, after those of `earlier` if that is given.
    ///
    /// # Panics
    /// If `earlier` is of another precision.
    pub(crate) fn head<'a>(&'a self, layer: usize, head: usize, earlier: Option<&'a Self>) -> HeadCache<'a> {
        let own = self.place(layer, head);
        let Some(earlier) = earlier else {
            return match &self.stored {
                Stored::Single(k, v) => {
                    HeadCache::Single(CacheRows::new(&k[own.clone()]), CacheRows::new(&v[own]))
                }
                Stored::Half(k, v) => {
                    HeadCache::Half(CacheRows::new(&k[own.clone()]), CacheRows::new(&v[own]))
                }
            };
        };
        let (place, n) = (earlier.place(layer, head), earlier.rows);
        match (&earlier.stored, &self.stored) {
            (Stored::Single(ek, ev), Stored::Single(k, v)) => HeadCache::Single(
                CacheRows::after(&ek[place.clone()], n, &k[own.clone()]),
                CacheRows::after(&ev[place], n, &v[own]),
            ),
            (Stored::Half(ek, ev), Stored::Half(k, v)) => HeadCache::Half(
                CacheRows::after(&ek[place.clone()], n, &k[own.clone()]),
                CacheRows::after(&ev[place], n, &v[own]),
            ),
            _ => panic!("caches of different precisions"),
        }
    }

    /// Where a head of a layer lies.
    fn place(&self, layer: usize, head: usize) -> Range<usize> {
        let n = room(self.rows) * self.head_dim;
        let at = (layer % self.planes * self.heads + head) * n;
        at..at + n
    }

    /// Stores key and value of one position of a layer.
    pub(crate) fn store(&mut self, isa: Isa, layer: usize, row: usize, key: &[f32], value: &[f32]) {
        let d = self.head_dim;
        for (head, (key, value)) in key.chunks_exact(d).zip(value.chunks_exact(d)).enumerate() {
            let place = self.place(layer, head);
            match &mut self.stored {
                Stored::Single(keys, values) => {
                    store_key(&mut keys[place.clone()], row, key);
                    values[place][row * d..][..d].copy_from_slice(value);
                }
                Stored::Half(keys, values) => {
                    narrow_all(isa, key, &mut self.narrowed);
                    store_key(&mut keys[place.clone()], row, &self.narrowed);
                    narrow_all(isa, value, &mut values[place][row * d..][..d]);
                }
            }
        }
    }
}
