//! A forward pass written as plainly as possible, in f32 on dequantized weights: what the engine is compared with.
//! It shares with the engine only the file reader and the definition of a group's values; the golden files check
//! it against a third implementation.

use fura_model::ModelConfig;
use fura_model::gguf::{Gguf, TensorKind};
use fura_quant::{Format, Group, SourceMatrix};
use rayon::prelude::*;
use std::path::Path;

/// Weights of a model, decoded on the fly.
#[derive(Debug)]
pub struct Reference<'a> {
    gguf: Gguf<'a>,
    config: ModelConfig,
}

impl<'a> Reference<'a> {
    /// Reads the file.
    ///
    /// # Panics
    /// If it is not a model the engine supports.
    pub fn new(bytes: &'a [u8]) -> Self {
        let gguf = Gguf::parse(bytes, Path::new("reference.gguf")).unwrap();
        let config = ModelConfig::from_gguf(&gguf).unwrap();
        Self { gguf, config }
    }

    fn matrix(&self, name: &str) -> SourceMatrix<'a> {
        let info = self.gguf.tensor(name).unwrap();
        let format = match info.kind {
            TensorKind::Q4_0 => Format::Q4(Group::G32),
            TensorKind::Q4_1 => Format::Q4Min(Group::G32),
            TensorKind::Q8_0 => Format::Q8,
            other => panic!("{name}: {other}"),
        };
        SourceMatrix::new(format, info.dims[1], info.dims[0], self.gguf.tensor_data(name).unwrap()).unwrap()
    }

    fn vector(&self, name: &str) -> Vec<f32> {
        self.gguf
            .tensor_data(name)
            .unwrap()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect()
    }

    /// `x W^T` for all rows.
    fn linear(&self, name: &str, x: &[f32]) -> Vec<f32> {
        let w = self.matrix(name);
        let (d_in, d_out) = (w.d_in(), w.d_out());
        let rows = x.len() / d_in;
        let columns: Vec<Vec<f32>> = (0..d_out)
            .into_par_iter()
            .map_init(
                || vec![0.0; d_in],
                |weights, o| {
                    w.decode(o, 0, weights);
                    x.chunks_exact(d_in).map(|x| dot(weights, x)).collect()
                },
            )
            .collect();
        let mut y = vec![0.0; rows * d_out];
        for (o, column) in columns.iter().enumerate() {
            for (r, v) in column.iter().enumerate() {
                y[r * d_out + o] = *v;
            }
        }
        y
    }

    fn norm(&self, name: &str, x: &[f32]) -> Vec<f32> {
        let w = self.vector(name);
        x.chunks_exact(w.len())
            .flat_map(|row| {
                let mean = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / row.len() as f64;
                let scale = 1.0 / (mean + f64::from(self.config.norm_eps)).sqrt();
                row.iter().zip(&w).map(move |(v, w)| (f64::from(*v) * scale) as f32 * w).collect::<Vec<_>>()
            })
            .collect()
    }

    fn rotate(&self, x: &mut [f32], width: usize) {
        let d = self.config.head_dim;
        for (position, row) in x.chunks_exact_mut(width).enumerate() {
            for head in row.chunks_exact_mut(d) {
                for (i, pair) in head.chunks_exact_mut(2).enumerate() {
                    let f = f64::from(self.config.rope_base).powf(-2.0 * i as f64 / d as f64);
                    let (s, c) = (position as f64 * f).sin_cos();
                    let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
                    pair[0] = (a * c - b * s) as f32;
                    pair[1] = (a * s + b * c) as f32;
                }
            }
        }
    }

    /// Logits of every position, `tokens.len() x vocabulary`.
    pub fn logits(&self, tokens: &[u32]) -> Vec<f32> {
        let c = &self.config;
        let d = c.d_model;
        let embedding = self.matrix("token_embd.weight");
        let mut x = vec![0.0; tokens.len() * d];
        for (row, t) in x.chunks_exact_mut(d).zip(tokens) {
            embedding.decode(*t as usize, 0, row);
        }
        for l in 0..c.layers {
            let name = |k: &str| format!("blk.{l}.{k}.weight");
            let h = self.norm(&name("attn_norm"), &x);
            let mut q = self.linear(&name("attn_q"), &h);
            let mut k = self.linear(&name("attn_k"), &h);
            let v = self.linear(&name("attn_v"), &h);
            self.rotate(&mut q, c.d_query());
            self.rotate(&mut k, c.d_kv());
            let attended = self.attend(&q, &k, &v);
            let o = self.linear(&name("attn_output"), &attended);
            x.iter_mut().zip(&o).for_each(|(x, o)| *x += o);
            let h = self.norm(&name("ffn_norm"), &x);
            let gate = self.linear(&name("ffn_gate"), &h);
            let up = self.linear(&name("ffn_up"), &h);
            let h: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            let down = self.linear(&name("ffn_down"), &h);
            x.iter_mut().zip(&down).for_each(|(x, o)| *x += o);
        }
        let h = self.norm("output_norm.weight", &x);
        self.linear(if c.tied { "token_embd.weight" } else { "output.weight" }, &h)
    }

    fn attend(&self, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f32> {
        let c = &self.config;
        let (d, group) = (c.head_dim, c.heads / c.kv_heads);
        let mut out = vec![0.0; q.len()];
        out.par_chunks_exact_mut(c.d_query()).enumerate().for_each(|(i, out)| {
            for (head, out) in out.chunks_exact_mut(d).enumerate() {
                let q = &q[i * c.d_query() + head * d..][..d];
                let at = |j: usize| j * c.d_kv() + head / group * d;
                let scores: Vec<f32> =
                    (0..=i).map(|j| dot(q, &k[at(j)..at(j) + d]) / (d as f32).sqrt()).collect();
                let top = scores.iter().copied().fold(f32::MIN, f32::max);
                let weights: Vec<f32> = scores.iter().map(|s| (s - top).exp()).collect();
                let sum: f32 = weights.iter().sum();
                for (j, w) in weights.iter().enumerate() {
                    for (o, v) in out.iter_mut().zip(&v[at(j)..at(j) + d]) {
                        *o += w / sum * v;
                    }
                }
            }
        });
        out
    }
}

/// A dot product in eight partial sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a8, a1) = a.as_chunks::<8>();
    let (b8, b1) = b.as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for (a, b) in a8.iter().zip(b8) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f32>() + a1.iter().zip(b1).map(|(a, b)| a * b).sum::<f32>()
}

/// `ln(sum exp)` in f64.
pub fn log_sum_exp(logits: &[f32]) -> f64 {
    let top = f64::from(logits.iter().copied().fold(f32::MIN, f32::max));
    top + logits.iter().map(|l| (f64::from(*l) - top).exp()).sum::<f64>().ln()
}

/// `KL(p || q)` of the softmaxes of two rows of logits.
pub fn kl(p: &[f32], q: &[f32]) -> f64 {
    let (zp, zq) = (log_sum_exp(p), log_sum_exp(q));
    p.iter()
        .zip(q)
        .map(|(p, q)| {
            let (lp, lq) = (f64::from(*p) - zp, f64::from(*q) - zq);
            lp.exp() * (lp - lq)
        })
        .sum()
}
