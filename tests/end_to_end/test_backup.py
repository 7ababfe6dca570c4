"""Backups from the command line, and the restore drill of docs/backup.md."""
import hashlib
import shutil
import urllib.request

import support
from support import chat
from test_witness import WitnessTest


class BackupTest(support.ProgramTest):
    witness = WitnessTest.witness
    policy = WitnessTest.policy

    def setUp(self):
        super().setUp()
        self.restored = self.folder / "restored"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            gateway.post("/v1/chat/completions", chat("one", temperature=0))
            self.size = self.run_well("backup", self.restored, "--keys", "--data", self.data, "--json").json["size"]
            self.record = gateway.post("/v1/chat/completions", chat("two", temperature=0)).record
        self.vkey = self.run_well("keys", "list", "--data", self.data).out.strip()
        self.kept = self.folder / "kept"
        self.kept.write_text(self.run_well("checkpoint", "--data", self.data).out)

    def types(self):
        return [r["type"] for r in self.records("--all-types", data=self.restored)]

    def test_a_gateway_that_goes_on_from_a_backup_says_so_once(self):
        # 4. Reading changes nothing, and the newest checkpoint that somebody holds tells.
        report = self.verify("--checkpoint", self.kept, "--key", self.vkey, data=self.restored, code=1)
        self.assertEqual((report["verdict"], report["problems"][0]["kind"]), ("STALE", "given_checkpoint_ahead"))
        self.run_well("log", "list", "--data", self.restored)
        self.assertTrue((self.restored / "backup").exists())
        # 5. Going on.
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=self.restored) as gateway:
            self.assertIn(f"this log goes on from a backup of ", gateway.output.read_text())
            self.assertIn(f"with {self.size} leaves", gateway.output.read_text())
            for number in range(4):
                gateway.post("/v1/chat/completions", chat(f"three {number}", temperature=0))
        self.assertFalse((self.restored / "backup").exists())
        self.assertEqual(self.types().count("restored"), 1)
        shown = self.run_well("log", "show", self.size, "--data", self.restored, "--json").json["leaves"][0]["leaf"]
        self.assertEqual((shown["type"], shown["backup_size"]), ("restored", self.size))
        self.assertEqual(self.verify("--checkpoint", self.kept, data=self.restored, code=1)["problems"][0]["kind"],
                         "given_checkpoint_fork")
        self.assert_valid(data=self.restored)
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=self.restored) as gateway:
            self.assertNotIn("goes on from a backup", gateway.output.read_text())
        self.assertEqual(self.types().count("restored"), 1)
        # Both verifiers know the leaf, and both find the bundle good.
        bundle = self.folder / "bundle"
        self.run_well("export", "--out", bundle, "--data", self.restored)
        self.run_well("verify", bundle, "--key", self.vkey)
        support.run_verify_py(self, bundle, "--key", self.vkey)

    def test_a_command_that_appends_says_so_too(self):
        said = self.run_well("export", "--out", self.folder / "bundle", "--data", self.restored, "--quiet").err
        self.assertIn("verbatim: warning: this log goes on from a backup", said)
        self.assertEqual(self.types()[self.size], "restored")

    def test_what_a_backup_without_keys_cannot_do_is_said(self):
        sealed = self.folder / "sealed"
        self.run_well("backup", sealed, "--data", self.data)
        self.run_well("log", "show", self.record, "--data", sealed)
        self.assert_one_line_error(support.verbatim("log", "show", self.record, "--contents", "--data", sealed), 2,
                                   "without its key", "backup --keys")
        # The keys from elsewhere make it one that a log can go on from, and it says so.
        for name in ("keys.db", "master.key", "log.key"):
            shutil.copy(self.restored / name, sealed / name)
        self.assertIn("goes on from a backup", self.run_well("log", "show", self.record, "--contents", "--data", sealed).err)

    def test_a_witness_shows_what_is_missing_and_refuses_what_went_on(self):
        witness = self.witness("w")
        policy = self.policy(witness)
        self.run_well("witness", "ask", "--policy", policy, "--data", self.data)
        origin = self.kept.read_text().split("\n")[0]
        with urllib.request.urlopen(f"{witness[1]}/{hashlib.sha256(origin.encode()).hexdigest()}/checkpoint", timeout=20) as answer:
            self.kept.write_bytes(answer.read())
        self.assertEqual(self.verify("--checkpoint", self.kept, data=self.restored, code=1)["verdict"], "STALE")
        for _ in range(8):
            self.run_well("log", "show", self.records(data=self.restored)[0]["id"], "--contents", "--data", self.restored)
        self.assert_one_line_error(support.verbatim("witness", "ask", "--policy", policy, "--data", self.restored), 1,
                                   "422", "no part of this log", "docs/backup.md")


if __name__ == "__main__":
    support.main()
