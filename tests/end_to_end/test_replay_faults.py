"""What a careless or hostile hand does to `verbatim replay`: earlier verdicts that no longer hold, files of the log as outputs,
figures that say nothing, erasures that were none."""
import base64
import json
import os
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import tempfile
from pathlib import Path

import support
from mock_upstream import MockUpstream, Reply
from support import Gateway, chat
from test_replay import perturbed


def said(text):
    return Reply.json(json.dumps({"object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}))


class ReplayFaultsTest(support.ProgramTest):
    """A log with two answers of the local model, and two of an endpoint that has it too."""

    @classmethod
    def setUpClass(cls):
        cls.original = Path(tempfile.mkdtemp(prefix="verbatim-replay-faults-"))
        cls.addClassCleanup(shutil.rmtree, cls.original, ignore_errors=True)
        with Gateway(cls.original / "data", "--model", f"demo={support.DEMO_MODEL}") as gateway:
            cls.local = [gateway.post("/v1/chat/completions", chat(f"Who are you, number {at}?", temperature=0)) for at in range(2)]
        with MockUpstream(lambda request: said("I am the demo model of Verbatim.")) as upstream, \
                Gateway(cls.original / "data", "--upstream", f"far={upstream.url}") as gateway:
            cls.remote = [gateway.post("/v1/chat/completions", {**chat(f"Who are you, {at}?", temperature=0), "model": "far"})
                          for at in range(2)]

    def setUp(self):
        super().setUp()
        shutil.copytree(self.original / "data", self.data)

    def replay(self, *args, code=0):
        return self.run_well("replay", "--data", self.data, *args, "--json", code=code).json

    def verdicts(self, *args, code=0):
        return {record["id"]: record["verdict"] for record in self.replay(*args, code=code)["records"]}

    def test_a_verdict_under_other_weights_is_not_taken_over(self):
        other = perturbed(support.DEMO_MODEL, self.folder / "other", 1.5)
        one = ("--model", "far", "--engine", f"far={support.DEMO_MODEL}")
        two = ("--model", "far", "--engine", f"far={other}")
        first = self.replay(*one, code=1)
        again = self.replay(*one, "--resume", code=1)
        self.assertTrue(all(record["resumed"] for record in again["records"]), again["records"])
        self.assertEqual(self.replay(*two, "--resume", code=1)["records"][0]["engine"]["weights_sha256"],
                         self.replay(*two, code=1)["records"][0]["engine"]["weights_sha256"])
        self.assertNotEqual(first["records"][0]["engine"]["weights_sha256"],
                            self.replay(*two, "--resume", code=1)["records"][0]["engine"]["weights_sha256"])
        self.assertEqual({record["reason"] for record in self.replay("--model", "far", "--resume")["records"]}, {"remote"})

    def test_a_verdict_is_not_taken_over_where_the_model_or_the_record_went(self):
        self.replay("--model", "demo")
        lines = self.run_well("replay", "--data", self.data, "--model", "demo", "--resume").out.splitlines()
        self.assertIn("  2 taken over from an earlier run, not computed again", lines)
        other = perturbed(support.DEMO_MODEL, self.folder / "other", 1.5)
        changed = self.replay("--model", "demo", "--resume", "--engine", f"demo={other}")["records"]
        self.assertEqual({record["reason"] for record in changed}, {"weights_differ"})
        self.assertIn("--engine demo=PATH", changed[0]["detail"])
        self.run_well("erase", "--id", self.local[0].record, "--reason", "asked", "--data", self.data)
        self.assertEqual(self.verdicts("--model", "demo", "--resume"),
                         {self.local[0].record: "ERASED", self.local[1].record: "BITWISE"})

    def test_the_terminal_says_what_may_have_happened(self):
        run = ("replay", "--data", self.data, "--all", "--engine", f"far={support.DEMO_MODEL}")
        found = {record["id"]: record for record in self.run_well(*run, "--json", code=1).json["records"]}
        said = self.run_well(*run, code=1).out
        for answer in self.remote:
            record = found[answer.record]
            self.assertEqual(record["verdict"], "DIVERGED")
            # Rounding has no part in it: nobody is sent to a calibration.
            self.assertGreater(float(record["deficit"]), 1)
            self.assertRegex(record["detail"], r"^\d+ of \d+ tokens are not the engine's choice, by up to [\d.]+ logit units, which no rounding explains")
            line = next(line for line in said.splitlines() if answer.record in line and line.startswith("DIVERGED"))
            cause = said.splitlines()[said.splitlines().index(line) + 1]
            self.assertRegex(cause, rf"^    may be: .*weights.* \(deficit at that token {record['deficit']} logit units\)$")
        quiet = self.run_well(*run, "--quiet", code=1).out.splitlines()
        self.assertEqual(sum(line.startswith("DIVERGED  ") for line in quiet), 2)
        self.assertFalse(any(line.startswith("BITWISE  ") for line in quiet), quiet)
        self.assertTrue(any(line.startswith("4 records: ") for line in quiet), quiet)

    def test_what_was_not_replayable_is_looked_at_again(self):
        self.assertEqual(set(self.verdicts("--model", "demo", "--kv-bytes-max", 256 << 10).values()), {"NOT_REPLAYABLE"})
        self.assertEqual(set(self.verdicts("--model", "demo", "--resume").values()), {"BITWISE"})

    def append(self, fields, contents=()):
        """A verdict's leaf as whoever may use append.sock can send it."""
        with self.gateway("--model", f"demo={support.DEMO_MODEL}"), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.data / "append.sock"))
            message = json.dumps({"draft": {"type": "replay_verdict", "fields": fields, "contents": list(contents)}}).encode()
            sock.sendall(struct.pack(">I", len(message)) + message)
            self.assertIn(b"appended", sock.recv(65536))

    def test_a_verdict_that_nobody_signed_is_not_taken_over(self):
        one = ("--id", self.remote[0].record, "--engine", f"far={support.DEMO_MODEL}")
        run = self.replay(*one, code=1)["records"][0]
        shown = self.run_well("log", "show", run["leaf"], "--contents", "--data", self.data, "--json").json
        leaf = {k: v for k, v in shown["leaves"][0]["leaf"].items() if k not in ("v", "type", "id", "time", "contents")}
        self.assertEqual(leaf["verdict"], "DIVERGED")
        statement = shown["contents"]["statement"]
        signed = [{"field": "statement", "base64": base64.b64encode(json.dumps(statement).encode()).decode()}]
        better = {**{k: v for k, v in leaf.items() if k not in ("reason", "detail", "hypotheses", "position", "choice")},
                  "verdict": "TOKEN_EXACT", "differing": 0}
        for fields, contents in ((better, ()), (better, signed), ({**leaf, "request": 2 ** 53}, ()), ({**leaf, "request": -1}, signed),
                                 ({**leaf, "tokens": 2 ** 53}, signed), ({**leaf, "record": self.remote[1].record}, signed),
                                 (better, [{"field": "statement", "base64": "e30="}])):
            self.append(fields, contents)
        resumed = support.verbatim("replay", "--data", self.data, "--model", "far", *one[2:], "--resume", "--json")
        self.assertEqual(resumed.code, 1, resumed)
        self.assertIn("earlier verdicts passed over: 7 ", resumed.err)
        self.assertEqual(resumed.json["passed_over"], 7)
        by_id = {record["id"]: record for record in resumed.json["records"]}
        # The honest one, below them all, still counts; nothing speaks for the other record.
        self.assertEqual((by_id[self.remote[0].record]["verdict"], by_id[self.remote[0].record].get("leaf")), ("DIVERGED", run["leaf"]))
        self.assertTrue(by_id[self.remote[0].record]["resumed"])
        self.assertNotIn("resumed", by_id[self.remote[1].record])

    def test_a_resumed_run_says_what_the_first_said(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            for at in range(3):
                gateway.post("/v1/chat/completions", {**chat("Tell me a story.", temperature=1, seed=at), "n": 3})
        def run(name, *args):
            files = {kind: self.folder / f"{name}.{kind}" for kind in ("csv", "html")}
            found = support.verbatim("replay", "--data", self.data, "--all", "--engine", f"far={support.DEMO_MODEL}", "--csv", files["csv"],
                                     "--report", files["html"], "--no-texts", "--checkpoint", self.folder / "checkpoint", "--json", *args)
            self.assertEqual(found.code, 1, found)
            records = [{k: v for k, v in record.items() if k not in ("tokens_per_s", "resumed")} for record in found.json["records"]]
            page = re.sub("Made [^<]*|<dt>Taken over</dt><dd>[^<]*</dd>", "", files["html"].read_text())
            return sum("resumed" in record for record in found.json["records"]), records, files["csv"].read_text(), page
        (self.folder / "checkpoint").write_text(self.run_well("checkpoint", "--data", self.data).out)
        first, again = run("first"), run("again", "--resume")
        self.assertTrue(any(record["choice"] > 0 for record in first[1]), first[1])
        self.assertTrue(any(record["verdict"] == "DIVERGED" for record in first[1]), first[1])
        self.assertEqual((first[0], again[0]), (0, 7))
        self.assertEqual(again[1:3], first[1:3])
        self.assertEqual(again[3], first[3])

    def test_two_runs_at_once_share_the_log(self):
        for at in range(3):
            runs = [subprocess.Popen([support.VERBATIM, "replay", "--data", str(self.data), "--model", "demo", "--json"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
            for each in runs:
                out, err = each.communicate(timeout=120)
                self.assertEqual(each.returncode, 0, err)
                self.assertEqual(json.loads(out)["summary"]["BITWISE"], 2)
        self.assert_valid()

    def test_what_is_no_regular_file_is_refused_and_a_pipe_of_the_shell_is_read(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for args in (("replay", "--all", "--calibration"), ("replay", "--all", "--checkpoint"), ("replay", "--bundle", self.data, "--all", "--key"),
                     ("replay", "--all", "--bundle"), ("replay", "--all", "--metrics"), ("verify",), ("verify", "--receipt"),
                     ("probe", "--upstream", "http://127.0.0.1:9", "--request"), ("engine", "generate", "--messages"),
                     ("engine", "generate", "--prompt", "x", "--model"), ("engine", "tokenize", "--model"),
                     ("engine", "compare", "x"), ("replay", "--all", "--config"),
                     ("engine", "score", "--prompt-ids", "1", "--output-ids", "2", "--check-fingerprint")):
            for path in (fifo, "/dev/zero"):
                finished = support.verbatim(*args, path, "--data", self.data, timeout=60)
                self.assertEqual((finished.code, finished.out), (2, ""), (args, path, finished))
        shell = subprocess.run(["bash", "-c", '"$0" verify --data "$1" --checkpoint <("$0" checkpoint --data "$1")', support.VERBATIM, self.data],
                               capture_output=True, timeout=60)
        self.assertEqual(shell.returncode, 0, shell.stderr)

    def test_selections_that_select_nothing_are_refused(self):
        for command in (("replay",), ("log", "list"), ("export", "--out", self.folder / "bundle"),
                        ("replay", "calibrate", "--engine", f"far={support.DEMO_MODEL}", "--model", "far")):
            self.assert_one_line_error(support.verbatim(*command, "--since", "2027-01-02", "--until", "2027-01-01", "--data", self.data), 2,
                                       "--until is the end")
        self.assertEqual(support.verbatim("replay", "--sample", 0, "--data", self.data).code, 2)
        self.assertEqual(support.verbatim("engine", "generate", "--prompt", "x", "--temperature", 1, "--top-p", 0).code, 2)
        for flag in ("--seconds", "--model"):
            self.assertEqual(support.verbatim("engine", "selfcheck", flag, "nan").code, 2)

    def test_an_output_does_not_replace_a_file_of_a_log(self):
        for flag in ("--csv", "--report", "--metrics"):
            for name in ("log.db", "keys.db", "master.key", "log.key", "high-water"):
                refused = support.verbatim("replay", "--all", flag, self.data / name, "--data", self.data)
                self.assert_one_line_error(refused, 2, "a part of a log")
        refused = support.verbatim("replay", "calibrate", "--model", "far", "--engine", f"far={support.DEMO_MODEL}", "--out",
                                   self.data / "log.db", "--data", self.data)
        self.assert_one_line_error(refused, 2, "a part of a log")
        self.assert_valid()

    def test_metrics_do_not_replace_what_is_no_metric_of_a_replay(self):
        file = self.folder / "m.prom"
        for text in ("other_metric 1\n", "\x7fELF\x00\x01"):
            file.write_text(text)
            self.assert_one_line_error(support.verbatim("replay", "--model", "demo", "--metrics", file, "--data", self.data), 2,
                                       "something else than a replay's metrics")
            self.assertEqual(file.read_text(), text)
        self.assertEqual([r for r in self.records("--all-types") if r["type"] == "replay_verdict"], [])
        file.write_text('verbatim_replay_tokens_total 18446744073709551615\n')
        self.replay("--all", "--metrics", file)
        self.assertIn("verbatim_replay_tokens_total 18446744073709551615\n", file.read_text())
        self.assertIn('verbatim_replay_last_not_replayable{reason="remote"} 2\n', file.read_text())

    def test_a_named_record_takes_no_other_condition(self):
        for more in (("--model", "nosuch"), ("--since", "2030-01-01"), ("--all",), ("--tenant", "x")):
            self.assert_one_line_error(support.verbatim("replay", "--id", self.local[0].record, *more, "--data", self.data), 2,
                                       "no other condition")

    def test_a_checkpoint_is_taken_as_people_copy_it(self):
        checkpoint = self.run_well("checkpoint", "--data", self.data).out
        drawn = None
        for text in (checkpoint, checkpoint + "\n", checkpoint.replace("\n", "\r\n")):
            (self.folder / "kept").write_bytes(text.encode())
            ids = set(self.verdicts("--sample", 1, "--checkpoint", self.folder / "kept"))
            drawn = drawn or ids
            self.assertEqual(ids, drawn)
            self.run_well("verify", "--data", self.data, "--checkpoint", self.folder / "kept")

    def test_contents_that_went_without_an_erasure_are_not_erased(self):
        database = sqlite3.connect(self.data / "log.db")
        # Nothing is written over tables that are not the log's own: so it is put back.
        trigger, = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'content_only_erased'").fetchone()
        database.execute("DROP TRIGGER content_only_erased")
        index = next(r["response_index"] for r in self.records() if r["id"] == self.local[0].record)
        database.execute("UPDATE content SET dek = NULL, sealed = NULL WHERE id >= ? AND id < ?", (index * 16, index * 16 + 16))
        database.execute(trigger)
        database.commit()
        database.close()
        found = self.replay("--id", self.local[0].record)["records"][0]
        self.assertEqual((found["verdict"], found["reason"]), ("NOT_REPLAYABLE", "malformed_record"))
        self.assertIn("no erasure leaf names it", found["detail"])

    def test_a_model_that_was_asked_for_does_not_write_on_the_terminal(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            gateway.post("/v1/chat/completions", {**chat("x"), "model": "demo\x1b[2J\nBITWISE         all  demo\r\x9b"})
        shown = self.run_well("replay", "--data", self.data, "--all").out
        self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertNotRegex(shown, r"(?m)^BITWISE +all")

    def test_a_verdict_is_found_by_its_record(self):
        run = self.replay("--id", self.local[0].record)["records"][0]
        listed = [r for r in self.run_well("log", "list", "--all-types", "--data", self.data, "--json").json["records"]
                  if r["type"] == "replay_verdict"]
        self.assertEqual([(r["index"], r["verdict"], r["record"]) for r in listed],
                         [(run["leaf"], "BITWISE", self.local[0].record)])
        lines = self.run_well("log", "list", "--all-types", "--data", self.data).out
        self.assertRegex(lines, rf"replay_verdict +BITWISE .*of {self.local[0].record}")

    def test_a_report_of_a_bundle_says_that_it_is_one(self):
        self.run_well("export", "--data", self.data, "--out", self.folder / "bundle")
        self.run_well("replay", "--bundle", self.folder / "bundle", "--all", "--report", self.folder / "b.html")
        self.replay("--all", "--report", self.folder / "l.html")
        bundle, log = ((self.folder / name).read_text() for name in ("b.html", "l.html"))
        self.assertIn("an exported bundle, VALID under the key that it names itself", bundle)
        self.assertIn("nobody has signed them", bundle)
        self.assertNotIn("Each verdict is a leaf", bundle)
        self.assertIn("Each verdict is a leaf of the log", log)

    def test_of_several_answers_the_one_with_the_nearest_tie_is_shown(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            answer = gateway.post("/v1/chat/completions", {**chat("Tell me a story.", temperature=1, seed=5), "n": 3})
        self.replay("--id", answer.record, "--report", self.folder / "r.html")
        self.assertRegex((self.folder / "r.html").read_text(), "answer [123] of 3")

    def test_a_calibration_that_honest_answers_do_not_give_is_warned_of(self):
        other = perturbed(support.DEMO_MODEL, self.folder / "other", 1.5)
        with MockUpstream(lambda request: said("I am the demo model of Verbatim.")) as upstream, \
                self.gateway("--upstream", f"far={upstream.url}") as gateway:
            for at in range(5):
                gateway.post("/v1/chat/completions", {**chat(f"Who? {at}", temperature=0), "model": "far"})
        made = support.verbatim("replay", "calibrate", "--model", "far", "--engine", f"far={other}", "--rate", 0.4, "--data",
                                self.data, "--out", self.folder / "c.json", "--json")
        self.assertEqual(made.code, 1, made)
        self.assertIn("are they honest answers of these weights", made.json["warning"])
        self.assertIn("warning: these answers are further", made.err)
        found = self.replay("--model", "far", "--engine", f"far={other}", "--calibration", self.folder / "c.json")["records"]
        within = [r for r in found if r["verdict"] == "WITHIN_MARGIN"]
        self.assertTrue(within, found)
        self.assertTrue(all("more than rounding does" in r["detail"] for r in within), within)
        few = support.verbatim("replay", "calibrate", "--model", "far", "--engine", f"nobody={other}", "--data", self.data)
        self.assert_one_line_error(few, 2, "not used: 7 other_model")
        for name, value in (("share_max", "5"), ("false_positive_rate", "100"), ("records", 0)):
            broken = {**json.loads((self.folder / "c.json").read_text()), name: value}
            (self.folder / "x.json").write_text(json.dumps(broken))
            self.assert_one_line_error(support.verbatim("replay", "--all", "--calibration", self.folder / "x.json", "--data",
                                                        self.data), 2, "--calibration")


if __name__ == "__main__":
    support.main()
