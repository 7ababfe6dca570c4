"""What an auditor does: verify, replay, export, verify again with Python alone; and what he finds when someone tampered."""
import collections
import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import support
from support import Gateway, chat


@contextlib.contextmanager
def opened_by_an_attacker(path):
    """The database without its triggers, which are put back: they guard against mistakes, not against somebody."""
    database = sqlite3.connect(path)
    triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    with database:
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
    with database:
        yield database
    with database:
        for _, sql in triggers:
            database.execute(sql)
    database.close()


class Evidence(support.ProgramTest):
    """One recorded log, made once; every test works on a copy of its own."""

    @classmethod
    def setUpClass(cls):
        cls.original = Path(tempfile.mkdtemp(prefix="verbatim-evidence-"))
        cls.addClassCleanup(shutil.rmtree, cls.original, ignore_errors=True)
        with Gateway(cls.original / "data", "--model", f"demo={support.DEMO_MODEL}") as gateway:
            bodies = [chat("Who are you?", temperature=0), chat("Who are you?", temperature=0),
                      chat("What is replay?", temperature=0, stream=True), chat("Tell me a story.", temperature=1.2, seed=3),
                      chat("Tell me a story.", temperature=1.2), {**chat("x"), "model": "none"}]
            cls.answers = [gateway.post("/v1/chat/completions", body) for body in bodies]
            cls.kept = support.verbatim("checkpoint", "--data", cls.original / "data").out
            cls.answers.append(gateway.post("/v1/messages", chat("Hello!", temperature=0),
                                            {"anthropic-version": "2023-06-01"}))

    def setUp(self):
        super().setUp()
        shutil.copytree(self.original / "data", self.data)

    def tamper(self, statement, *values):
        """Changes the database as someone who holds the file can; returns how many rows changed."""
        with opened_by_an_attacker(self.data / "log.db") as database:
            changed = database.execute(statement, values).rowcount
        self.assertGreater(changed, 0, "the test changed nothing")

    def assert_found(self, verdict, *kinds):
        report = self.verify(code=1)
        self.assertEqual(report["verdict"], verdict, report)
        found = {problem["kind"] for problem in report["problems"]}
        self.assertTrue(found, report)
        if kinds:
            self.assertTrue(found & set(kinds), report)
        self.assertTrue(all(problem["detail"] for problem in report["problems"]))

    def export(self, *args, name="bundle"):
        out = self.folder / name
        self.run_well("export", "--data", self.data, "--out", out, *args, "--json")
        return out

    def verify_py(self, bundle):
        # -I: neither environment nor packages of this machine help it.
        return subprocess.run([sys.executable, "-I", str(bundle / "verify.py")], capture_output=True, text=True,
                              timeout=120, cwd="/")

    def one_of_each_kind(self, bundle):
        """The evidence in a bundle; of the contents, two of each name, since every leaf has its folder of the same."""
        chosen, seen = [], collections.Counter()
        for path in sorted(p for p in bundle.rglob("*") if p.is_file() and p.name != "verify.py" and p.stat().st_size > 0):
            kind = path.name if path.parts[len(bundle.parts)] == "contents" else path
            seen[kind] += 1
            if seen[kind] <= 2:
                chosen.append(path)
        return chosen

    # A good log.

    def test_a_good_log_is_valid_and_verifying_changes_nothing(self):
        before = {path: path.read_bytes() for path in self.data.rglob("*") if path.is_file()}
        report = self.assert_valid()
        self.assertEqual(report["checked_leaves"], report["size"])
        self.assertRegex(report["root"], r"^[0-9a-f]{64}$")
        for path, content in before.items():
            self.assertEqual(path.read_bytes(), content, path)

    def test_a_log_in_a_folder_that_cannot_be_written_verifies(self):
        subprocess.run(["chmod", "-R", "a-w", self.data], check=True)
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", self.data])
        self.assert_valid()

    def test_every_record_that_a_client_was_told_of_is_listed(self):
        listed = {record["id"]: record for record in self.records()}
        for answer in self.answers:
            self.assertIn(answer.record, listed)
        self.assertEqual(listed[self.answers[1].record]["status"], "cache_hit")
        self.assertEqual({r["id"] for r in self.records("--status", "rejected")}, {self.answers[5].record})
        self.assertEqual(self.records("--status", "open"), [])
        self.assertEqual(len(self.records("--limit", "2")), 2)
        self.assertEqual(self.records("--since", "2100-01-01T00:00:00Z"), [])

    def test_reading_contents_is_itself_recorded(self):
        size = self.assert_valid()["size"]
        self.contents(self.answers[0].record)
        grown = self.assert_valid()["size"]
        self.assertGreater(grown, size)
        types = [r["type"] for r in self.records("--all-types")]
        self.assertIn("access", types)

    def test_a_record_is_shown_as_people_read_it(self):
        answer = self.answers[0]
        shown = self.run_well("log", "show", answer.record, "--contents", "--data", self.data).out
        self.assertRegex(shown, r"(?m)^leaf \d+ of \d+$")
        self.assertRegex(shown, r"(?m)^  model\.requested +demo$")
        self.assertRegex(shown, r"(?m)^response\.body$")
        self.assertIn("\n  | " + answer.body.decode() + "\n", shown)

    def test_a_record_is_told_under_opentelemetrys_names_too(self):
        answer = self.answers[0]
        span = self.run_well("log", "show", answer.record, "--data", self.data, "--json").json["opentelemetry"]
        self.assertEqual(span["name"], "chat demo")
        attributes = span["attributes"]
        self.assertEqual((attributes["gen_ai.operation.name"], attributes["gen_ai.provider.name"], attributes["verbatim.record.id"]),
                         ("chat", "verbatim", answer.record))
        self.assertEqual(attributes["gen_ai.usage.output_tokens"], answer.json["usage"]["completion_tokens"])
        self.assertNotIn("opentelemetry", self.run_well("log", "show", 0, "--data", self.data, "--json").json)

    def test_what_was_said_does_not_steer_the_terminal(self):
        data = self.folder / "other"
        with Gateway(data, "--model", f"demo={support.DEMO_MODEL}") as gateway:
            record = gateway.post("/v1/chat/completions", '{"model":"none\\u001b[2J","x":"\x1b[2J\x9b2J\x7f"}'.encode("utf-8")).record
        shown = self.run_well("log", "show", record, "--contents", "--data", data).out
        self.assertNotRegex(shown, "[\x00-\x08\x0b-\x1f\x7f-\x9f]")
        self.assertIn("?[2J", shown)

    def test_replay_proves_greedy_and_seeded_answers_bitwise_and_says_why_not_for_the_rest(self):
        replayed = self.run_well("replay", "--all", "--data", self.data, "--engine", f"demo={support.DEMO_MODEL}",
                                 "--json").json
        verdicts = {r["id"]: r for r in replayed["records"]}
        for index in (0, 1, 2, 3, 6):
            self.assertEqual(verdicts[self.answers[index].record]["verdict"], "BITWISE", verdicts)
        for record in replayed["records"]:
            if record["verdict"] == "NOT_REPLAYABLE":
                self.assertTrue(record["reason"], record)
        self.assertEqual(sum(replayed["summary"].values()), len(replayed["records"]))
        self.assert_valid()
        types = [r["type"] for r in self.records("--all-types")]
        self.assertEqual(types.count("replay_verdict"), len(replayed["records"]))

    def test_replay_with_other_weights_is_not_replayable_and_says_so(self):
        other = self.folder / "other"
        shutil.copytree(support.DEMO_MODEL, other)
        weights = other / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-100] ^= 1
        weights.write_bytes(data)
        (self.data / "models.json").unlink()  # where the gateway noted that it served the right ones from
        replayed = self.run_well("replay", "--id", self.answers[0].record, "--data", self.data, "--engine",
                                 f"demo={other}", "--json", env={"VERBATIM_DEMO_MODEL": str(other)})
        record = replayed.json["records"][0]
        self.assertEqual((record["verdict"], record["reason"]), ("NOT_REPLAYABLE", "weights_differ"))

    def test_a_receipt_names_the_log_and_carries_a_proof(self):
        receipt = self.run_well("receipt", self.answers[0].record, "--data", self.data).out
        self.assertTrue(receipt.startswith("c2sp.org/tlog-proof@v1\n"), receipt[:80])
        origin = self.assert_valid()["origin"]
        self.assertIn(f"\n{origin}\n", receipt)

    # Exported evidence.

    def test_a_bundle_verifies_here_and_with_python_alone(self):
        for args in ((), ("--contents", "none"), ("--model", "demo")):
            bundle = self.export(*args, name="bundle" + "".join(args))
            report = self.run_well("verify", bundle, "--json").json
            self.assertEqual(report["verdict"], "VALID", report)
            checked = self.verify_py(bundle)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            self.assertIn("VALID", checked.stdout)

    def test_a_zip_verifies_too(self):
        bundle = self.export(name="bundle.zip")
        self.assertTrue(zipfile.is_zipfile(bundle))
        self.assertEqual(self.run_well("verify", bundle, "--json").json["verdict"], "VALID")

    def test_a_bundle_is_for_its_owner_until_he_gives_it_away(self):
        bundle, archive = self.export(), self.export(name="bundle.zip")
        self.assertEqual(bundle.stat().st_mode & 0o077, 0)
        self.assertEqual(archive.stat().st_mode & 0o077, 0)

    def test_an_export_counts_exchanges_as_the_list_does(self):
        counted = self.run_well("export", "--data", self.data, "--out", self.folder / "x", "--json").json
        self.assertEqual(counted["records"], len(self.answers))
        self.assertEqual(json.loads((self.folder / "x" / "manifest.json").read_text())["records"], len(self.answers))

    def test_another_key_is_named_before_anything_else(self):
        other = Gateway(self.folder / "other", "--model", f"demo={support.DEMO_MODEL}")
        other.stop()
        key = self.run_well("keys", "list", "--data", self.folder / "other", "--json").json["keys"][0]["vkey"]
        receipt = self.folder / "receipt"
        receipt.write_text(self.run_well("receipt", self.answers[0].record, "--data", self.data).out)
        for args in (("--data", self.data), (self.export(),), ("--receipt", receipt)):
            told = self.run_well("verify", *args, "--key", key, code=1).out.splitlines()
            self.assertEqual(told[0], "TAMPERED", args)
            self.assertIn("problem   key: ", told[1], args)
            self.assertIn("the key given" if "--receipt" in args else "than the one given", told[1], args)
            self.assertNotIn("0" * 64, "\n".join(told))
        named = subprocess.run([sys.executable, "-I", str(self.folder / "bundle" / "verify.py"), "--key", "/no/such/file"],
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(named.returncode, 2)
        self.assertIn("neither a public key", named.stderr)

    def test_a_bundle_without_contents_holds_none_and_says_so(self):
        whole = self.run_well("verify", self.export(name="whole"), "--json").json
        self.assertGreater(whole["checked_contents"], 0)
        self.assertEqual(whole["not_disclosed"], 0)
        bundle = self.export("--contents", "none")
        report = self.run_well("verify", bundle, "--json").json
        self.assertEqual(report["checked_contents"], 0)
        self.assertGreaterEqual(report["not_disclosed"], whole["checked_contents"])  # and those of what came since
        self.assertIn(f"{report['not_disclosed']} not in this bundle", self.run_well("verify", bundle).out)
        text = json.loads(self.answers[0].body)["choices"][0]["message"]["content"]
        for path in bundle.rglob("*"):
            if path.is_file():
                self.assertNotIn(text.encode()[:20], path.read_bytes(), path)

    def test_no_bundle_holds_a_private_key(self):
        bundle = self.export()
        secrets = [p.read_bytes() for p in self.data.iterdir() if p.name in ("master.key", "signer.key")]
        self.assertTrue(secrets)
        names = [p.name for p in bundle.rglob("*")]
        self.assertFalse({"keys.db", "master.key"} & set(names), names)
        for path in bundle.rglob("*"):
            if path.is_file():
                for secret in secrets:
                    self.assertNotIn(secret.strip(), path.read_bytes(), path)

    def test_a_changed_byte_in_any_file_of_a_bundle_is_found_by_both_verifiers(self):
        bundle = self.export()
        evidence = self.one_of_each_kind(bundle)
        self.assertGreater(len(evidence), 3)
        for path in evidence:
            good = path.read_bytes()
            for place in {len(good) // 3, len(good) - 2}:
                bad = bytearray(good)
                bad[place] ^= 0x01
                path.write_bytes(bad)
                found = support.verbatim("verify", bundle, "--json")
                checked = self.verify_py(bundle)
                path.write_bytes(good)
                where = f"{path.relative_to(bundle)} byte {place}"
                self.assertIn(found.code, (1, 2), f"{where}: {found}")
                self.assertNotEqual(checked.returncode, 0, f"{where}: {checked.stdout}")
                self.assertNotIn("Traceback", checked.stderr, where)
        self.assertEqual(self.verify_py(bundle).returncode, 0)

    def test_a_file_that_nothing_names_or_a_link_is_refused_by_both_verifiers(self):
        bundle = self.export()
        content = next(p for p in sorted(bundle.glob("contents/*/*")) if p.suffix != ".salt")
        def extra(): (bundle / "extra.txt").write_text("x")
        def invented(): (bundle / "contents" / "3" / "evil.body").write_text("x")
        def linked():
            outside = self.folder / "outside"
            outside.write_bytes(content.read_bytes())
            content.unlink()
            content.symlink_to(outside)
        for change in (extra, invented, linked):
            (bundle / "contents" / "3").mkdir(exist_ok=True)
            change()
            self.assertIn(support.verbatim("verify", bundle, "--json").code, (1, 2), change.__name__)
            self.assertNotEqual(self.verify_py(bundle).returncode, 0, change.__name__)
            for name in ("extra.txt", "contents/3/evil.body"):
                (bundle / name).unlink(missing_ok=True)

    def test_export_discloses_what_it_was_told_and_no_more(self):
        refused = support.verbatim("export", "--data", self.data, "--out", self.folder / "x", "--contents", "none",
                                   "--disclose", "response.body")
        self.assertEqual(refused.code, 2, refused)
        some = self.run_well("export", "--data", self.data, "--out", self.folder / "y", "--contents", "selected",
                             "--disclose", "request.body", "--disclose", "upstream.body", "--json").json
        self.assertGreater(some["contents"], 0)
        self.assertEqual(some["fields_missing"], ["upstream.body"])
        none = self.run_well("export", "--data", self.data, "--out", self.folder / "z", "--contents", "selected",
                             "--disclose", "upstream.body")
        self.assertIn("no chosen record has a content named upstream.body", none.out)
        self.assert_one_line_error(support.verbatim("export", "--data", self.data, "--out", self.folder / "w", "--contents", "selected",
                                                    "--disclose", "response.boby"), 2, "response.boby")

    def test_what_is_refused_at_once_is_not_recorded_as_done(self):
        before = [record["type"] for record in self.records("--all-types")]
        there, file = self.folder / "there", self.folder / "file"
        there.mkdir()
        file.write_text("x")
        self.assert_one_line_error(support.verbatim("backup", there, "--data", self.data), 2, "at this place already")
        self.assert_one_line_error(support.verbatim("export", "--out", there, "--data", self.data), 2, "already")
        self.assert_one_line_error(support.verbatim("export", "--out", file / "x", "--data", self.data), 2, "not a folder")
        self.assertEqual([record["type"] for record in self.records("--all-types")], before)

    def test_a_damaged_checkpoint_is_no_evidence_against_the_log(self):
        note = self.run_well("checkpoint", "--data", self.data).out
        origin, size, *rest = note.split("\n")
        kept = self.folder / "kept"
        kept.write_text("\n".join([origin, str(int(size) - 1), *rest]))
        self.assert_one_line_error(support.verbatim("verify", "--data", self.data, "--checkpoint", kept), 2, "damaged or forged")

    def test_a_limit_keeps_the_newest(self):
        ids = [r["id"] for r in self.run_well("log", "list", "--data", self.data, "--json").json["records"]]
        kept = [r["id"] for r in self.run_well("log", "list", "--data", self.data, "--limit", "2", "--json").json["records"]]
        self.assertEqual(kept, ids[-2:])

    def test_a_file_missing_from_a_bundle_is_found_by_both_verifiers(self):
        bundle = self.export()
        for path in self.one_of_each_kind(bundle):
            aside = self.folder / "aside"
            path.rename(aside)
            found = support.verbatim("verify", bundle, "--json")
            checked = self.verify_py(bundle)
            aside.rename(path)
            self.assertIn(found.code, (1, 2), f"{path.relative_to(bundle)}: {found}")
            self.assertNotEqual(checked.returncode, 0, f"{path.relative_to(bundle)}: {checked.stdout}")
            self.assertNotIn("Traceback", checked.stderr, path)

    # A log that someone changed.

    def test_a_changed_leaf_is_found(self):
        self.tamper("UPDATE leaf SET bytes = CAST(replace(CAST(bytes AS TEXT), '\"demo\"', '\"Demo\"') AS BLOB) "
                    "WHERE type = 'request' AND idx = (SELECT min(idx) FROM leaf WHERE type = 'request')")
        self.assert_found("TAMPERED", "leaf_hash")

    def test_a_changed_copy_of_a_leafs_member_is_found(self):
        self.tamper("UPDATE leaf SET status = 'complete' WHERE status = 'rejected'")
        self.assert_found("TAMPERED")

    def test_a_changed_tree_node_is_found(self):
        self.tamper("UPDATE leaf SET hashes = zeroblob(length(hashes)) WHERE idx = 3")
        self.assert_found("TAMPERED")

    def test_a_changed_checkpoint_is_found(self):
        self.tamper("UPDATE checkpoint SET note = replace(note, char(10) || 'A', char(10) || 'B') "
                    "|| CASE WHEN instr(note, char(10) || 'A') THEN '' ELSE 'x' END "
                    "WHERE size = (SELECT max(size) FROM checkpoint)")
        self.assert_found("TAMPERED")

    def test_changed_contents_are_found(self):
        self.tamper("UPDATE content SET sealed = CAST(substr(sealed, 1, 40) || X'00112233' || substr(sealed, 45) AS BLOB) "
                    "WHERE id = (SELECT min(id) FROM content)")
        self.assert_found("TAMPERED")

    def test_contents_taken_away_are_counted_and_found(self):
        self.tamper("UPDATE content SET sealed = NULL, dek = NULL WHERE id = (SELECT min(id) FROM content)")
        report = support.verbatim("verify", "--data", self.data, "--json").json
        self.assertEqual(report["erased"], 1)
        self.assertEqual(report["verdict"], "TAMPERED")
        self.assertEqual([p["kind"] for p in report["problems"]], ["erased_without_leaf"])

    def cut_tail(self):
        """The last commit is taken out, with all that it wrote, leaving a shorter log that is whole in itself."""
        with opened_by_an_attacker(self.data / "log.db") as database:
            sizes = [size for (size,) in database.execute("SELECT size FROM checkpoint ORDER BY size DESC")]
            cut = sizes[1]
            database.execute("DELETE FROM checkpoint WHERE size > ?", (cut,))
            database.execute("DELETE FROM leaf WHERE idx >= ?", (cut,))
            database.execute("DELETE FROM content WHERE id >= ?", (cut * 16,))
            database.execute("DELETE FROM canonical_output WHERE leaf >= ?", (cut,))
        return cut

    def test_a_cut_tail_is_found_by_the_high_water_mark(self):
        self.cut_tail()
        self.assert_found("TRUNCATED")

    def test_a_cut_tail_is_found_by_a_checkpoint_that_someone_kept(self):
        newest = self.run_well("checkpoint", "--data", self.data).out
        kept = self.folder / "kept"
        kept.write_text(newest)
        self.cut_tail()
        report = self.verify("--checkpoint", kept, code=1)
        self.assertIn(report["verdict"], ("STALE", "TRUNCATED"), report)
        # A bundle of the shorter log knows nothing of the mark: only the kept checkpoint finds it.
        bundle = support.verbatim("export", "--data", self.data, "--out", self.folder / "short", "--json")
        if bundle.code == 0:
            report = self.run_well("verify", self.folder / "short", "--checkpoint", kept, "--json", code=1).json
            self.assertEqual(report["verdict"], "STALE", report)

    def test_a_kept_checkpoint_of_this_log_is_consistent(self):
        kept = self.folder / "kept"
        kept.write_text(self.kept)
        self.assertEqual(self.verify("--checkpoint", kept)["verdict"], "VALID")

    def test_another_log_does_not_pass_for_this_one(self):
        other = self.folder / "other"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=other) as gateway:
            gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0))
        key = self.assert_valid()["vkey"]
        report = self.run_well("verify", "--data", other, "--key", key, "--json", code=1).json
        self.assertNotEqual(report["verdict"], "VALID")
        kept = self.folder / "kept"
        kept.write_text(self.kept)
        self.assertIn(support.verbatim("verify", "--data", other, "--checkpoint", kept).code, (1, 2))

    def test_the_key_in_the_report_is_a_vkey(self):
        self.assertRegex(self.assert_valid()["vkey"], re.compile(r"^[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+$"))


if __name__ == "__main__":
    support.main()
