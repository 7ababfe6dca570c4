"""A pruning whose system calls fail, or that is killed at one of them: the log stays whole, and the next one finishes it.

A sample of the places runs; with VERBATIM_FAULTS=all every place does."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
import support  # noqa: E402
from test_syscall_faults import can_trace  # noqa: E402

CALLS = ("pwrite64", "fsync", "fdatasync", "ftruncate")
FAULTS = ("signal=KILL", "error=EIO")
SAMPLE = 24


class PruneFaults(support.ProgramTest):
    def setUp(self):
        super().setUp()
        if not can_trace():
            self.skipTest("SKIPPED: strace is not here, or may not trace")
        self.begun = self.folder / "begun"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=self.begun) as gateway:
            for _ in range(300):
                gateway.request("GET", "/v1/models")

    def prune(self, *flags):
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.begun, self.data)
        return subprocess.run(
            ["strace", "-f", "-qq", *map(str, flags), support.VERBATIM, "prune", "--before", support.now(), "--reason",
             "policy", "--data", str(self.data), "--json"], capture_output=True, timeout=120)

    def places(self):
        trace = self.folder / "trace"
        run = self.prune("-o", trace, "-e", "trace=" + ",".join(CALLS))
        self.assertEqual(run.returncode, 0, run.stderr)
        counts = {}
        for thread, call in re.findall(r"^(\d+) +(\w+)\(", trace.read_text(), re.M):
            counts[call, thread] = counts.get((call, thread), 0) + 1
        return {call: max([n for (name, _), n in counts.items() if name == call], default=0) for call in CALLS}

    def try_fault(self, call, fault, place):
        """Prunes with one fault, and again without; returns whether the first was left unfinished."""
        run = self.prune("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={place}")
        case = f"{call} {fault} at {place}: exit {run.returncode}, {run.stderr.decode()[-300:]}"
        self.assertIn(run.returncode, (0, 1, 3, 137, -9), case)
        report = self.verify()
        self.assertEqual((report["verdict"], report["problems"]), ("VALID", []), case)
        unfinished = report["prune_unfinished"]
        # Whoever opens the log next finishes it, or prunes anew.
        again = support.verbatim("prune", "--before", support.now(), "--reason", "again", "--data", self.data)
        self.assertIn(again.code, (0, 2), f"{case}; {again}")
        report = self.verify()
        self.assertEqual((report["verdict"], report["prune_unfinished"]), ("VALID", False), case)
        self.assertGreater(report["pruned"], 500, case)
        return unfinished

    def test_a_pruning_that_is_cut_off_is_finished_by_the_next_start(self):
        cases = [(call, fault, place) for call, most in self.places().items()
                 for place in range(1, most + 1) for fault in FAULTS]
        self.assertGreater(len(cases), SAMPLE, "a pruning makes too few calls: the test would prove too little")
        if os.environ.get("VERBATIM_FAULTS") != "all":
            # Evenly over calls, places and faults, and the same each time.
            cases = [cases[i * len(cases) // SAMPLE] for i in range(SAMPLE)]
        self.assertTrue(any([self.try_fault(*case) for case in cases]), "no fault left a pruning unfinished")


if __name__ == "__main__":
    support.main()
