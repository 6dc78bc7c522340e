#!/usr/bin/env python3
"""Write tests/golden/architectures/: tiny random models of each architecture, with the logits of transformers.

Run with: pip install gguf==0.19.0 transformers==5.24.0 torch && scripts/golden/architectures.py

For each model NAME there are
- NAME.gguf: random weights, all of them values that our packs hold exactly;
- NAME.logits: f32, positions x vocabulary, twice: of transformers in f32, and of the same with every linear's input
  rounded to int8 in groups of 32 as docs/src/exactness.md defines it, by hooks written here;
- NAME.json: the token ids, and for every feature of the model how far the logits move (root mean square) when
  transformers runs without it. A test that is closer to the logits than that has seen the feature.
"""
import json
import pathlib
import sys

import numpy as np
import torch
import transformers as hf
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/architectures"
POSITIONS = 40
VOCAB = 96


class Weights:
    """Random matrices whose values a pack holds exactly, with the bytes that a file stores for them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def matrix(self, kind, d_out, d_in, gain=1.0):
        groups = (d_out, d_in // 32)
        rms = gain / np.sqrt(d_in)
        if kind == T.Q4_0:
            # Codes less 8 have root mean square 4.6.
            d = (rms / 4.6 * self.rng.uniform(0.5, 1.5, groups)).astype(np.float16)
            q = self.rng.integers(0, 16, (*groups, 32))
            packed = (q[..., :16] | q[..., 16:] << 4).astype(np.uint8)
            values = d.astype(np.float32)[..., None] * (q - 8).astype(np.float32)
        else:
            # Uniform codes of 8 bits have root mean square 73.
            d = (rms / 73 * self.rng.uniform(0.5, 1.5, groups)).astype(np.float16)
            q = self.rng.integers(-127, 128, (*groups, 32))
            if kind != T.Q8_0:
                # Powers of two, so that the products have few bits, and a code of 127, so that they are found again.
                d = 2.0 ** np.round(np.log2(d.astype(np.float32)))
                d = d.astype(np.float16)
                q[..., 7] = 127
            packed = q.astype(np.int8).view(np.uint8)
            values = d.astype(np.float32)[..., None] * q.astype(np.float32)
        values = values.reshape(d_out, d_in)
        if kind == T.F32:
            return values, values.astype("<f4")
        if kind == T.F16:
            assert (values.astype(np.float16).astype(np.float32) == values).all()
            return values, values.astype("<f2")
        if kind == T.BF16:
            assert (values.view(np.uint32) & 0xFFFF == 0).all()
            return values, (values.view(np.uint32) >> 16).astype("<u2").view(np.uint8).reshape(d_out, -1)
        blocks = np.concatenate([d.view(np.uint8).reshape(*groups, 2), packed], axis=-1)
        return values, np.ascontiguousarray(blocks.reshape(d_out, -1))

    def vector(self, n, low, high):
        return self.rng.uniform(low, high, n).astype(np.float32)


def interleave(heads, array):
    """Rows of each head from halves to neighbours, as "llama" files store queries and keys."""
    n = array.shape[0]
    return array.reshape(heads, 2, n // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def rounded(x):
    """Activations as the engine sees them: int8 codes in groups of 32, times their scale."""
    groups = x.reshape(*x.shape[:-1], -1, 32)
    amax = groups.abs().amax(-1, keepdim=True)
    codes = torch.round(groups * (127.0 / amax))
    codes = torch.where(amax > 0, codes, 0.0)
    return (codes * (amax / 127.0)).reshape(x.shape)


def rounded_twice(x):
    first = rounded(x)
    return first + rounded(x - first)


def logits(model, ids, int8=False):
    hooks = []
    if int8:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                f = rounded_twice if name == "lm_head" else rounded
                hooks.append(module.register_forward_pre_hook(lambda m, x, f=f: (f(x[0]),)))
    with torch.no_grad():
        out = model(torch.tensor([ids])).logits[0].float().numpy()
    for h in hooks:
        h.remove()
    return out


# name of a module's weight in transformers -> tensor in the file
LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}
GEMMA = {**LAYER, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}


def tensor_name(name, gemma):
    fixed = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    module, kind = name.rsplit(".", 1)
    if module in fixed:
        return f"{fixed[module]}.{kind}"
    _, _, layer, part = module.split(".", 3)
    return f"blk.{layer}.{(GEMMA if gemma else LAYER)[part]}.{kind}"


def byte_vocabulary(writer):
    """Printable bytes but one, a pair of letters, and an end token."""
    tokens = [chr(c) for c in range(33, 33 + 93)] + ["ab", "\u0120", "<|end|>"]
    assert len(tokens) == VOCAB
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (VOCAB - 1) + [3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(VOCAB - 1)


def write(name, arch, config, model_class, kinds, metadata, ablations, interleaved=False, extra=None, seed=1):
    """Make the model, give it weights, write the file and the logits."""
    gemma = arch.startswith("gemma")
    weights = Weights(seed)
    model = model_class(config).float().eval()
    writer = GGUFWriter(OUT / f"{name}.gguf", arch)
    text = config
    writer.add_context_length(text.max_position_embeddings)
    writer.add_embedding_length(text.hidden_size)
    writer.add_block_count(text.num_hidden_layers)
    writer.add_feed_forward_length(text.intermediate_size)
    writer.add_head_count(text.num_attention_heads)
    writer.add_head_count_kv(text.num_key_value_heads)
    writer.add_layer_norm_rms_eps(text.rms_norm_eps)
    for key, value in metadata.items():
        {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)](f"{arch}.{key}", value)
    byte_vocabulary(writer)
    state, n = {}, 0
    for key, parameter in model.named_parameters():
        target = tensor_name(key, gemma)
        shape = tuple(parameter.shape)
        if len(shape) == 1:
            norm = "norm" in target
            values = weights.vector(shape[0], *((0.5, 1.5) if norm else (-0.5, 0.5)))
            state[key] = values - 1 if gemma and norm else values
            if gemma and norm:
                values = state[key] + np.float32(1)
            stored, kind = values, T.F32
            if interleaved and target.endswith(("attn_q.bias", "attn_k.bias")):
                heads = text.num_attention_heads if "attn_q" in target else text.num_key_value_heads
                stored = interleave(heads, stored[:, None])[:, 0]
        else:
            kind = T.Q8_0 if target.startswith(("token_embd", "output")) else kinds[n % len(kinds)]
            n += 1
            gain = 1.0 if target.startswith("token_embd") and text.tie_word_embeddings else 1.5
            gain = np.sqrt(shape[1]) * 0.3 if target.startswith("token_embd") and gemma else gain
            state[key], stored = weights.matrix(kind, *shape, gain=gain)
            if interleaved and target.endswith(("attn_q.weight", "attn_k.weight")):
                heads = text.num_attention_heads if "attn_q" in target else text.num_key_value_heads
                stored = interleave(heads, stored)
        if kind in (T.F32, T.F16):
            writer.add_tensor(target, stored)
        else:
            writer.add_tensor(target, stored, raw_dtype=kind)
    for key, values in (extra or {}).items():
        writer.add_tensor(key, np.asarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    def run(config, int8=False):
        m = model_class(config).float().eval()
        own = dict(m.named_parameters())
        missing = m.load_state_dict({k: torch.tensor(v) for k, v in state.items() if k in own}, strict=False)
        assert not [k for k in missing.missing_keys if k in own], missing
        return m, logits(m, ids, int8)

    ids = [int(t) for t in np.random.default_rng(seed + 1000).integers(0, VOCAB - 1, POSITIONS)]
    _, exact = run(config)
    _, int8 = run(config, int8=True)
    assert np.isfinite(exact).all()
    moved = {}
    for feature, change in ablations.items():
        other = config.__class__.from_dict(config.to_dict())
        change(other)
        other._attn_implementation = "eager"
        _, changed = run(other)
        moved[feature] = float(np.sqrt(np.mean((changed - exact) ** 2)))
    noise = float(np.sqrt(np.mean((int8 - exact) ** 2)))
    np.concatenate([exact, int8]).astype("<f4").tofile(OUT / f"{name}.logits")
    facts = {"tokens": ids, "logit_rms": float(np.sqrt(np.mean(exact**2))), "int8_moves": noise, "without_it_moves": moved}
    (OUT / f"{name}.json").write_text(json.dumps(facts) + "\n")
    print(f"{name:12} rms {facts['logit_rms']:.3f}  int8 {noise:.4f}  " + "  ".join(f"{k} {v:.3f}" for k, v in moved.items()))


def setter(**values):
    def change(config):
        for k, v in values.items():
            setattr(config, k, v)
    return change


def rope(**values):
    def change(config):
        config.rope_parameters = {**config.rope_parameters, **values}
    return change


def common(**more):
    values = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False,
                  attn_implementation="eager", bos_token_id=None, eos_token_id=VOCAB - 1, pad_token_id=None)
    return {**values, **more}


def plain(theta):
    return {"rope_type": "default", "rope_theta": theta}


def main():
    OUT.mkdir(exist_ok=True)
    default_rope = rope(rope_type="default")

    write("llama", "llama", hf.LlamaConfig(**common(rope_parameters=plain(500.0))), hf.LlamaForCausalLM,
          [T.Q4_0, T.Q8_0, T.F16, T.F32, T.BF16], {"rope.freq_base": 500.0},
          {"rotation": rope(rope_theta=1e4)}, interleaved=True, seed=1)

    linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10.0}
    write("llama-linear", "llama", hf.LlamaConfig(**common(rope_parameters=linear, attention_bias=True)),
          hf.LlamaForCausalLM, [T.Q4_0],
          {"rope.freq_base": 10.0, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
          {"scaling": default_rope}, interleaved=True, seed=2)

    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32, "rope_theta": 100.0}
    config = hf.LlamaConfig(**common(rope_parameters=llama3, tie_word_embeddings=True))
    scaled = hf.LlamaForCausalLM(config).model.rotary_emb.inv_freq.double().numpy()
    unscaled = 100.0 ** (-np.arange(0, 16, 2) / 16)
    write("llama-3", "llama", config, hf.LlamaForCausalLM, [T.Q4_0, T.Q8_0], {"rope.freq_base": 100.0},
          {"scaling": default_rope}, interleaved=True, extra={"rope_freqs.weight": unscaled / scaled}, seed=3)

    write("mistral", "llama", hf.MistralConfig(**common(rope_parameters=plain(1e4), sliding_window=6, head_dim=16)),
          hf.MistralForCausalLM, [T.Q4_0], {"rope.freq_base": 1e4, "attention.sliding_window": 6},
          {"window": setter(sliding_window=None), "window off by one": setter(sliding_window=7)}, interleaved=True,
          seed=4)

    config = hf.SmolLM3Config(**common(num_hidden_layers=4, hidden_size=32, intermediate_size=64, num_attention_heads=2,
                                       num_key_value_heads=1, rope_parameters=plain(100.0), tie_word_embeddings=True))
    write("smollm3", "smollm3", config, hf.SmolLM3ForCausalLM, [T.Q8_0], {"rope.freq_base": 100.0},
          {"layer without rotation": setter(no_rope_layers=[1, 1, 1, 1])}, interleaved=True, seed=5)

    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 100.0,
            "beta_fast": 4.0, "beta_slow": 0.5}
    write("qwen2", "qwen2", hf.Qwen2Config(**common(rope_parameters=yarn)), hf.Qwen2ForCausalLM, [T.Q4_0],
          {"rope.freq_base": 100.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
           "rope.scaling.original_context_length": 16, "rope.scaling.yarn_beta_fast": 4.0,
           "rope.scaling.yarn_beta_slow": 0.5},
          {"scaling": default_rope, "its ramp": rope(beta_fast=32.0, beta_slow=1.0),
           "its magnitude": rope(attention_factor=1.0)}, seed=6)

    write("qwen3", "qwen3", hf.Qwen3Config(**common(head_dim=32, rope_parameters=plain(100.0), tie_word_embeddings=True)),
          hf.Qwen3ForCausalLM, [T.Q4_0, T.Q8_0], {"rope.freq_base": 100.0, "attention.key_length": 32,
                                                  "attention.value_length": 32},
          {"rotation": rope(rope_theta=1e4)}, seed=7)

    partial = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.75}
    write("phi3", "phi3", hf.Phi3Config(**common(rope_parameters=partial, sliding_window=9)), hf.Phi3ForCausalLM,
          [T.Q4_0], {"rope.freq_base": 100.0, "rope.dimension_count": 12, "attention.sliding_window": 9,
                     "rope.scaling.original_context_length": 256},
          {"window": setter(sliding_window=None), "partial rotation": rope(partial_rotary_factor=1.0)}, seed=8)

    short, long = [1.0, 1.1, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0], [1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 32.0]
    longrope = {"rope_type": "longrope", "short_factor": short, "long_factor": long, "rope_theta": 100.0,
                "original_max_position_embeddings": 64, "partial_rotary_factor": 1.0}
    config = hf.Phi3Config(**common(rope_parameters=longrope, original_max_position_embeddings=64, sliding_window=None))
    write("phi3-long", "phi3", config, hf.Phi3ForCausalLM, [T.Q4_0],
          {"rope.freq_base": 100.0, "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 64,
           "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(4) / np.log(64)))},
          {"short factors": rope(short_factor=[1.0] * 8)}, extra={"rope_factors_short.weight": short,
                                                                 "rope_factors_long.weight": long}, seed=9)

    config = hf.Gemma2Config(**common(
        num_hidden_layers=4, hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1,
        head_dim=32, query_pre_attn_scalar=32, sliding_window=5, attn_logit_softcapping=1.0, final_logit_softcapping=2.0,
        rope_parameters=plain(100.0), tie_word_embeddings=True))
    write("gemma2", "gemma2", config, hf.Gemma2ForCausalLM, [T.Q8_0],
          {"rope.freq_base": 100.0, "attention.key_length": 32, "attention.value_length": 32,
           "attention.sliding_window": 5, "attn_logit_softcapping": 1.0, "final_logit_softcapping": 2.0},
          {"attention cap": setter(attn_logit_softcapping=None), "logit cap": setter(final_logit_softcapping=None),
           "local layers": setter(layer_types=["full_attention"] * 4),
           "which layers": setter(layer_types=["full_attention", "sliding_attention"] * 2),
           "gelu": setter(hidden_activation="silu")}, seed=10)

    both = {"sliding_attention": plain(50.0), "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}
    config = hf.Gemma3TextConfig(**common(
        num_hidden_layers=6, hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1,
        head_dim=32, query_pre_attn_scalar=32, sliding_window=5, rope_parameters={
            "sliding_attention": plain(10000.0), "full_attention": both["full_attention"]}, tie_word_embeddings=True))

    def one_base(config):
        config.rope_parameters = {"sliding_attention": both["full_attention"], "full_attention": both["full_attention"]}

    def unscaled_base(config):
        config.rope_parameters = {"sliding_attention": plain(10000.0), "full_attention": plain(500.0)}

    write("gemma3", "gemma3", config, hf.Gemma3ForCausalLM, [T.Q8_0],
          {"rope.freq_base": 500.0, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0,
           "attention.key_length": 32, "attention.value_length": 32, "attention.sliding_window": 5},
          {"local layers": setter(layer_types=["full_attention"] * 6), "local base": one_base,
           "global scaling": unscaled_base}, seed=11)


if __name__ == "__main__":
    torch.manual_seed(0)
    sys.exit(main())
