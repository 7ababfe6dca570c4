#!/usr/bin/env python3
"""Writes a random Llama as GGUF v3, of a size at which speed means something: random_gguf.py OUT.gguf [--type f16]

134 million parameters by default (12 layers of width 768, 32,000 tokens). The numbers are drawn by NumPy's PCG64 from
the seed, so one seed gives one file. It says nothing sensible; it costs what a real model of its shape costs. Needs
python3-numpy.
"""
import argparse
import struct
from pathlib import Path

import numpy as np

UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
TYPES = {"f32": 0, "f16": 1, "bf16": 30}
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def metadata(name, kind, value):
    head = text(name) + struct.pack("<I", kind)
    if kind == STRING:
        return head + text(value)
    if kind == ARRAY:
        item, values = value
        packed = b"".join(text(v) if item == STRING else struct.pack({INT32: "<i", FLOAT32: "<f"}[item], v)
                          for v in values)
        return head + struct.pack("<IQ", item, len(values)) + packed
    return head + struct.pack({UINT32: "<I", FLOAT32: "<f"}[kind], value)


def vocabulary(size):
    """SentencePiece-like: three special tokens, 256 bytes, then made-up words."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokens += [f"\u2581w{i}" for i in range(size - len(tokens))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (size - 259)
    return tokens, [0.0] * 3 + [-float(i) for i in range(size - 3)], kinds


def shapes(a):
    """Tensors with their shapes as rows by columns, in file order."""
    head = a.width // a.heads
    yield "token_embd.weight", (a.vocab, a.width)
    for i in range(a.layers):
        yield f"blk.{i}.attn_norm.weight", (a.width,)
        yield f"blk.{i}.attn_q.weight", (a.heads * head, a.width)
        yield f"blk.{i}.attn_k.weight", (a.kv_heads * head, a.width)
        yield f"blk.{i}.attn_v.weight", (a.kv_heads * head, a.width)
        yield f"blk.{i}.attn_output.weight", (a.width, a.heads * head)
        yield f"blk.{i}.ffn_norm.weight", (a.width,)
        yield f"blk.{i}.ffn_gate.weight", (a.inner, a.width)
        yield f"blk.{i}.ffn_up.weight", (a.inner, a.width)
        yield f"blk.{i}.ffn_down.weight", (a.width, a.inner)
    yield "output_norm.weight", (a.width,)
    yield "output.weight", (a.vocab, a.width)


def numbers(random, shape, kind):
    """The tensor's bytes. Norms are ones, in f32 as is customary."""
    if len(shape) == 1:
        return np.ones(shape, "<f4").tobytes()
    x = random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[1]))
    if kind == "f32":
        return x.astype("<f4").tobytes()
    if kind == "f16":
        return x.astype("<f2").tobytes()
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()  # to nearest even


def write(path, a):
    tokens, scores, kinds = vocabulary(a.vocab)
    fields = [metadata("general.architecture", STRING, "llama"), metadata("general.alignment", UINT32, ALIGNMENT),
              metadata("llama.block_count", UINT32, a.layers), metadata("llama.context_length", UINT32, a.context),
              metadata("llama.embedding_length", UINT32, a.width), metadata("llama.vocab_size", UINT32, a.vocab),
              metadata("llama.feed_forward_length", UINT32, a.inner),
              metadata("llama.attention.head_count", UINT32, a.heads),
              metadata("llama.attention.head_count_kv", UINT32, a.kv_heads),
              metadata("llama.rope.dimension_count", UINT32, a.width // a.heads),
              metadata("llama.rope.freq_base", FLOAT32, 10000.0),
              metadata("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
              metadata("tokenizer.ggml.model", STRING, "llama"),
              metadata("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
              metadata("tokenizer.ggml.scores", ARRAY, (FLOAT32, scores)),
              metadata("tokenizer.ggml.token_type", ARRAY, (INT32, kinds)),
              metadata("tokenizer.ggml.bos_token_id", UINT32, 1), metadata("tokenizer.ggml.eos_token_id", UINT32, 2),
              metadata("tokenizer.ggml.unknown_token_id", UINT32, 0)]
    tensors = list(shapes(a))
    infos, offset = b"", 0
    for name, shape in tensors:
        kind = "f32" if len(shape) == 1 else a.type
        infos += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
        infos += struct.pack("<IQ", TYPES[kind], offset)
        offset += -(-int(np.prod(shape)) * (4 if kind == "f32" else 2) // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields) + infos
    random = np.random.Generator(np.random.PCG64(a.seed))
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % ALIGNMENT))
        for _, shape in tensors:
            data = numbers(random, shape, a.type)
            out.write(data + b"\0" * (-len(data) % ALIGNMENT))


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=TYPES, default="f32")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--inner", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--kv-heads", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    options = arguments()
    write(options.out, options)
