//! Keys and values of earlier positions.

use crate::config::ModelConfig;

/// Keys and values in f32, one row of `d_kv` for each position, in planes of `rows` rows.
#[derive(Clone, Debug)]
pub struct KvCache {
    planes: usize,
    rows: usize,
    width: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvCache {
    /// A cache that outlives a forward pass: one plane a layer, `rows` positions in all (shared between
    /// sequences as their `base` rows say).
    pub fn new(config: &ModelConfig, rows: usize) -> Self {
        Self::with_planes(config.layers, rows, config.d_kv())
    }

    /// A cache for passes that score and forget: a single plane that every layer overwrites.
    pub fn transient(config: &ModelConfig, rows: usize) -> Self {
        Self::with_planes(1, rows, config.d_kv())
    }

    fn with_planes(planes: usize, rows: usize, width: usize) -> Self {
        let n = planes * rows * width;
        Self { planes, rows, width, keys: vec![0.0; n], values: vec![0.0; n] }
    }

    /// Positions it can hold.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The planes of keys and values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> (&[f32], &[f32]) {
        let at = layer % self.planes * self.rows * self.width;
        let n = self.rows * self.width;
        (&self.keys[at..at + n], &self.values[at..at + n])
    }

    /// The key and value row of one position of a layer, to be written.
    pub(crate) fn row_mut(&mut self, layer: usize, row: usize) -> (&mut [f32], &mut [f32]) {
        let at = (layer % self.planes * self.rows + row) * self.width;
        (&mut self.keys[at..at + self.width], &mut self.values[at..at + self.width])
    }
}
