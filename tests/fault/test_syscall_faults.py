"""A small writer whose system calls fail, one by one: what it acknowledged is there, and the log goes on.

strace injects EIO, ENOSPC or a SIGKILL at the n-th call of a kind. A sample of all places is tried; with
VERBATIM_FAULTS=all every place is.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
import support  # noqa: E402

CALLS = ("pwrite64", "write", "fsync", "fdatasync", "ftruncate", "rename", "unlink")
FAULTS = ("error=EIO", "error=ENOSPC", "signal=KILL")
SAMPLE = 24


def can_trace():
    try:
        return subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


class SyscallFaults(support.ProgramTest):
    def setUp(self):
        super().setUp()
        if not can_trace():
            self.skipTest("SKIPPED: strace is not here, or may not trace")
        # A log that is begun; each case has a copy of its own.
        self.begun = self.folder / "begun"
        with self.gateway("--upstream", "openai=http://127.0.0.1:9", data=self.begun):
            pass

    def writer(self, *flags):
        """Appends three leaves (start, legal_hold, stop), each in a commit of its own. Prints what was acknowledged."""
        return ["strace", "-f", "-qq", *map(str, flags), support.VERBATIM, "hold", "add", "--all", "--reason", "test",
                "--data", str(self.data), "--json"]

    def fresh(self):
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.begun, self.data)

    def places(self):
        """How often a thread of an undisturbed run makes each call: a fault is counted within its thread."""
        self.fresh()
        trace = self.folder / "trace"
        run = subprocess.run(self.writer("-o", trace, "-e", "trace=" + ",".join(CALLS)), capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        counts = {}
        for line in trace.read_text().splitlines():
            found = re.match(r"(\d+) +(\w+)\(", line)
            if found:
                counts[found[2], found[1]] = counts.get((found[2], found[1]), 0) + 1
        return {call: max([n for (name, _), n in counts.items() if name == call], default=0) for call in CALLS}

    def try_fault(self, call, fault, place):
        self.fresh()
        run = subprocess.run(self.writer("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={place}"),
                             capture_output=True, timeout=60)
        case = f"{call} {fault} at {place}: exit {run.returncode}, {run.stderr.decode()[-300:]}"
        self.assertIn(run.returncode, (0, 1, 3, 137, -9), case)
        report = self.verify()
        self.assertEqual((report["verdict"], report["problems"]), ("VALID", []), case)
        before = self.run_well("hold", "list", "--data", self.data, "--json").json["holds"]
        if run.returncode == 0:
            acknowledged = json.loads(run.stdout)
            self.assertEqual([(h["id"], h["index"]) for h in before], [(acknowledged["id"], acknowledged["index"])], case)
        self.assertLessEqual(len(before), 1, case)
        # It goes on, and gives no index twice.
        again = self.run_well("hold", "add", "--all", "--reason", "again", "--data", self.data, "--json").json
        self.assertGreaterEqual(again["index"], report["size"], case)
        after = self.run_well("hold", "list", "--data", self.data, "--json").json["holds"]
        self.assertEqual(after[:-1], before, case)
        self.assertEqual(self.verify()["verdict"], "VALID", case)

    def test_a_fault_at_any_call_loses_nothing_that_was_acknowledged(self):
        cases = [(call, fault, place) for call, count in self.places().items()
                 for place in range(1, count + 1) for fault in FAULTS if not (fault == "error=ENOSPC" and "sync" in call)]
        self.assertGreater(len(cases), SAMPLE, "the writer makes too few calls: the test would prove too little")
        if os.environ.get("VERBATIM_FAULTS") != "all":
            # Evenly over calls, places and faults, and the same each time.
            cases = [cases[i * len(cases) // SAMPLE] for i in range(SAMPLE)]
        for case in cases:
            self.try_fault(*case)
        print(f"{len(cases)} faults", flush=True)


if __name__ == "__main__":
    support.main()
