#!/usr/bin/env python3
"""Write tests/golden/tokenizers/: small vocabularies as tokenizer.json, and the ids of the tokenizers library.

Run with: pip install tokenizers==0.23.3 && scripts/golden/tokenizer_json.py

Byte-level ones with the cutting of each family, and three over characters with byte fallback: Llama's (a space before
every stretch of text), Mistral's (before the first), Gemma's (none, and user-defined tokens). NAME.json is a list of
[text, ids with special tokens found in the text, ids with special tokens taken for text].

Qwen2's normalizer is NFC, as its models have it. The awkward texts are in `awkward` below.
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


def awkward():
    """Digits of several scripts, contractions, scripts without spaces or case, joined emoji, marks, line breaks, spaces."""
    runs = ["1234567890", "\u0661\u0662\u0663\u0664\u0665", "\u00bd\u00b2\u2167\u2460 1\u00b22", "3.14e-10 0x1F 1,234,567", "v1.2.3-rc4"]
    contractions = ["I'm you're he'd they'll we've it's don't", "I'M YOU'RE HE'D THEY'LL WE'VE IT'S DON'T", "I\u2019m don\u2019t",
                    "o'clock 'tis 'S 's''s", "x'\u017f y'\u017fz", "L'homme d'Or 're're"]
    scripts = ["\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u662f2026\u5e74", "\u65e5\u672c\u8a9e\u30c6\u30b9\u30c8\u3067\u3059\u3088", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5",
               "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643\u0645 \u064a\u064f\u0648\u0646\u0650\u064a\u0643\u064f\u0648\u062f", "\u05e9\u05c1\u05dc\u05d5\u05b9\u05dd",
               "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e17\u0e35\u0e48\u0e19\u0e35\u0e48", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0967\u0968\u0969",
               "\u0130stanbul \u0131\u015f\u0131k I\u0307 i\u0307 D\u0130YARBAKIR", "\u041f\u0440\u0438\u0432\u0435\u0442 \u041c\u0438\u0440Hello", "\u01c5\u01c6\u01c4 \u02b0\u02b7 \u1e9e\u00df\ufb03",
               "\u16a0\u16a2\u16a6 \U00010330\U00010331 \U0001d4d0\U0001d4ea"]
    emoji = ["\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family", "\U0001f44d\U0001f3fd\U0001f1e9\U0001f1ea\u2764\ufe0f", "1\ufe0f\u20e3#\ufe0f\u20e3", "\u200b\u200d\ufeffx\u2060y",
             "\U0001f3f4\U000e0067\U000e0062\U000e007f"]
    marks = ["e\u0301 cafe\u0301 A\u030a o\u0302\u0323", "\u212b\u2126\u212a", "\u0344 \u0958 \ufb1d\u2adc", "q\u0307\u0323 \u1e0b\u0323", "\u0301\u0302x", " \u0301a1\u0301",
             "\uff21\uff22\uff11 \u2460\u210c", "n\u0303\u0303 \u00f1\u0303", "a\u034f\u0301", "</s>\u0338<s>\u0301"]
    breaks = ["a\r\nb\r\n\r\nc", "a\rb\r\r\n\nc", "\n\n\n", " \n \n  x", "x \n", "x\t\ty\t", "\t\t\n\t", "end   ", "   start", "a\u00a0b\u00a0\u00a0c", "a\u3000\u3000b", "a\u2028b\u2029c\u0085d",
              "a\u2003 \u2009b", "a\x0b\x0cb", "x\x1f\x1cy", "...\r\n\r\n!!/\n//\r/", "((()))\n\n{}", "a.\n\n\n b", "path/to/file.rs:42", "--flag=\"v\"; $X@y#z", "\x00\x01\x7f"]
    words = ["camelCaseHTTPServer XMLHttpRequest2", "snake_case_Name ALLCAPS aB Ab", "ABCdef\u00c9\u00e9\u00c9", "\u01c5abc A\u0301b", "\u4e2dAbc\u4e2d", "x\u02b0Y", "don'tStop CAN'TStop"]
    return runs + contractions + scripts + emoji + marks + breaks + words


def texts():
    rng = random.Random(11)
    parity = (ROOT / "tests/data/tokenizer/ggml-vocab-gpt-2.gguf.inp").read_text().split("\n__ggml_vocab_test__\n")
    out = ["", " ", "a", "  two  spaces ", "\u2581", "a\u2581b", "x</s>y", "<s>hello</s> <|end|>end", "<s> hello", "<0x41>",
           "a\n\n\n\nb", "<table>x", "12345678 0.5", "I'LL don't camelCaseWord HTTPServer", "caf\u00e9 \u4e2d\u6587 \U0001f600"] + parity + awkward()
    # All of them next to each other, in another order each time.
    for seed in range(2):
        parts = awkward()
        random.Random(seed).shuffle(parts)
        out.append(("" if seed % 2 else " ").join(parts))
    for _ in range(30):
        start = rng.randrange(len(english()) - 80)
        out.append(english()[start:start + rng.randrange(1, 80)])
    alphabet = ["a", "e", "T", "'s", " ", "  ", "\n", "\t", ".", "/", "9", "\u00e9", "\u4e2d", "\U0001f600", "<s>", "</s>", "<|end|>", "\u2581"]
    for _ in range(60):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 24))))
    alphabet += ["\r", "\u0301", "\u0131", "\u0130", "\u200d", "\u0663", "\u00bd", "\u0e35", "\u0627\u064f", "\u1112", "\u1161", "\u3000", "\u00a0", "'LL", "\u017f", "\u01c5", "Q", "_"]
    for _ in range(60):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 24))))
    return out


def byte_level(name):
    t = Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name not in SPLITS)
    if name == "smollm":
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), last])
    elif name in SPLITS:
        split = pre_tokenizers.Split(Regex(SPLITS[name]), "isolated", invert=False)
        t.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    else:
        t.pre_tokenizer = last
    if name == "qwen2":
        t.normalizer = normalizers.NFC()
    t.decoder = decoders.ByteLevel()
    # Trained on texts that are not cut, so that there are tokens across every place where a text should be: whoever cuts
    # elsewhere gets other ids.
    uncut = Tokenizer(models.BPE())
    uncut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIAL, show_progress=False, max_token_length=12,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    # None of the special tokens is to be reached by merging.
    plain = [t for t in awkward() if not any(s in t for s in SPECIAL)]
    uncut.train_from_iterator(english().splitlines(keepends=True) + 4 * plain, trainer)
    model = json.loads(uncut.to_str())["model"]
    t.model = models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]],
                         ignore_merges=name in ("llama3", "tekken"))
    t.add_special_tokens([AddedToken(s, normalized=False) for s in SPECIAL])
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
