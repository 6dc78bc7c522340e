//! Llama-family forward pass over memory-mapped INT4 weights.

pub mod gguf;
pub mod tokenizer;
