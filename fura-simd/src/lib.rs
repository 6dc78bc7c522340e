#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

// First: a macro is visible only after its definition.
#[macro_use]
mod dispatch;

mod aligned;
pub mod attention;
pub mod block;
pub mod elementwise;
pub mod half;
mod isa;
mod lanes;
pub mod normal;
pub mod softmax;

pub use aligned::AlignedBuffer;
pub use isa::{Isa, Tier, UnknownTier};
