"""Retention classes and pruning, from the configuration to the evidence."""
import sqlite3
import subprocess
import sys

import support
from support import chat

CONFIG = """
[[retention]]
name = "hr"
path = "/v1/chat/*"
minimum_days = 183
basis = "Regulation (EU) 2024/1689, Article 26(6)"
"""


class PruneTest(support.ProgramTest):

    def setUp(self):
        super().setUp()
        self.config = self.folder / "verbatim.toml"
        self.config.write_text(CONFIG)

    def serve(self):
        return self.gateway("--model", f"demo={support.DEMO_MODEL}", "--config", self.config)

    def prune(self, *flags):
        return support.verbatim("prune", "--before", support.now(), "--data", self.data, "--json", *flags)

    def test_old_records_go_those_with_a_class_stay_and_all_of_it_verifies(self):
        with self.serve() as gateway:
            first = gateway.request("GET", "/v1/models").record
            for _ in range(199):
                gateway.request("GET", "/v1/models")
            kept = gateway.post("/v1/chat/completions", chat("one", temperature=0)).record
            for _ in range(100):
                gateway.request("GET", "/v1/models")
            note, receipt = self.folder / "note", self.folder / "receipt"
            note.write_text(self.run_well("checkpoint", "--data", self.data).out)
            receipt.write_text(self.run_well("receipt", first, "--data", self.data).out)
            self.assertEqual(self.leaves(kept)["request"]["retention"],
                             {"class": "hr", "days": 183, "basis": "Regulation (EU) 2024/1689, Article 26(6)"})
            # While the gateway holds the log.
            dry = self.prune("--dry-run").json
            self.assertEqual(dry["minimum_index"], 256)
            self.assertIn("must be kept until", dry["stopped_by"])
            done = self.prune("--reason", "policy").json
            self.assertEqual({name: done[name] for name in ("minimum_index", "leaves", "contents")},
                             {name: dry[name] for name in ("minimum_index", "leaves", "contents")})
            self.assertEqual(gateway.request("GET", "/v1/models").status, 200)
        key = self.run_well("keys", "list", "--data", self.data).out.strip()
        report = self.verify("--checkpoint", note, "--key", key)
        self.assertEqual((report["verdict"], report["minimum_index"], report["pruned"]), ("VALID", 256, done["leaves"]))
        self.run_well("verify", "--receipt", receipt, "--key", key)
        # What is gone is PRUNED, everywhere.
        shown = self.run_well("log", "show", first, "--data", self.data, "--json").json
        self.assertEqual([leaf["verdict"] for leaf in shown["leaves"]], ["PRUNED", "PRUNED"])
        self.assertTrue(all(leaf["inclusion_proof"] for leaf in shown["leaves"]))
        self.assert_one_line_error(support.verbatim("receipt", first, "--data", self.data), 1, "pruned")
        run = self.run_well("replay", "--id", first, "--id", kept, "--data", self.data, "--json").json
        self.assertEqual({r["id"]: r["verdict"] for r in run["records"]}, {first: "PRUNED", kept: "BITWISE"})
        self.assertEqual((run["summary"]["PRUNED"], run["summary"]["BITWISE"]), (1, 1))
        self.assertNotIn(first, [record["id"] for record in self.records()])
        self.assertEqual(self.contents(kept)["request.body"][:1], b"{")
        bundle = self.folder / "bundle.zip"
        exported = self.run_well("export", "--id", first, "--id", kept, "--data", self.data, "--out", bundle, "--json").json
        self.assertEqual(exported["pruned"], 2)
        self.assertEqual(self.run_well("verify", bundle, "--key", key, "--json").json["pruned"], done["leaves"])
        script = self.folder / "verify.py"
        script.write_bytes((support.SOURCE / "audit" / "evidence" / "verify.py").read_bytes())
        said = subprocess.run([sys.executable, "-I", "-B", script, bundle, "--key", key], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertIn("PRUNED", said.stdout)
        # The configuration in force when what stays was made is there.
        with sqlite3.connect(f"file:{self.data / 'log.db'}?mode=ro", uri=True) as database:
            types = {row[0] for row in database.execute("SELECT type FROM leaf WHERE idx < 256")}
            left, = database.execute("SELECT count(*) FROM leaf WHERE idx < 256 AND type = 'request' AND id NOT IN "
                                     "(SELECT id FROM leaf WHERE idx >= 256 AND type = 'response')").fetchone()
        self.assertLessEqual({"log_created", "config", "environment", "pruned"}, types)
        self.assertNotIn("response", types)
        self.assertEqual(left, 0)  # a request stays as long as its response

    def test_erase_asks_why_within_the_minimum_period(self):
        with self.serve() as gateway:
            record = gateway.post("/v1/chat/completions", chat("one", temperature=0)).record
        flags = ("--id", record, "--reason", "GDPR Art. 17", "--data", self.data)
        self.assert_one_line_error(support.verbatim("erase", *flags), 3, "class hr", "--override-retention")
        erased = self.run_well("erase", *flags, "--override-retention", "court order 12", "--json").json
        shown = self.run_well("log", "show", erased["leaves"][0], "--data", self.data, "--json").json
        self.assertEqual(support.leaves_in(shown)[0]["retention_override"], "court order 12")
        self.assert_valid()

    def test_bad_input(self):
        with self.serve() as gateway:
            gateway.request("GET", "/v1/models")
        self.assert_one_line_error(self.prune(), 2, "--reason")
        nothing = self.prune("--reason", "policy")
        self.assertEqual((nothing.code, nothing.json["leaves"], nothing.json["index"]), (0, 0, None), nothing)
        self.assertRegex(nothing.json["stopped_by"], r"^leaf \d+ is of \d{4}-\d\d-\d\d$")
        self.assertNotIn("prune", [record["type"] for record in self.records("--all-types")])
        self.assert_one_line_error(support.verbatim("prune", "--data", self.data), 2, "--older-than")
        self.assert_one_line_error(support.verbatim("prune", "--before", "yesterday", "--dry-run", "--data", self.data), 2)
        self.assert_one_line_error(
            support.verbatim("prune", "--before", "2999-01-01", "--dry-run", "--data", self.data), 2, "yet to come")
        self.assert_one_line_error(self.prune("--reason", "x" * 1025, "--dry-run"), 2, "1024")
        for text, word in (('[[retention]]\nname = "a"\nminimum_days = 0\nbasis = "b"\n', "minimum_days"),
                           ('[[retention]]\nname = "a"\nminimum_days = 1\n', "basis"),
                           ('[[retention]]\nname = "A b"\nminimum_days = 1\nbasis = "b"\n', "name")):
            self.config.write_text(text)
            self.assert_one_line_error(
                support.verbatim("gateway", "--config", self.config, "--data", self.data), 2, word)


if __name__ == "__main__":
    support.main()
