#!/usr/bin/env python3
"""How many bytes of contents `verify` reads in a second, by their length, beside the hash alone: bench_verify.py [--build FOLDER]

Every content is decrypted, unpacked and held against its commitment; every leaf is parsed, hashed and held against the tree and its
columns. One thread. The contents are text of 16 letters, which zstd halves. `sha256` hashes as many bytes with Python's hashlib
(OpenSSL, like ours), in pieces as long as the contents. Medians of three interleaved rounds.
"""
import argparse
import hashlib
import statistics
import tempfile
import time
from pathlib import Path

from bench_large_log import ROOT, run

TOTAL = 256 << 20
ROUNDS = 3


def hashed_in(piece):
    """Seconds for TOTAL bytes."""
    text = b"abcdefghijklmnop" * (piece // 16)
    begun = time.monotonic()
    for _ in range(TOTAL // piece):
        hashlib.sha256(text).digest()
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    build = parser.parse_args().build
    print("| bytes each | contents | verify MB/s | sha256 MB/s | us a leaf | MiB |\n|---|---|---|---|---|---|")
    for piece in (256, 4096, 65_536, 1 << 20, 16 << 20):
        with tempfile.TemporaryDirectory(prefix="verbatim-bench-") as folder:
            exchanges = max(1, min(TOTAL // piece // 2, 50_000))
            run([build / "tests/bench/audit/audit_large_log", folder, str(exchanges), str(piece)])
            total = 2 * exchanges * piece
            rounds = [(*run([build / "cli/verbatim", "verify", "--data", folder])[:2], hashed_in(piece)) for _ in range(ROUNDS)]
            seconds, memory, alone = (statistics.median(column) for column in zip(*rounds))
            print(f"| {piece:,} | {2 * exchanges:,} | {total / seconds / 1e6:,.0f} | {TOTAL / alone / 1e6:,.0f} | "
                  f"{seconds / (2 * exchanges) * 1e6:.1f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
