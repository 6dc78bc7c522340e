#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod attention;
pub mod block;
#[macro_use]
mod dispatch;
pub mod elementwise;
mod isa;
mod lanes;
pub mod softmax;

pub use isa::{Isa, Tier, UnknownTier};
