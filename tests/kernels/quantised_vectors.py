"""Blocks of every quantised format and what their elements are worth, worked out in plain Python from the published
layouts, independently of the program. `quantised_vectors.py --write` makes quantised_vectors.jsonl anew; a test compares
the file with what this makes, and quantised_test.cpp compares the kernels with the file, bit for bit.

One line a block: {"format", "bytes" (hex), "values" (hex, f32 little-endian in the order of the elements)}.
"""
import json
import random
import struct
import sys
import unittest
from pathlib import Path

FILE = Path(__file__).with_suffix(".jsonl")


def f32(x):
    """Rounded once to f32. A sum or product of two f32 in Python's f64, rounded again, is the f32 result: 53 >= 2*24+2."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def f16_at(block, at):
    return struct.unpack_from("<e", block, at)[0]


def fields(data, width):
    """The bytes cut into fields of `width` bits, from the lowest bit of the first byte on."""
    whole = int.from_bytes(data, "little")
    return [whole >> at & (1 << width) - 1 for at in range(0, 8 * len(data), width)]


def halves(data):
    """All low halves, then all high halves."""
    both = fields(data, 4)
    return both[0::2] + both[1::2]


def legacy(block, extra, bits):
    """(d, m or None, integers) of the formats with 32 elements: `extra` bytes of f16 m, then `bits` 5: a word of fifth bits."""
    d, at = f16_at(block, 0), 2
    m = None
    if extra:
        m, at = f16_at(block, at), at + 2
    fifth = [0] * 32
    if bits == 5:
        fifth, at = fields(block[at:at + 4], 1), at + 4
    return d, m, [low + 16 * high for low, high in zip(halves(block[at:at + 16]), fifth)]


def q8_0(block):
    d = f16_at(block, 0)
    return [f32(q * d) for q in struct.unpack_from("<32b", block, 2)]


def q4_0(block):
    d, _, q = legacy(block, 0, 4)
    return [f32((n - 8) * d) for n in q]


def q4_1(block):
    d, m, q = legacy(block, 2, 4)
    return [f32(f32(n * d) + m) for n in q]


def q5_0(block):
    d, _, q = legacy(block, 0, 5)
    return [f32((n - 16) * d) for n in q]


def q5_1(block):
    d, m, q = legacy(block, 2, 5)
    return [f32(f32(n * d) + m) for n in q]


def six_bit_pairs(packed):
    """Scales and minima: 8 low parts of 6 bits in the first 8 bytes, whose top bits complete the nibbles of the last 4."""
    scales, minima = [], []
    for j in range(4):
        scales.append(packed[j] % 64)
        minima.append(packed[j + 4] % 64)
    for j in range(4):
        scales.append(packed[8 + j] % 16 + packed[j] // 64 * 16)
        minima.append(packed[8 + j] // 16 + packed[j + 4] // 64 * 16)
    return scales, minima


def k_quant(block, low_at, high_at):
    d, dmin = f16_at(block, 0), f16_at(block, 2)
    scales, minima = six_bit_pairs(block[4:16])
    values = []
    for j in range(8):
        half = halves(block[low_at + 32 * (j // 2):low_at + 32 * (j // 2) + 32])
        numbers = half[32 * (j % 2):32 * (j % 2) + 32]
        if high_at is not None:
            numbers = [n + 16 * (block[high_at + i] >> j & 1) for i, n in enumerate(numbers)]
        d1, m1 = f32(d * scales[j]), f32(dmin * minima[j])
        values += [f32(f32(d1 * n) - m1) for n in numbers]
    return values


def q4_k(block):
    return k_quant(block, 16, None)


def q5_k(block):
    return k_quant(block, 48, 16)


def q6_k(block):
    d, scales = f16_at(block, 208), struct.unpack_from("<16b", block, 192)
    numbers = []
    for side in range(2):
        low = halves(block[64 * side:64 * side + 64])
        pairs = [fields(block[128 + 32 * side + i:129 + 32 * side + i], 2) for i in range(32)]
        high = [pairs[i][quarter] for quarter in range(4) for i in range(32)]
        numbers += [a + 16 * b - 32 for a, b in zip(low, high)]
    return [f32(f32(d * scales[e // 16]) * n) for e, n in enumerate(numbers)]


# Name, decoder, bytes of a block, where its f16 numbers are.
FORMATS = [("Q8_0", q8_0, 34, [0]), ("Q4_0", q4_0, 18, [0]), ("Q4_1", q4_1, 20, [0, 2]), ("Q5_0", q5_0, 22, [0]),
           ("Q5_1", q5_1, 24, [0, 2]), ("Q4_K", q4_k, 144, [0, 2]), ("Q5_K", q5_k, 176, [0, 2]),
           ("Q6_K", q6_k, 210, [208])]
# Zeros of both signs, subnormals, the largest, ordinary ones.
HALVES = [0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff, 0x2a66, 0xb123, 0x1c9a, 0x3c00]


def lines():
    chance = random.Random(20)
    for name, decode, size, halves_at in FORMATS:
        for case in range(10 if size < 100 else 5):
            block = bytearray(chance.randbytes(size))
            if case == 0:
                block = bytearray(size)
            if case == 1:
                block = bytearray(b"\xff" * size)
            for at in halves_at:
                struct.pack_into("<H", block, at, HALVES[chance.randrange(len(HALVES))])
            values = decode(bytes(block))
            yield json.dumps({"format": name, "bytes": block.hex(), "values": struct.pack(f"<{len(values)}f", *values).hex()})


class QuantisedVectorsTest(unittest.TestCase):
    def test_the_file_is_what_this_makes(self):
        self.assertEqual(FILE.read_text().splitlines(), list(lines()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text("".join(line + "\n" for line in lines()))
    else:
        unittest.main()
