#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod activations;
mod code;
mod format;
mod kernel;
mod matrix;
mod quantizer;
mod source;

pub use activations::{ActivationGroup, ActivationRows, Activations, ROW_BLOCK, RowBlock};
pub use code::Code;
pub use format::{Format, GROUP, Group, TILE};
pub use matrix::{PackedMatrix, pack};
pub use quantizer::{Fit, FitError, quantize, quantize_group, quantize_tile};
pub use source::{QuantError, SourceMatrix};
