//! FuRA-S: block spectra, the input transform, and the antithetic evolution-strategies estimator.
//!
//! This crate trains a *specialist*, one `f32` coordinate per input channel of a model's linear
//! layers, by forward passes alone. It knows nothing about models, files of weights or tasks: an
//! engine gives it weights, asks for coordinates, and reports rewards. It contains no unsafe
//! code, spawns no threads, reads no environment and keeps no global state.
//!
//! # The method
//! A linear layer `y = W x` has `W` (`d_out x d_in`) cut into contiguous column blocks
//! `W_k = U_k diag(s_k) V_k^T`. Coordinates `c` are relative changes of the blocks' singular
//! values:
//!
//! ```text
//! W'_k = U_k diag(s_k (1 + c_k)) V_k^T = W_k (I + V_k diag(c_k) V_k^T)
//! y    = W x',   x'_k = x_k + V_k diag(c_k) V_k^T x_k
//! ```
//!
//! Only the layer's *input* is transformed; the (quantized) weights are never changed, a bias
//! stays where it is, and `c = 0` is the base model. Rescaling blocks independently rotates the
//! singular vectors of `W` while its singular values hardly move.
//!
//! # What an engine calls
//! **At load.** List the linears in a [`Layout`](layout::Layout). Give each linear's dequantized
//! weights to a [`Decomposer`](spectrum::Decomposer) and keep `V`
//! ([`LinearSpectrum::v`](spectrum::LinearSpectrum::v)); this may be cached with the model, and
//! comes out the same, bit for bit, on every machine. To run a specialist,
//! [`load`](specialist::Specialist::load) it and [`check_base`](specialist::Specialist::check_base).
//!
//! **Per forward pass.** Before each linear, transform its input block by block as above:
//! [`Transform`](transform::Transform) does it for a member's rows, in a buffer that is reused.
//!
//! **Per generation** of training: [`ask`](estimator::Estimator::ask); for each member write its
//! coordinates with [`member_coordinates`](estimator::Estimator::member_coordinates) (a linear at
//! a time, if memory is short) and evaluate; record the rewards with
//! [`append_generation`](runlog::RunLog::append_generation); then
//! [`tell`](estimator::Estimator::tell). None of these allocates. To resume after an interruption,
//! [`RunLog::resume`](runlog::RunLog::resume) and [`replay`](runlog::replay). At the end, save
//! [`final_coordinates`](estimator::Estimator::final_coordinates) in a
//! [`Specialist`](specialist::Specialist), or ship the log itself
//! ([`from_run_log`](specialist::Specialist::from_run_log)).
//!
//! **Before training,** choose `sigma` by a [probe](estimator::SpreadBand), and keep
//! `alpha / sqrt(pairs)` when the population changes ([`with_pairs`](estimator::EsConfig::with_pairs)).
//!
//! **To compare** with SVF, channel scaling, random bases, LoRA, full-parameter search or quantized
//! evolution strategies, run them through the same engine: [`space`].
//!
//! `examples/foreign_engine.rs` does all of this in an engine with a 4-bit matrix type and threads of its
//! own.
//!
//! # A foreign engine in twenty lines
//! The "engine" is one 4 x 4 linear; its task is to bring `W x` close to a target, and its reward
//! is minus the squared distance.
//!
//! ```
//! use fura_core::estimator::{EsConfig, Estimator};
//! use fura_core::layout::{Layout, Linear};
//! use fura_core::spectrum::Decomposer;
//!
//! let w = [2.0f32, 1.0, 0.0, 0.5, -1.0, 3.0, 1.0, 0.0, 0.5, 0.0, 1.0, 2.0, 0.0, 1.0, -2.0, 1.0];
//! let (x, target) = ([1.0f32, -1.0, 0.5, 2.0], [2.2f32, -4.0, 5.5, -0.2]);
//! let layout = Layout::new(2, [Linear::new("w", 4, 4)])?;
//! let spectrum = Decomposer::default().decompose_linear(&w, 4, 4, 2)?;
//! let reward = |c: &[f32]| {
//!     let mut transformed = x;
//!     for (columns, v, _) in spectrum.blocks() {
//!         for (vector, c) in v.chunks_exact(columns.len()).zip(&c[columns.clone()]) {
//!             let dot: f32 = vector.iter().zip(&x[columns.clone()]).map(|(v, x)| v * x).sum();
//!             (transformed[columns.clone()].iter_mut().zip(vector)).for_each(|(t, v)| *t += v * c * dot);
//!         }
//!     }
//!     let output = w.chunks_exact(4).map(|row| row.iter().zip(&transformed).map(|(w, x)| w * x).sum::<f32>());
//!     -f64::from(output.zip(target).map(|(y, t)| (y - t) * (y - t)).sum::<f32>())
//! };
//!
//! let config = EsConfig { pairs: 4, ..EsConfig::default() };
//! let mut estimator = Estimator::new(config, &layout)?;
//! let (mut c, mut rewards) = (vec![0.0; layout.coordinates()], Vec::new());
//! for _ in 0..100 {
//!     rewards.clear();
//!     for member in estimator.ask().members() {
//!         estimator.member_coordinates(member, layout.range(0), &mut c);
//!         rewards.push(reward(&c));
//!     }
//!     estimator.tell(&rewards)?;
//! }
//! assert!(reward(estimator.coordinates()) > 0.5 * reward(&[0.0; 4]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reproducibility
//! Noise, spectra and updates use operations whose results IEEE 754 fixes, in a fixed order. The
//! same configuration, layout and rewards give the same coordinates, bit for bit, on every machine,
//! for any number of threads.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod durable;
pub mod estimator;
pub mod fingerprint;
pub mod layout;
pub mod noise;
pub mod runlog;
pub mod space;
pub mod specialist;
pub mod spectrum;
pub mod transform;
