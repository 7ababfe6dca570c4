#!/usr/bin/env python3
"""How many short records of the demo model a replay judges in a minute: tests/bench/replay/bench_records.py [--program PROGRAM]

Asks a gateway a thousand questions, and replays copies of its log, one record at a time and several: each verdict is a leaf with
a signed statement, committed before the next. Medians of three rounds, interleaved.
"""
import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/end_to_end"))
import support  # noqa: E402

RECORDS, TOKENS, ROUNDS = 1000, 32, 3


def record(data):
    with support.Gateway(data, "--model", f"demo={support.DEMO_MODEL}") as gateway, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: gateway.post("/v1/chat/completions", support.chat(
            f"What is a log, number {at}?", temperature=0, max_tokens=TOKENS)), range(RECORDS)))
        gateway.stop(seconds=600)


def measure(data, parallel):
    """Seconds, processor seconds."""
    def processor():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    with tempfile.TemporaryDirectory(prefix="verbatim-bench-") as folder:
        copy = Path(folder) / "data"
        shutil.copytree(data, copy)
        begun, used = time.monotonic(), processor()
        out = subprocess.run([support.VERBATIM, "replay", "--all", "--data", copy, "--parallel", str(parallel)],
                             capture_output=True, text=True, check=True).stdout
        seconds = time.monotonic() - begun
        if f"{RECORDS} records: {RECORDS} BITWISE" not in out:
            sys.exit(f"not all were BITWISE:\n{out[-1000:]}")
        return seconds, processor() - used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/cli/verbatim")
    support.VERBATIM = str(parser.parse_args().program)
    with tempfile.TemporaryDirectory(prefix="verbatim-bench-") as folder:
        data = Path(folder) / "data"
        record(data)
        settings = (1, 2, 8, 32)
        found = {parallel: [] for parallel in settings}
        for _ in range(ROUNDS):
            for parallel in settings:
                found[parallel].append(measure(data, parallel))
    print(f"{RECORDS} records, at most {TOKENS} tokens each\n")
    print("| records at a time | seconds | records a minute | processor ms a record |\n|---|---|---|---|")
    for parallel, rounds in found.items():
        seconds, used = (statistics.median(column) for column in zip(*rounds))
        print(f"| {parallel} | {seconds:.1f} | {60 * RECORDS / seconds:,.0f} | {1000 * used / RECORDS:.1f} |")


if __name__ == "__main__":
    main()
