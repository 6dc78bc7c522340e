#!/usr/bin/env python3
"""Write tests/golden/folders/: tiny random models as transformers saves them, with its logits.

Run with: pip install gguf==0.19.0 transformers==5.24.0 torch && scripts/golden/folders.py [NAME...]

For each model NAME/ is what `save_pretrained` of model and tokenizer write. The weights of linears are 4-bit codes times
a power of two, a code of 0 in each group, those of embedding and head 8-bit codes with a 127, so that the quantizer gives
them back and the logits can be compared as closely as those of tests/golden/architectures. (With weights of so few bits an
activation can be half way between two int8 codes, where the last bit of f32 decides; seeds are such that none is.) NAME.logits: f32, positions x
vocabulary, twice, as there. NAME.json: the token ids.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import tokenizers
import torch
import transformers as hf
from architectures import VOCAB, logits, plain

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/folders"
POSITIONS = 20


def matrix(rng, bits, d_out, d_in, gain):
    groups = (d_out, d_in // 32)
    rms = gain / np.sqrt(d_in) / (4.6 if bits == 4 else 73)
    d = 2.0 ** np.round(np.log2(rms * rng.uniform(0.5, 1.5, groups)))
    q = rng.integers(-8, 8, (*groups, 32)) if bits == 4 else rng.integers(-127, 128, (*groups, 32))
    q[..., 7] = -8 if bits == 4 else 127
    return (d[..., None] * q).reshape(d_out, d_in).astype(np.float32)


def tokenizer():
    tokens = [chr(c) for c in range(33, 33 + 93)] + ["ab", "\u0120"]
    inner = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, [("a", "b")]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(["<|end|>"])
    out = hf.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>")
    out.chat_template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    return out


def write(name, config, model_class, dtype, seed, shard="1GB"):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    rng = np.random.default_rng(seed)
    gemma = name.startswith("gemma")
    model = model_class(config).float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            shape = tuple(p.shape)
            if len(shape) == 1:
                low, high = (0.5, 1.5) if "norm" in key and not gemma else (-0.5, 0.5)
                values = torch.tensor(rng.uniform(low, high, shape)).bfloat16().float().numpy()
            elif "embed" in key or "lm_head" in key:
                tied = config.tie_word_embeddings
                gain = np.sqrt(shape[1]) * 0.3 if gemma else 1.0 if tied else 1.5
                values = matrix(rng, 8, *shape, gain)
            else:
                values = matrix(rng, 4, *shape, 1.5)
            exact = torch.tensor(values, dtype=torch.float32)
            assert (exact.to(dtype).float() == exact).all(), key
            p.copy_(exact)
    ids = [int(t) for t in rng.integers(0, VOCAB - 1, POSITIONS)]
    both = [logits(model, ids), logits(model, ids, int8=True)]
    assert np.isfinite(both).all()
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    tokenizer().save_pretrained(folder)
    np.concatenate(both).astype("<f4").tofile(OUT / f"{name}.logits")
    (OUT / f"{name}.json").write_text(json.dumps({"tokens": ids}) + "\n")
    moved = float(np.sqrt(np.mean((both[1] - both[0]) ** 2)))
    print(f"{name:12} rms {np.sqrt(np.mean(both[0] ** 2)):.3f}  int8 {moved:.4f}  {sorted(p.name for p in folder.iterdir())}")


def common(**more):
    values = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                  num_key_value_heads=1, max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False,
                  attn_implementation="eager", bos_token_id=None, eos_token_id=VOCAB - 1, pad_token_id=None)
    return {**values, **more}


def main():
    OUT.mkdir(exist_ok=True)
    bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32, "rope_theta": 100.0}
    write("llama", hf.LlamaConfig(**common(rope_parameters=llama3, tie_word_embeddings=True)), hf.LlamaForCausalLM, bf16, 1)
    write("mistral", hf.MistralConfig(**common(rope_parameters=plain(500.0), sliding_window=6, head_dim=16)),
          hf.MistralForCausalLM, f16, 2, shard="30KB")
    write("smollm3", hf.SmolLM3Config(**common(num_hidden_layers=4, rope_parameters=plain(100.0), tie_word_embeddings=True)),
          hf.SmolLM3ForCausalLM, bf16, 3)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 100.0,
            "beta_fast": 4.0, "beta_slow": 0.5}
    write("qwen2", hf.Qwen2Config(**common(rope_parameters=yarn)), hf.Qwen2ForCausalLM, f32, 4)
    write("qwen3", hf.Qwen3Config(**common(head_dim=32, rope_parameters=plain(100.0), tie_word_embeddings=True)),
          hf.Qwen3ForCausalLM, bf16, 35)
    longrope = {"rope_type": "longrope", "short_factor": [1.0, 1.25, 1.5, 2.0, 2.5, 3.0], "long_factor": [1.5] * 6,
                "rope_theta": 100.0, "original_max_position_embeddings": 64, "partial_rotary_factor": 0.75}
    write("phi3", hf.Phi3Config(**common(rope_parameters=longrope, original_max_position_embeddings=64, sliding_window=9)),
          hf.Phi3ForCausalLM, bf16, 6)
    gemma = dict(num_hidden_layers=4, head_dim=32, query_pre_attn_scalar=32, sliding_window=5, tie_word_embeddings=True)
    write("gemma2", hf.Gemma2Config(**common(**gemma, attn_logit_softcapping=1.0, final_logit_softcapping=2.0,
                                             rope_parameters=plain(100.0))), hf.Gemma2ForCausalLM, bf16, 7)
    both = {"sliding_attention": plain(10000.0), "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}
    gemma["num_hidden_layers"] = 6
    write("gemma3", hf.Gemma3TextConfig(**common(**gemma, rope_parameters=both)), hf.Gemma3ForCausalLM, bf16, 38)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
