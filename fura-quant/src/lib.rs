//! INT4 and INT8 group-quantized matrix products with the same bits on every CPU.
