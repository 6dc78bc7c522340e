//! Exact f32 kernels with run-time instruction-set dispatch for fura.
