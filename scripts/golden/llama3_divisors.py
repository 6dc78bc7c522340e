#!/usr/bin/env python3
"""Write tests/golden/llama3_divisors.json: how Llama 3.1 and 3.2 divide their rotary frequencies, by transformers.

Run with: pip install transformers==5.24.0 torch && scripts/golden/llama3_divisors.py
"""
import json
import pathlib

import transformers as hf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/llama3_divisors.json"


def main():
    cases = []
    for factor in (8.0, 32.0):
        rope = {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        config = hf.LlamaConfig(hidden_size=64 * 4, num_attention_heads=4, head_dim=64, max_position_embeddings=131072,
                                rope_parameters={**rope, "rope_type": "llama3", "rope_theta": 500000.0,
                                                 "original_max_position_embeddings": 8192})
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
        plain = [500000.0 ** (-2 * i / 64) for i in range(32)]
        cases.append({"rope": rope, "divisors": [p / s for p, s in zip(plain, scaled.double().tolist())]})
    OUT.write_text(json.dumps(cases, indent=0) + "\n")


main()
