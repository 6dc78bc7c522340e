#!/usr/bin/env python3
"""Write tests/golden/sentencepiece/: two small SentencePiece vocabularies and the ids of the sentencepiece library.

Run with: pip install gguf==0.19.0 sentencepiece==0.2.3 protobuf && scripts/golden/sentencepiece_ids.py

`llama` puts a space before a text; `gemma` does not, and has user-defined tokens, which are found in any text.
Each NAME.gguf has a vocabulary and no tensors; NAME.json is a list of texts with their ids.
"""
import io
import json
import pathlib
import random

import sentencepiece as spm
from gguf import GGUFWriter
from sentencepiece import sentencepiece_model_pb2 as pb

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/sentencepiece"
USER = ["<table>", "<h1>", "\n\n", "\n\n\n", "\u2581\u2581", "\u2581\u2581\u2581", "don't"]


def texts():
    rng = random.Random(7)
    english = (ROOT / "tests/golden/text_en.txt").read_text()
    parity = (ROOT / "tests/data/tokenizer/ggml-vocab-gpt-2.gguf.inp").read_text().split("\n__ggml_vocab_test__\n")
    out = ["", " ", "a", "  two  spaces ", "\u2581", "a\u2581b", "</s>", "<s>hello</s>", "<unk>", "<0x41>", "<table><h1>",
           "x<table>y", "don't", "a\n\n\n\nb", "tab\there", "caf\u00e9 \u4e2d\u6587 \U0001f600", "e\u0301"] + parity
    for _ in range(60):
        start = rng.randrange(len(english) - 80)
        out.append(english[start:start + rng.randrange(1, 80)])
    alphabet = "aeiou thsnr.,'\n<>/|\u2581\u00e9\u4e2d\U0001f600" + "".join(USER).replace("\u2581", " ")
    for _ in range(120):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 40))))
    return out


def train(prefix, user):
    model = io.BytesIO()
    english = (ROOT / "tests/golden/text_en.txt").read_text()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(english.split("\n")), model_writer=model, model_type="bpe", vocab_size=600,
        byte_fallback=True, add_dummy_prefix=prefix, user_defined_symbols=user, remove_extra_whitespaces=False,
        normalization_rule_name="identity", allow_whitespace_only_pieces=True, character_coverage=1.0,
        hard_vocab_limit=False, num_threads=1, minloglevel=2)
    return model.getvalue()


def main():
    OUT.mkdir(exist_ok=True)
    for name, prefix, user in [("llama", True, []), ("gemma", False, USER)]:
        model = train(prefix, user)
        processor = spm.SentencePieceProcessor(model_proto=model)
        proto = pb.ModelProto()
        proto.ParseFromString(model)
        writer = GGUFWriter(OUT / f"{name}.gguf", "llama")
        writer.add_tokenizer_model("llama")
        # The converter of llama.cpp writes spaces in user-defined tokens.
        texts_of = [p.piece.replace("\u2581", " ") if p.type == 4 else p.piece for p in proto.pieces]
        writer.add_token_list(texts_of)
        writer.add_token_scores([p.score for p in proto.pieces])
        writer.add_token_types([p.type for p in proto.pieces])
        writer.add_bos_token_id(processor.bos_id())
        writer.add_eos_token_id(processor.eos_id())
        writer.add_unk_token_id(processor.unk_id())
        writer.add_add_space_prefix(prefix)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        cases = [{"text": t, "ids": processor.encode(t)} for t in texts()]
        (OUT / f"{name}.json").write_text(json.dumps(cases, ensure_ascii=True) + "\n")
        print(name, len(proto.pieces), len(cases))


main()
