//! The last layer after attention, in f32.

use crate::Result;
use crate::prepared::{Answers, Prepared};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use fura::core::estimator::Member;
use fura::core::layout::Linear;
use fura::core::space::{Codes, Entry, Population};
use fura::model::Model;
use fura::model::gguf::{DECODE_GROUP, Gguf, TensorKind};
use std::path::Path;

/// Attention's output projection and the MLP: what members change.
const LINEARS: [&str; 4] = ["attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/// Weights of the layer and what follows it.
pub struct TopLayer {
    pub linears: Vec<Linear>,
    pub weights: Vec<Vec<f32>>,
    pub codes: Vec<Codes>,
    norm: Vec<f32>,
    last_norm: Vec<f32>,
    head: Vec<f32>,
    epsilon: f32,
    pub d_model: usize,
}

/// Scratch of one thread.
#[derive(Default)]
pub struct Buffers {
    weights: Vec<f32>,
    input: Vec<f32>,
    scratch: Vec<f32>,
}

impl TopLayer {
    /// Reads the layer from a GGUF file of a Llama model in Q4_1 with a tied head.
    pub fn load(model: &Model, path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)?;
        let file = Gguf::parse(&bytes, path)?;
        let c = model.config();
        let top = c.layers - 1;
        let floats = |name: &str| -> Result<Vec<f32>> {
            Ok(file
                .tensor_data(name)?
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect())
        };
        let (mut linears, mut weights, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for name in LINEARS {
            let name = format!("blk.{top}.{name}.weight");
            let info = file.require_tensor(&name)?;
            let (d_in, d_out) = (info.dims[0], info.dims[1]);
            if info.kind != TensorKind::Q4_1 {
                return Err(format!("{name} is {:?}, expected Q4_1", info.kind).into());
            }
            let linear = Linear::new(&name, d_out, d_in);
            let q = q4_1(&linear, file.tensor_data(&name)?)?;
            weights.push(decode(info.kind, file.tensor_data(&name)?, d_out, d_in));
            linears.push(linear);
            codes.push(q);
        }
        let head = file.require_tensor("token_embd.weight")?;
        let (d_model, vocabulary) = (head.dims[0], head.dims[1]);
        Ok(Self {
            linears,
            weights,
            codes,
            norm: floats(&format!("blk.{top}.ffn_norm.weight"))?,
            last_norm: floats("output_norm.weight")?,
            head: decode(head.kind, file.tensor_data("token_embd.weight")?, vocabulary, d_model),
            epsilon: file.f32("llama.attention.layer_norm_rms_epsilon")?,
            d_model,
        })
    }

    /// The head's row of a token.
    pub fn head(&self, token: u32) -> &[f32] {
        &self.head[token as usize * self.d_model..][..self.d_model]
    }

    /// A member's answers (or those of the point where the search stands) to prepared questions.
    pub fn answers(
        &self,
        population: &dyn Population,
        member: Option<Member>,
        set: &Prepared,
        buffers: &mut Buffers,
    ) -> Answers {
        let rows = set.rows();
        let mut x = set.residual.clone();
        let projected = self.linear(population, member, 0, &set.attended, rows, buffers);
        x.iter_mut().zip(&projected).for_each(|(x, p)| *x += p);
        let mut normed = x.clone();
        self.normalize(&mut normed, &self.norm);
        let mut gate = self.linear(population, member, 1, &normed, rows, buffers);
        let up = self.linear(population, member, 2, &normed, rows, buffers);
        gate.iter_mut().zip(&up).for_each(|(g, u)| *g = *g / (1.0 + (-*g).exp()) * u);
        let down = self.linear(population, member, 3, &gate, rows, buffers);
        x.iter_mut().zip(&down).for_each(|(x, d)| *x += d);
        self.normalize(&mut x, &self.last_norm);
        set.answers(&x, self.d_model)
    }

    fn linear(
        &self,
        population: &dyn Population,
        member: Option<Member>,
        l: usize,
        x: &[f32],
        rows: usize,
        buffers: &mut Buffers,
    ) -> Vec<f32> {
        let Linear { d_out, d_in, .. } = self.linears[l];
        let Buffers { weights, input, scratch } = buffers;
        let (w, x) = if population.entry() == Entry::Input {
            input.resize(x.len(), 0.0);
            population.transform(member, l, x, input, scratch);
            (&self.weights[l][..], &input[..])
        } else {
            weights.clear();
            weights.extend_from_slice(&self.weights[l]);
            population.perturb(member, l, 0..d_out, weights, scratch);
            (&weights[..], x)
        };
        let mut y = vec![0.0; rows * d_out];
        matmul(
            MatMut::from_row_major_slice_mut(&mut y, rows, d_out),
            Accum::Replace,
            MatRef::from_row_major_slice(x, rows, d_in),
            MatRef::from_row_major_slice(w, d_out, d_in).transpose(),
            1.0,
            Par::Seq,
        );
        y
    }

    fn normalize(&self, rows: &mut [f32], weight: &[f32]) {
        for row in rows.chunks_exact_mut(self.d_model) {
            let mean = row.iter().map(|x| x * x).sum::<f32>() / self.d_model as f32;
            let scale = (mean + self.epsilon).sqrt().recip();
            row.iter_mut().zip(weight).for_each(|(x, w)| *x *= scale * w);
        }
    }
}

fn decode(kind: TensorKind, data: &[u8], d_out: usize, d_in: usize) -> Vec<f32> {
    let mut weights = vec![0.0; d_out * d_in];
    let mut group = [0.0; DECODE_GROUP];
    for (row, out) in data.chunks_exact(data.len() / d_out).zip(weights.chunks_exact_mut(d_in)) {
        for (g, out) in out.chunks_exact_mut(DECODE_GROUP).enumerate() {
            kind.decode_group(row, g, &mut group);
            out.copy_from_slice(&group);
        }
    }
    weights
}

/// Codes, scales and minima of Q4_1 blocks: an f16 scale, an f16 minimum, 16 bytes of which byte `i` holds channel `i` in
/// its low and channel `16 + i` in its high nibble.
fn q4_1(linear: &Linear, data: &[u8]) -> Result<Codes> {
    let (mut codes, mut scales, mut minima) = (Vec::new(), Vec::new(), Vec::new());
    for block in data.chunks_exact(20) {
        let half = |at: usize| half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        scales.push(half(0));
        minima.push(half(2));
        codes.extend(block[4..].iter().map(|b| b & 15));
        codes.extend(block[4..].iter().map(|b| b >> 4));
    }
    Ok(Codes::new(linear.clone(), 4, 32, codes, scales, minima)?)
}
