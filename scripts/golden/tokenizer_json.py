#!/usr/bin/env python3
"""Write tests/golden/tokenizers/: small vocabularies as tokenizer.json, and the ids of the tokenizers library.

Run with: pip install tokenizers==0.23.3 && scripts/golden/tokenizer_json.py

Byte-level ones with the cutting of each family, and three over characters with byte fallback: Llama's (a space before
every stretch of text), Mistral's (before the first), Gemma's (none, and user-defined tokens). NAME.json is a list of
[text, ids with special tokens found in the text, ids with special tokens taken for text].
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/tokenizers"
SPECIAL = ["<|end|>", "<s>", "</s>"]
USER = ["\n\n", "\n\n\n", "<table>"]
CL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+S|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*S|\p{N}DIGITS"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {
    "llama3": CL.replace("DIGITS", "{1,3}"),
    "qwen2": CL.replace("DIGITS", ""),
    "tekken": WORD.replace("DIGITS", "").replace("S|", "|"),
    "gpt4o": WORD.replace("DIGITS", "{1,3}").replace("S|", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"),
}


def english():
    return (ROOT / "tests/golden/text_en.txt").read_text()


def texts():
    rng = random.Random(11)
    parity = (ROOT / "tests/data/tokenizer/ggml-vocab-gpt-2.gguf.inp").read_text().split("\n__ggml_vocab_test__\n")
    out = ["", " ", "a", "  two  spaces ", "\u2581", "a\u2581b", "x</s>y", "<s>hello</s> <|end|>end", "<s> hello", "<0x41>",
           "a\n\n\n\nb", "<table>x", "12345678 0.5", "I'LL don't camelCaseWord HTTPServer", "caf\u00e9 \u4e2d\u6587 \U0001f600"] + parity
    for _ in range(30):
        start = rng.randrange(len(english()) - 80)
        out.append(english()[start:start + rng.randrange(1, 80)])
    alphabet = ["a", "e", "T", "'s", " ", "  ", "\n", "\t", ".", "/", "9", "\u00e9", "\u4e2d", "\U0001f600", "<s>", "</s>", "<|end|>", "\u2581"]
    for _ in range(60):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 24))))
    return out


def byte_level(name):
    t = Tokenizer(models.BPE(ignore_merges=name in ("llama3", "tekken")))
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name not in SPLITS)
    if name == "smollm":
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), last])
    elif name in SPLITS:
        split = pre_tokenizers.Split(Regex(SPLITS[name]), "isolated", invert=False)
        t.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    else:
        t.pre_tokenizer = last
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    t.train_from_iterator([english()], trainer)
    return t


def characters(name):
    # Trained word by word, as SentencePiece is, then used on whole texts, as its models are.
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(Regex("\u2581*[^\u2581]+"), "isolated")
    special = ["<unk>", "<s>", "</s>", "<|end|>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator([english()], trainers.BpeTrainer(vocab_size=520, special_tokens=special, show_progress=False))
    model = json.loads(t.to_str())["model"]
    out = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], unk_token="<unk>",
                               byte_fallback=True, fuse_unk=True))
    if name == "llama":
        out.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    elif name == "mistral":
        out.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    else:
        out.normalizer = normalizers.Replace(" ", "\u2581")
        out.add_tokens([AddedToken(u, normalized=False) for u in USER])
    out.add_special_tokens([AddedToken(s, normalized=False) for s in ["<unk>", "<s>", "</s>", "<|end|>"]])
    return out


def main():
    OUT.mkdir(exist_ok=True)
    for name in ["gpt2", "smollm", "llama3", "qwen2", "tekken", "gpt4o", "llama", "mistral", "gemma"]:
        t = characters(name) if name in ("llama", "mistral", "gemma") else byte_level(name)
        folder = OUT / name
        folder.mkdir(exist_ok=True)
        t.save(str(folder / "tokenizer.json"), pretty=False)
        cases = []
        for text in texts():
            t.encode_special_tokens = False
            parsed = t.encode(text, add_special_tokens=False).ids
            t.encode_special_tokens = True
            cases.append([text, parsed, t.encode(text, add_special_tokens=False).ids])
        (OUT / f"{name}.json").write_text(json.dumps(cases) + "\n")
        print(name, t.get_vocab_size(), len(cases))


main()
