//! Keys and values of earlier positions.

use crate::config::ModelConfig;
use fura_simd::Isa;
use fura_simd::attention::CacheRows;
use fura_simd::half::narrow_all;
use std::ops::Range;

/// Keys and values, one row of `d_kv` for each position, in planes of `rows` rows; in f32 or, in half the memory and
/// with other bits, in f16.
#[derive(Clone, Debug)]
pub struct KvCache {
    planes: usize,
    rows: usize,
    width: usize,
    stored: Stored,
}

/// Keys and values of all planes.
#[derive(Clone, Debug)]
enum Stored {
    Single(Vec<f32>, Vec<f32>),
    Half(Vec<u16>, Vec<u16>),
}

/// Keys and values of one layer.
#[derive(Clone, Copy)]
pub(crate) enum Plane<'a> {
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
        Self::with_planes(config.layers, rows, config.d_kv(), precision)
    }

    /// As [`KvCache::new`], for passes through `layers` consecutive layers only.
    pub(crate) fn for_layers(config: &ModelConfig, layers: usize, rows: usize) -> Self {
        Self::with_planes(layers, rows, config.d_kv(), Precision::Single)
    }

    /// A cache for passes that score and forget: a single plane that every layer overwrites.
    pub fn transient(config: &ModelConfig, rows: usize) -> Self {
        Self::with_planes(1, rows, config.d_kv(), Precision::Single)
    }

    fn with_planes(planes: usize, rows: usize, width: usize, precision: Precision) -> Self {
        let n = planes * rows * width;
        let stored = match precision {
            Precision::Single => Stored::Single(vec![0.0; n], vec![0.0; n]),
            Precision::Half => Stored::Half(vec![0; n], vec![0; n]),
        };
        Self { planes, rows, width, stored }
    }

    /// Bytes of a cache of `rows` positions that outlives a pass; at most `u64::MAX`.
    pub fn bytes(config: &ModelConfig, rows: usize, precision: Precision) -> u64 {
        let row = 2 * config.layers * config.d_kv() * precision.bytes();
        (row as u64).saturating_mul(rows as u64)
    }

    /// Bytes of a [`KvCache::transient`] one of `rows` positions.
    pub fn transient_bytes(config: &ModelConfig, rows: usize) -> u64 {
        (2 * config.d_kv() * Precision::Single.bytes()) as u64 * rows as u64
    }

    /// Makes it one of `rows` positions for passes through `layers` consecutive layers, which forgets what it holds;
    /// allocates only to grow.
    pub fn reshape(&mut self, layers: usize, rows: usize) {
        (self.planes, self.rows) = (layers, rows);
        let n = layers * rows * self.width;
        match &mut self.stored {
            Stored::Single(keys, values) => [keys, values].into_iter().for_each(|x| x.resize(n, 0.0)),
            Stored::Half(keys, values) => [keys, values].into_iter().for_each(|x| x.resize(n, 0)),
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

    /// The planes of keys and values of a layer, after those of `earlier` if that is given.
    ///
    /// # Panics
    /// If `earlier` is of another precision.
    pub(crate) fn layer<'a>(&'a self, layer: usize, earlier: Option<&'a Self>) -> Plane<'a> {
        let own = self.place(layer);
        let Some(earlier) = earlier else {
            return match &self.stored {
                Stored::Single(k, v) => {
                    Plane::Single(CacheRows::new(&k[own.clone()]), CacheRows::new(&v[own]))
                }
                Stored::Half(k, v) => Plane::Half(CacheRows::new(&k[own.clone()]), CacheRows::new(&v[own])),
            };
        };
        let (place, n) = (earlier.place(layer), earlier.rows);
        match (&earlier.stored, &self.stored) {
            (Stored::Single(ek, ev), Stored::Single(k, v)) => Plane::Single(
                CacheRows::after(&ek[place.clone()], n, &k[own.clone()]),
                CacheRows::after(&ev[place], n, &v[own]),
            ),
            (Stored::Half(ek, ev), Stored::Half(k, v)) => Plane::Half(
                CacheRows::after(&ek[place.clone()], n, &k[own.clone()]),
                CacheRows::after(&ev[place], n, &v[own]),
            ),
            _ => panic!("caches of different precisions"),
        }
    }

    /// Where the plane of a layer lies.
    fn place(&self, layer: usize) -> Range<usize> {
        let n = self.rows * self.width;
        let at = layer % self.planes * n;
        at..at + n
    }

    /// Stores key and value of one position of a layer.
    pub(crate) fn store(&mut self, isa: Isa, layer: usize, row: usize, key: &[f32], value: &[f32]) {
        let at = (layer % self.planes * self.rows + row) * self.width;
        let place = at..at + self.width;
        match &mut self.stored {
            Stored::Single(keys, values) => {
                keys[place.clone()].copy_from_slice(key);
                values[place].copy_from_slice(value);
            }
            Stored::Half(keys, values) => {
                narrow_all(isa, key, &mut keys[place.clone()]);
                narrow_all(isa, value, &mut values[place]);
            }
        }
    }
}
