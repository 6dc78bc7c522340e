#!/usr/bin/env python3
"""Write tests/golden/grouped/: tiny folders in the 4-bit groups of AWQ, GPTQ and MLX, with their values.

Run with: pip install torch==2.15.0 transformers==5.24.0 safetensors mlx[cpu]==0.32.4
          pip install --no-deps autoawq==0.2.7.post3 auto-gptq==0.7.1 && scripts/golden/grouped.py

Codes, zero points, scales and biases are random; NAME.values are the weights of the linears (f32, in the order q, k, v, o,
gate, up, down) as the packages' own code reads them: AWQ's `dequantize_gemm`, the layer
of auto-gptq applied to the identity, `mlx.core.dequantize`. All get their scales in f32, since in f16 they would round the
products, which have more bits. Tokenizer and the rest of the configuration are those of tests/golden/folders/llama.
"""
import importlib.util
import json
import pathlib
import shutil

import mlx.core as mx
import numpy as np
import torch
from safetensors.torch import save_file

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden"
OUT = GOLDEN / "grouped"
WIDTH = 64
LINEARS = {"self_attn.q_proj": WIDTH, "self_attn.k_proj": WIDTH // 2, "self_attn.v_proj": WIDTH // 2,
           "self_attn.o_proj": WIDTH, "mlp.gate_proj": WIDTH, "mlp.up_proj": WIDTH, "mlp.down_proj": WIDTH}
VOCAB = 96


def module(package, path):
    """One file of a package whose other files need a GPU."""
    folder = importlib.util.find_spec(package).submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), f"{folder}/{path}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


AWQ = module("awq", "utils/packing_utils")
GPTQ = module("auto_gptq", "nn_modules/qlinear/qlinear_cuda_old")


def words(rng, *shape):
    return torch.from_numpy(rng.integers(-2**31, 2**31, shape, dtype=np.int64).astype(np.int32))


def scales(rng, *shape):
    return torch.from_numpy(rng.uniform(0.005, 0.05, shape).astype(np.float32))


def awq(rng, d_out, group):
    parts = {"qweight": words(rng, WIDTH, d_out // 8), "qzeros": words(rng, WIDTH // group, d_out // 8),
             "scales": scales(rng, WIDTH // group, d_out).half()}
    return parts, AWQ.dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"].float(), 4, group).T


def gptq(rng, d_out, group, v2=False):
    parts = {"qweight": words(rng, WIDTH // 8, d_out), "scales": scales(rng, WIDTH // group, d_out).half(),
             "g_idx": torch.arange(WIDTH, dtype=torch.int32) // group}
    # Version 2 stores a zero point as it is; here that of symmetric groups.
    nibbles = np.full((WIDTH // group, d_out), 8) if v2 else rng.integers(0, 15, (WIDTH // group, d_out))
    pack = lambda n: torch.from_numpy((n.reshape(n.shape[0], -1, 8).astype(np.int64) << np.arange(0, 32, 4)).sum(-1).astype(np.uint32).view(np.int32))
    parts["qzeros"] = pack(nibbles)
    layer = GPTQ.QuantLinear(4, group, WIDTH, d_out, False)
    layer.qweight, layer.scales = parts["qweight"], parts["scales"].float()
    layer.qzeros = pack(nibbles - 1) if v2 else parts["qzeros"]
    return parts, layer(torch.eye(WIDTH)).T


def mlx(rng, d_out, group):
    parts = {"weight": words(rng, d_out, WIDTH // 8).view(torch.uint32), "scales": scales(rng, d_out, WIDTH // group).bfloat16()}
    parts["biases"] = (-8 * parts["scales"].float() * torch.from_numpy(rng.uniform(0.5, 1.5, (d_out, WIDTH // group)).astype(np.float32))).bfloat16()
    whole = [mx.array(p.numpy() if p.dtype == torch.uint32 else p.float().numpy()) for p in parts.values()]
    return parts, torch.from_numpy(np.array(mx.dequantize(*whole, group_size=group, bits=4)))


def write(name, make, config, seed, embedding=False, **more):
    rng = np.random.default_rng(seed)
    tensors, values = {}, []
    for linear, d_out in LINEARS.items():
        parts, weights = make(rng, d_out, **more)
        tensors |= {f"model.layers.0.{linear}.{part}": p for part, p in parts.items()}
        values.append(weights)
    for norm in ["layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"]:
        tensors[f"model.{norm}.weight"] = torch.ones(WIDTH, dtype=torch.float16)
    if embedding:
        parts, _ = make(rng, VOCAB, **more)
        tensors |= {f"model.embed_tokens.{part}": p for part, p in parts.items()}
    else:
        tensors["model.embed_tokens.weight"] = scales(rng, VOCAB, WIDTH).half()
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file({k: t.contiguous() for k, t in tensors.items()}, folder / "model.safetensors")
    for file in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(GOLDEN / "folders/llama" / file, folder)
    whole = json.loads((GOLDEN / "folders/llama/config.json").read_text())
    whole |= {"hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True} | config
    (folder / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    np.concatenate([v.float().numpy().ravel() for v in values]).astype("<f4").tofile(OUT / f"{name}.values")


if __name__ == "__main__":
    write("awq", awq, {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm",
                                               "zero_point": True, "modules_to_not_convert": None}}, 1, group=64)
    common = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "damp_percent": 0.01, "true_sequential": True}
    write("gptq", gptq, {"quantization_config": common | {"sym": False}}, 2, group=32)
    write("gptq_v2", gptq, {"quantization_config": common | {"sym": True, "checkpoint_format": "gptq_v2"}}, 3, group=32, v2=True)
    both = {"group_size": 32, "bits": 4}
    write("mlx", mlx, {"quantization": both, "quantization_config": both}, 4, embedding=True, group=32)
