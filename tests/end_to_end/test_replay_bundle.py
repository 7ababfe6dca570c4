"""`verbatim replay --bundle`: an auditor with a bundle, a key and the weights comes to the operator's verdicts."""
import base64
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import support
from support import Gateway, chat
from test_replay import perturbed


def state_of(folder):
    """Every file with its bytes' digest and its times."""
    return {str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*")) if path.is_file()}


class ReplayBundleTest(support.ProgramTest):
    """One log, recorded once, with a record of each kind: honest, seeded, a cache hit, diverged, failed, erased."""

    @classmethod
    def setUpClass(cls):
        cls.original = Path(tempfile.mkdtemp(prefix="verbatim-bundle-"))
        cls.addClassCleanup(shutil.rmtree, cls.original, ignore_errors=True)
        other = perturbed(support.DEMO_MODEL, cls.original / "other", 3)
        with Gateway(cls.original / "far", "--model", f"far={other}") as far, \
                Gateway(cls.original / "data", "--model", f"demo={support.DEMO_MODEL}", "--upstream", f"far={far.url}") as gateway:
            cls.honest = gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0)).record
            cls.hit = gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0)).record
            cls.seeded = gateway.post("/v1/chat/completions", chat("Tell me a story.", temperature=1, seed=3)).record
            cls.diverged = gateway.post("/v1/chat/completions", {**chat("What is a log?", temperature=0), "model": "far"}).record
            gateway.post("/v1/chat/completions", {**chat("x"), "model": "none"})
            cls.erased = gateway.post("/v1/chat/completions", chat("Forget me.", temperature=0)).record
        cls.must("erase", "--data", cls.original / "data", "--id", cls.erased, "--reason", "asked to")
        cls.key = json.loads(cls.must("keys", "list", "--data", cls.original / "data", "--json").out)["keys"][0]["vkey"]

    @classmethod
    def must(cls, *args):
        finished = support.verbatim(*args)
        if finished.code != 0:
            raise AssertionError(str(finished))
        return finished

    def setUp(self):
        super().setUp()
        shutil.copytree(self.original / "data", self.data)
        self.bundle = self.folder / "bundle"
        # An auditor's machine: no log, no keys, models elsewhere.
        self.auditor = self.folder / "auditor"
        self.auditor.mkdir()
        self.models = [flag for name in ("demo", "far") for flag in ("--engine", f"{name}={self.auditor / 'weights'}")]
        shutil.copytree(support.DEMO_MODEL, self.auditor / "weights")

    def export(self, *args, out=None):
        self.run_well("export", "--data", self.data, "--out", out or self.bundle, *args)
        return out or self.bundle

    def audit(self, bundle, *args, code=0, env=None):
        """In a folder of its own, with a data folder that is not there, and no way to the demo model."""
        finished = self.run_well("replay", "--bundle", bundle, "--all", "--key", self.key, *self.models, *args, "--json", code=code,
                                 cwd=self.auditor, env={"VERBATIM_DATA": str(self.auditor / "none"), **(env or {})})
        return finished.json

    def test_the_auditors_verdicts_are_the_operators_record_by_record(self):
        for bundle in (self.export(), self.export(out=self.folder / "bundle.zip")):
            audited = self.audit(bundle, code=1)
            operated = self.run_well("replay", "--data", self.data, "--all", *self.models, "--json", code=1).json
            for run in (audited, operated):
                for record in run["records"]:
                    del record["tokens_per_s"]
                    record.pop("leaf", None)  # of the log's verdict: the auditor's are in none
            self.assertEqual(audited["records"], operated["records"])
            self.assertEqual(audited["summary"], operated["summary"])
            self.assertEqual(audited["summary"], {"BITWISE": 3, "TOKEN_EXACT": 0, "WITHIN_MARGIN": 0, "DIVERGED": 1,
                                                  "NOT_REPLAYABLE": 1, "ERASED": 1, "PRUNED": 0})
            self.assertEqual((audited["bundle"]["verdict"], audited["bundle"]["vkey"]), ("VALID", self.key))
            self.assertTrue(audited["bundle"]["key_was_given"])
            self.assertNotIn("bundle", operated)

    def test_nothing_is_written_but_what_was_asked_for(self):
        self.export()
        before, log_before = state_of(self.bundle), state_of(self.data)
        statements, report = self.auditor / "statements", self.auditor / "report.html"
        audited = self.audit(self.bundle, "--statements", statements, "--report", report, code=1)
        self.assertEqual(state_of(self.bundle), before)
        self.assertEqual(state_of(self.data), log_before)
        self.assertEqual({path.name for path in self.auditor.iterdir()}, {"weights", "statements", "report.html"})
        self.assertEqual({path.stem for path in statements.iterdir()}, {record["id"] for record in audited["records"]})
        # The statement is the operator's, without his signature.
        self.run_well("replay", "--data", self.data, "--id", self.honest, *self.models)
        leaf = [r for r in self.records("--all-types") if r["type"] == "replay_verdict"][-1]
        bundle = json.loads(self.contents(leaf["index"])["statement"])
        signed = base64.b64decode(bundle["dsseEnvelope"]["payload"])
        self.assertEqual((statements / f"{self.honest}.json").read_bytes(), signed)
        for flag in ("--report", "--csv", "--metrics", "--statements"):
            refused = support.verbatim("replay", "--bundle", self.bundle, "--all", flag, self.bundle / "deep" / "file")
            self.assert_one_line_error(refused, 2, "in the bundle")
        self.assertEqual(state_of(self.bundle), before)

    def test_a_bundle_that_does_not_verify_gives_no_verdicts(self):
        self.export()
        answer = next(path for path in sorted(self.bundle.glob("contents/*/response.body")) if b"demo model" in path.read_bytes())
        answer.write_bytes(answer.read_bytes().replace(b"demo model", b"very model"))
        refused = support.verbatim("replay", "--bundle", self.bundle, "--all", "--key", self.key, *self.models, "--json")
        self.assert_one_line_error(refused, 1, "TAMPERED", "response.body")
        self.assertEqual(refused.out, "")
        answer.write_bytes(answer.read_bytes().replace(b"very model", b"demo model"))
        self.audit(self.bundle, code=1)
        other_log = self.folder / "other-log"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=other_log):
            pass
        key = self.run_well("keys", "list", "--data", other_log, "--json").json["keys"][0]["vkey"]
        refused = support.verbatim("replay", "--bundle", self.bundle, "--all", "--key", key, *self.models, "--json")
        self.assert_one_line_error(refused, 1, "another key")

    def test_what_was_not_disclosed_is_a_reason_of_its_own(self):
        def reasons(bundle, code=0):
            return {r["id"]: (r["verdict"], r["reason"]) for r in self.audit(bundle, code=code)["records"]}

        nothing = reasons(self.export("--contents", "none"))
        for record in (self.honest, self.hit, self.seeded, self.diverged):
            self.assertEqual(nothing[record], ("NOT_REPLAYABLE", "not_disclosed"))
        self.assertEqual(nothing[self.erased], ("ERASED", "erased"))
        # The tokens alone say what the engine computes, and not that it was said.
        tokens = reasons(self.export("--contents", "selected", "--disclose", "response.tokens", out=self.folder / "tokens"))
        self.assertEqual(tokens[self.honest], ("NOT_REPLAYABLE", "not_disclosed"))
        enough = reasons(self.export("--contents", "selected", "--disclose", "response.tokens", "request.body", "response.body",
                                     out=self.folder / "enough"))
        self.assertEqual(enough[self.honest], ("BITWISE", ""))
        # An answer's coding is in its headers: without them a body may be misread.
        self.assertEqual(enough[self.diverged], ("NOT_REPLAYABLE", "not_disclosed"))
        # A hit alone: the tokens are its origin's.
        alone = reasons(self.export("--id", self.hit, out=self.folder / "alone"))
        self.assertEqual(alone[self.hit], ("NOT_REPLAYABLE", "not_disclosed"))
        self.assertEqual(reasons(self.export("--id", self.hit, "--id", self.honest, out=self.folder / "both"))[self.hit],
                         ("BITWISE", ""))

    def test_without_the_weights_nothing_is_claimed(self):
        self.export()
        (self.auditor / "empty").mkdir()
        self.models = ["--engine", f"demo={self.auditor / 'empty'}"]
        audited = self.audit(self.bundle)
        self.assertEqual(audited["summary"]["NOT_REPLAYABLE"], 5)
        self.assertIn("weights_missing", {r["reason"] for r in audited["records"]})

    def test_a_sample_is_drawn_by_a_checkpoint_that_the_bundle_goes_on_from(self):
        kept = self.folder / "checkpoint"
        kept.write_text(self.run_well("checkpoint", "--data", self.data).out)
        self.export()
        sample = ("--sample", 3, "--checkpoint", kept)
        drawn = support.verbatim("replay", "--bundle", self.bundle, *sample, *self.models, "--json").json
        operated = support.verbatim("replay", "--data", self.data, *sample, *self.models, "--json").json
        self.assertEqual([r["id"] for r in drawn["records"]], [r["id"] for r in operated["records"]])
        self.assertEqual(drawn["design"], operated["design"])
        self.assertFalse(drawn["bundle"]["key_was_given"])
        kept.write_text(self.run_well("checkpoint", "--data", self.data).out)  # beyond the bundle by now
        stale = support.verbatim("replay", "--bundle", self.bundle, *sample, *self.models)
        self.assert_one_line_error(stale, 1, "STALE")

    def test_mistakes_are_named(self):
        self.export()
        for args, code, words in [
            (["--bundle", self.bundle, "--all", "--resume"], 2, ["--resume"]),
            (["--data", self.data, "--all", "--key", self.key], 2, ["--bundle"]),
            (["--bundle", self.folder / "nothing", "--all"], 2, ["bundle"]),
            (["--bundle", self.data, "--all"], 2, ["bundle"]),
            (["--bundle", self.bundle, "--all", "--key", "no key"], 2, ["key"]),
        ]:
            self.assert_one_line_error(support.verbatim("replay", *args), code, *words)
        # A damaged zip.
        path = self.export(out=self.folder / "bundle.zip")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            file.write(b"\xff" * 64)
        damaged = support.verbatim("replay", "--bundle", path, "--all", *self.models)
        self.assertIn(damaged.code, (1, 2))
        self.assertEqual(damaged.out, "")


if __name__ == "__main__":
    support.main()
