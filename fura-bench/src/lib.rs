//! Benchmarks and experiments of fura.
