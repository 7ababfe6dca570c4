#!/usr/bin/env python3
"""How long the commands take on a log of many exchanges, cold and warm, and how much memory.

bench_large_log.py FOLDER [--exchanges 10000000] [--verify]: fills FOLDER unless it holds a log (ten million exchanges:
16 GB, about ten minutes of processor time). Cold: the file's pages were given back to the system before (posix_fadvise).
--verify reads all of it.
"""
import argparse
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def forget(folder):
    """Has the system drop what it keeps of the files, where nobody else holds it."""
    for path in Path(folder).iterdir():
        if not path.is_file():
            continue
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def run(command):
    """Seconds, peak memory in MiB, lines printed."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - begun, usage.ru_maxrss / 1024, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--exchanges", type=int, default=10_000_000)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--verify", action="store_true")
    a = parser.parse_args()
    fill, program = Path(a.build) / "tests/bench/audit/audit_large_log", Path(a.build) / "cli/verbatim"
    if not (Path(a.folder) / "log.db").exists():
        seconds, _, _ = run([fill, a.folder, str(a.exchanges)])
        print(f"filled with {a.exchanges:,} exchanges in {seconds:.0f} s")
    data = ["--data", a.folder]
    listed = [program, "log", "list", *data, "--json", "--limit", "20"]
    middle = "2025-12-15T00:00:00Z"
    _, _, newest = run([program, "log", "list", *data, "--limit", "1"])
    identity = newest.decode().splitlines()[-1].split()[1]
    commands = {
        "open for writing, a leaf, close": [fill, a.folder, "0"],
        "log list: the newest 20": listed,
        "log list --since the middle --until a day later": [*listed, "--since", middle, "--until", "2025-12-16T00:00:00Z"],
        "log list --model, one in 100,000": [*listed, "--model", "seldom"],
        "log list --model, one in four": [*listed, "--model", "qwen-7b"],
        "log list --status upstream_error, one in 1,000": [*listed, "--status", "upstream_error"],
        "log list --status open, none": [*listed, "--status", "open"],
        "log show of one": [program, "log", "show", identity, *data],
        "receipt of one": [program, "receipt", identity, *data],
        "checkpoint": [program, "checkpoint", *data],
    }
    size = sum(path.stat().st_size for path in Path(a.folder).iterdir() if path.is_file())
    print(f"{size / 1e9:.1f} GB\n\n| | cold, s | warm, s | MiB |\n|---|---|---|---|")
    for name, command in commands.items():
        forget(a.folder)
        cold, _, _ = run(command)
        warm, memory, _ = run(command)
        print(f"| {name} | {cold:.2f} | {warm:.2f} | {memory:.0f} |", flush=True)
    if a.verify:
        seconds, memory, _ = run([program, "verify", *data])
        print(f"| verify, everything | {seconds:.0f} | | {memory:.0f} |")


if __name__ == "__main__":
    main()
