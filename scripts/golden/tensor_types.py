#!/usr/bin/env python3
"""Write tests/golden/tensor_types.bin: random blocks of every GGUF tensor type and their values.

The values are those of gguf-py's dequantization (package gguf 0.19.0, numpy), an implementation that shares
nothing with ours. Run with: pip install gguf==0.19.0 && scripts/golden/tensor_types.py

Format, little-endian: for each type, u32 type number, u32 elements, the blocks, then the values as f32.
"""
import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGML_QUANT_SIZES, quants

ELEMENTS = 512
TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
         T.IQ4_NL, T.MXFP4]
# Where a block has f16 numbers: random bytes there would often be infinite or not a number.
F16_AT = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.F16: [0]}


def blocks(rng, kind):
    length, size = GGML_QUANT_SIZES[kind]
    n = ELEMENTS // length
    if kind == T.F32:
        return rng.standard_normal(n).astype("<f4").view(np.uint8)
    if kind == T.BF16:
        return np.ascontiguousarray(rng.standard_normal(n).astype("<f4").view(np.uint8).reshape(n, 4)[:, 2:]).ravel()
    data = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in F16_AT.get(kind, []):
        # Of both signs, and some denormal.
        values = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 2, n)
        data[:, at:at + 2] = values.astype("<f2").view(np.uint8).reshape(n, 2)
    if kind == T.MXFP4:
        # Powers of two from f32's denormals to 2^100.
        data[:, 0] = rng.integers(0, 228, n)
        data[:4, 0] = [0, 1, 2, 127]
    return data.ravel()


def main():
    rng = np.random.default_rng(20261130)
    out = b""
    for kind in TYPES:
        data = blocks(rng, kind)
        values = quants.dequantize(data, kind).astype("<f4")
        assert values.size == ELEMENTS and np.isfinite(values).all(), kind
        out += struct.pack("<II", int(kind), ELEMENTS) + data.tobytes() + values.tobytes()
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tensor_types.bin"
    path.write_bytes(out)
    print(path, len(out))


main()
