#!/usr/bin/env python3
"""Tokens a second of the local engine: prefill, decode and score of a random Llama of 134 million parameters.

bench_engine.py [--types f32 bf16] [--threads 1 2]: prints one row a run. It also sees that score gives decode's digest.
GB/s counts the weights that a decoded token reads. Needs python3-numpy; without it, it says so and exits 77.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77  # CTest's SKIP_RETURN_CODE
ROOT = Path(__file__).resolve().parents[3]


def bytes_read(model):
    """What a decoded token reads: every tensor but the embedding, of which it reads a row."""
    import random_gguf
    sizes = dict(random_gguf.shapes(model))
    element = 4 if model.type == "f32" else 2
    return sum(rows_columns[0] * rows_columns[1] * element for name, rows_columns in sizes.items()
               if len(rows_columns) == 2 and name != "token_embd.weight")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=os.environ.get("VERBATIM", str(ROOT / "build/release/cli/verbatim")))
    parser.add_argument("--types", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, os.cpu_count()}))
    a = parser.parse_args()
    try:
        import random_gguf
    except ImportError:
        print("SKIPPED: python3-numpy is not here", file=sys.stderr)
        return SKIPPED
    print("| weights | threads | backend | prefill tokens/s | decode tokens/s | decode GB/s | score: times faster, prompt of 256 | of 16 |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="verbatim-bench-") as folder:
        for kind in a.types:
            model = random_gguf.arguments([str(Path(folder) / f"{kind}.gguf"), "--type", kind])
            random_gguf.write(model.out, model)
            for threads in a.threads:
                def bench(prompt):
                    """An answer of 256 tokens to a prompt of so many."""
                    run = subprocess.run([a.program, "engine", "bench", "--model", model.out, "--threads", str(threads), "--json",
                                          "--no-prefix-cache", "--prompt-tokens", str(prompt), "--output-tokens", "256"],
                                         stdout=subprocess.PIPE, check=True)
                    found = json.loads(run.stdout)
                    if not found["same_digest"]:
                        raise SystemExit(f"{kind}, {threads} threads: score and decode have different digests")
                    return found

                found, short = bench(256), bench(16)
                rate = found["decode_tokens_per_s"]
                print(f"| {kind} | {threads} | {found['backend']} | {found['prefill_tokens_per_s']:.0f} | {rate:.1f} | "
                      f"{rate * bytes_read(model) / 1e9:.1f} | {found['score_times_faster']:.1f} | "
                      f"{short['score_times_faster']:.1f} |", flush=True)
            model.out.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
