"""A disk that fills up under a running gateway: nothing is answered unrecorded, and it goes on when there is room."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
import support  # noqa: E402
from mock_upstream import MockUpstream, Reply  # noqa: E402

ANSWER = b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"}}]}'


def body(i):
    # Random text: it must not compress away.
    return {"model": "remote", "messages": [{"role": "user", "content": os.urandom(30_000).hex()}], "user": str(i)}


class FullDisk(support.ProgramTest):
    def small_disk(self, size):
        """An empty file system of so many bytes. Skips the test where none can be mounted."""
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        return disk

    def fill(self, gateway, upstream):
        """Asks until the log cannot be written. Nothing is answered or forwarded from then on. Returns the answers."""
        answered = []
        for i in range(400):
            answer = gateway.post("/v1/chat/completions", body(i))
            if answer.status != 200:
                break
            # One whose beginning was out when the log failed was cut off: nobody takes it for an answer.
            if answer.complete:
                answered.append(answer)
        self.assertEqual(answer.status, 503, answer.body)
        self.assertTrue(answer.json["error"]["message"])
        self.assertTrue(answered, "the disk was full before the first answer")
        forwarded = len(upstream.requests)
        self.assertEqual(gateway.post("/v1/chat/completions", body(-1)).status, 503)
        self.assertEqual(len(upstream.requests), forwarded, "a request was forwarded though the log could not be written")
        return answered

    def assert_all_recorded(self, answered):
        self.assert_valid()
        status = {record["id"]: record["status"] for record in self.records()}
        for answer in answered:
            self.assertEqual(status[answer.record], "complete")
        self.assertFalse([s for s in status.values() if not s], "a request is still open")

    def test_a_full_file_system(self):
        disk = self.small_disk("6m")
        self.data = disk / "data"
        ballast = disk / "ballast"
        ballast.write_bytes(b"\0" * (3 << 20))
        with MockUpstream(lambda request: Reply.json(ANSWER)) as upstream:
            gateway = self.gateway("--upstream", f"openai={upstream.url}", output=self.folder / "gateway.log")
            answered = self.fill(gateway, upstream)
            ballast.unlink()
            # A full disk refuses without having changed anything: the log works again once there is room.
            deadline = time.monotonic() + 20
            while (again := gateway.post("/v1/chat/completions", body(-2))).status != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            self.assertEqual(again.status, 200, again.body)
            self.assertEqual(gateway.stop(), 0)
            self.assert_all_recorded([*answered, again])

    def test_a_file_size_limit(self):
        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, resource.RLIM_INFINITY))

        with MockUpstream(lambda request: Reply.json(ANSWER)) as upstream:
            gateway = self.gateway("--upstream", f"openai={upstream.url}", preexec=limited)
            answered = self.fill(gateway, upstream)
            # This write error leaves in doubt what is in the file: only a new start may go on, and it reconciles.
            self.assertIn(gateway.stop(), (0, 3))
            self.assert_valid()
            gateway = self.gateway("--upstream", f"openai={upstream.url}")
            again = gateway.post("/v1/chat/completions", body(-2))
            self.assertEqual(again.status, 200, again.body)
            self.assertEqual(gateway.stop(), 0)
            self.assert_all_recorded([*answered, again])

    def test_a_log_that_is_taken_away_stops_the_answers_until_a_new_start(self):
        with MockUpstream(lambda request: Reply.json(ANSWER)) as upstream:
            gateway = self.gateway("--upstream", f"openai={upstream.url}")
            answered = [gateway.post("/v1/chat/completions", body(0))]
            self.assertEqual(answered[0].status, 200)
            os.rename(self.data / "log.db", self.folder / "taken.db")
            self.assertEqual(gateway.post("/v1/chat/completions", body(1)).status, 503)
            # Another file may have stood there meanwhile: only a new start may go on, and it reconciles.
            os.rename(self.folder / "taken.db", self.data / "log.db")
            self.assertEqual(gateway.post("/v1/chat/completions", body(2)).status, 503)
            self.assertIn(gateway.stop(), (0, 3))
            gateway = self.gateway("--upstream", f"openai={upstream.url}")
            answered.append(gateway.post("/v1/chat/completions", body(3)))
            self.assertEqual(answered[1].status, 200)
            self.assertEqual(gateway.stop(), 0)
            self.assert_all_recorded(answered)

    def test_a_pruning_that_runs_out_of_room_says_whether_it_is_decided(self):
        with self.gateway("--upstream", "openai=http://127.0.0.1:9") as gateway:
            for _ in range(200):
                gateway.request("GET", "/no/such/path")
        disk = self.small_disk("6m")
        decided = 0
        for left in range(60_000, 460_000, 40_000):
            data = disk / "data"
            shutil.copytree(self.data, data)
            free = os.statvfs(disk)
            (disk / "ballast").write_bytes(b"\0" * max(0, free.f_bavail * free.f_frsize - left))
            pruned = support.verbatim("prune", "--before", support.now(), "--reason", "x", "--data", data)
            (disk / "ballast").unlink()
            report = self.run_well("verify", "--data", data, "--json").json
            if pruned.code != 0:
                self.assert_one_line_error(pruned, 3)
                self.assertEqual("is decided" in pruned.err, report["prune_unfinished"], f"{left}: {pruned}")
                decided += report["prune_unfinished"]
            shutil.rmtree(data)
        self.assertGreater(decided, 0, "no run was cut off between the leaf and its work")

    def test_a_log_that_cannot_even_be_made_is_one_clear_line(self):
        disk = self.small_disk("16k")
        finished = support.verbatim("gateway", "--listen", "127.0.0.1:0", "--data", disk / "data", "--upstream",
                                    "openai=http://127.0.0.1:9", timeout=30)
        self.assert_one_line_error(finished, 3)

    def test_an_export_that_has_no_room_leaves_nothing_behind(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            self.assertEqual(gateway.post("/v1/chat/completions", support.chat("Hello!")).status, 200)
        disk = self.small_disk("16k")
        for out in ("new", "new.zip"):
            self.assert_one_line_error(support.verbatim("export", "--data", self.data, "--out", disk / out, timeout=30), 3, "room")
            self.assertEqual(list(disk.iterdir()), [], out)


if __name__ == "__main__":
    support.main()
