#!/usr/bin/env python3
"""Golden bits of fura-quant's products, from docs/src/exactness.md in exact rational arithmetic.

Prints the tables of fura-quant/tests/golden.rs. Nothing but the standard library: every rounding is spelled out.
"""
from fractions import Fraction
import struct


def nearest(x, mantissa, lowest):
    """x rounded to `mantissa` bits (ties to even), with the exponent of the last bit at least `lowest`."""
    if x == 0:
        return Fraction(0)
    about = abs(x.numerator).bit_length() - x.denominator.bit_length() - mantissa
    for e in (about, about + 1, about + 2):
        e = max(e, lowest)
        if abs(x) / Fraction(2) ** e < 2**mantissa:
            scaled = x / Fraction(2) ** e
            whole = scaled.numerator // scaled.denominator
            rest = scaled - whole
            if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
                whole += 1
            return whole * Fraction(2) ** e
    raise AssertionError


def f32(x):
    return nearest(Fraction(x), 24, -149)


def f16(x):
    return nearest(Fraction(x), 11, -24)


def fma(a, b, c):
    return f32(a * b + c)


def bits(x):
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


def stream(seed):
    """Numbers below 2^15, the inputs of the test too."""
    while True:
        seed = (seed * 1103515245 + 12345) % 2**31
        yield seed >> 16


def activations(x, most):
    """Codes up to `most`, scale, sum and weighted sum of 32 values."""
    amax = max(abs(v) for v in x)
    inverse = f32(Fraction(most) / amax)
    codes = []
    for v in x:
        scaled = f32(v * inverse)
        whole = scaled.numerator // scaled.denominator
        rest = scaled - whole
        codes.append(whole + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)))
    scale = f32(amax / most)
    return codes, scale, f32(scale * sum(codes))


def product(kind, group, most, d_in, seed):
    numbers = stream(seed)
    x = [f32(Fraction(next(numbers) - 16384, 4096)) for _ in range(d_in)]
    rows = [activations(x[i : i + 32], most) for i in range(0, d_in, 32)]
    acc = Fraction(0)
    for g in range(d_in // group):
        d = f16(Fraction(next(numbers) - 16384, 65536))
        m = f16(Fraction(next(numbers) - 16384, 65536))
        codes = [next(numbers) % 256 for _ in range(group)]
        if kind == "q8":
            q = [c - 256 if c > 127 else c for c in codes]
        else:
            q = [c % 16 - (8 if kind == "q4" else 0) for c in codes]
        parts = rows[g * group // 32 : (g + 1) * group // 32]
        dots = [f32(sum(a * b for a, b in zip(q[32 * k :], part[0]))) for k, part in enumerate(parts)]
        if group == 32:
            acc = fma(f32(d * parts[0][1]), dots[0], acc)
        else:
            t = Fraction(0)
            for dot, part in zip(dots, parts):
                t = fma(part[1], dot, t)
            acc = fma(d, t, acc)
        if kind == "q4min":
            u = parts[0][2]
            for part in parts[1:]:
                u = f32(u + part[2])
            acc = fma(m, u, acc)
    return bits(acc)


FORMATS = [("q4", 32), ("q4", 64), ("q4", 128), ("q4min", 32), ("q4min", 64), ("q4min", 128), ("q8", 32)]
for most in (127, 32512):
    print(f"codes up to {most}:")
    for kind, group in FORMATS:
        row = ", ".join(f"0x{product(kind, group, most, d_in, 1 + d_in):08x}" for d_in in (128, 384, 640))
        print(f'    ("{kind}{"" if group == 32 else f"-{group}"}", [{row}]),')
