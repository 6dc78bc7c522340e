//! Train specialist LLMs on personal devices by forward passes alone.
#![forbid(unsafe_code)]

pub mod answerer;
pub mod defaults;
pub mod episodes;
pub mod error;
pub mod evaluation;
pub mod generation_shape;
pub mod guard;
pub mod judge;
pub mod question;
pub mod reward;
pub mod scorer;
pub mod trainer;
pub mod turns;
pub mod writer;

pub use fura_core as core;
pub use fura_model as model;
pub use fura_quant as quant;
pub use fura_simd as simd;
pub use fura_tasks as tasks;
