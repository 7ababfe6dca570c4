"""What an operator asks a log: whose records, of which tenant, what was said, what was erased; and what wrong questions are told."""
import hashlib
import shutil
import tempfile
from pathlib import Path

import support
from support import Gateway, chat


class QuestionsTest(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        cls.original = Path(tempfile.mkdtemp(prefix="verbatim-questions-"))
        cls.addClassCleanup(shutil.rmtree, cls.original, ignore_errors=True)
        keys = [support.verbatim("gateway", "--new-key", name, "--json").json for name in ("ward", "teller")]
        cls.hashes = [key["hash"] for key in keys]
        config = cls.original / "gateway.toml"
        config.write_text("".join(f'[[key]]\nname = "{key["name"]}"\nhash = "{key["hash"]}"\ntenant = "{tenant}"\n'
                                  for key, tenant in zip(keys, ("hospital", "bank"))))
        ward, teller = [{"authorization": "Bearer " + key["key"]} for key in keys]
        with Gateway(cls.original / "data", "--model", f"demo={support.DEMO_MODEL}", "--config", config) as gateway:
            cls.ward = gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0, stream=True), ward).record
            cls.hit = gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0), ward).record
            cls.teller = gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0), teller).record

    def setUp(self):
        super().setUp()
        shutil.copytree(self.original / "data", self.data)

    def listed(self, *args):
        return [record["id"] for record in self.records(*args)]

    def lines(self, *args):
        return self.run_well(*args, "--data", self.data).out.splitlines()

    def test_a_tenants_records_are_listed_and_exported_alone(self):
        self.assertEqual(self.listed("--tenant", "bank"), [self.teller])
        self.assertEqual(self.listed("--tenant", "nobody"), [])
        self.assertIn("  tenant  ", self.lines("log", "list")[0])
        self.assertNotIn("tenant", self.lines("log", "list", "--tenant", "bank")[0])
        bundle = self.folder / "bundle"
        self.run_well("export", "--tenant", "bank", "--out", bundle, "--data", self.data)
        bodies = [path.read_bytes() for path in bundle.glob("contents/*/request.body")]
        self.assertEqual(bodies, [self.contents(self.teller)["request.body"]])
        self.assertEqual(len(list((bundle / "contents").iterdir())), 2)
        self.run_well("verify", bundle)
        self.assert_one_line_error(support.verbatim("export", "--tenant", "nobody", "--out", self.folder / "b", "--data", self.data),
                                   2, "tenant", "nobody")

    def test_the_handle_of_a_key_is_told_and_finds_its_records(self):
        for name in (self.hashes[0], self.hashes[0].split(":")[1]):
            handle, = self.lines("log", "subject", "--gateway-key", name)
            self.assertEqual(handle, self.leaves(self.ward)["request"]["subject"])
        self.assertEqual(self.listed("--subject", handle), [self.ward, self.hit])
        self.assertEqual(self.listed("--subject", handle, "--limit", 1), [self.hit])
        for bad in ("ward", "../keys.db", ""):
            self.assert_one_line_error(support.verbatim("log", "subject", f"--gateway-key={bad}", "--data", self.data), 2)
        self.assert_one_line_error(support.verbatim("log", "subject", "--data", self.data), 2, "--anonymous")
        self.run_well("erase", "--subject", handle, "--reason", "asked", "--data", self.data)
        self.assertEqual([r["id"] for r in self.records() if r.get("erased")], [self.ward, self.hit])

    def test_the_handle_of_a_providers_key_is_told(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=self.folder / "open") as gateway:
            headers = {"authorization": "Bearer sk-secret"}
            record = gateway.post("/v1/chat/completions", chat("one", temperature=0), headers).record
            nobody = gateway.post("/v1/chat/completions", chat("one", temperature=0)).record
        self.data = self.folder / "open"
        key = self.folder / "key.txt"
        key.write_text("sk-secret\r\n")
        self.assertEqual(self.lines("log", "subject", "--credential", key), [self.leaves(record)["request"]["subject"]])
        self.assertEqual(self.lines("log", "subject", "--anonymous"), [self.leaves(nobody)["request"]["subject"]])

    def test_what_was_said_in_a_stream_is_told_as_text(self):
        shown = self.run_well("log", "show", self.ward, "--contents", "--data", self.data, "--json").json
        text = shown["answers"][0]["text"]
        self.assertTrue(text)
        self.assertIn("data: ", shown["contents"]["response.body"]["text"])
        self.assertNotIn("data: ", text)
        lines = self.lines("log", "show", self.ward, "--contents")
        self.assertIn("the answer, as text", lines)
        self.assertEqual("".join(line[4:] for line in lines[lines.index("the answer, as text") + 1:]), text.replace("\n", ""))

    def test_what_was_erased_is_marked(self):
        self.run_well("erase", "--id", self.teller, "--reason", "asked", "--data", self.data)
        marked = [line for line in self.lines("log", "list") if line.endswith("  ERASED")]
        self.assertEqual(len(marked), 1)
        self.assertIn(self.teller, marked[0])
        self.assertEqual([r["id"] for r in self.records() if r.get("erased")], [self.teller])

    def test_a_hold_on_a_hit_keeps_its_origin(self):
        held = self.run_well("hold", "add", "--id", self.hit, "--reason", "case 7", "--data", self.data)
        self.assertIn("cache hit of " + self.ward, held.err)
        erase = ("erase", "--id", self.ward, "--reason", "asked", "--data", self.data)
        self.assert_one_line_error(support.verbatim(*erase), 3, "cache hit", "case 7")
        subject = self.leaves(self.ward)["request"]["subject"]
        self.assert_one_line_error(support.verbatim("erase", "--subject", subject, "--reason", "asked", "--data", self.data), 3)
        self.run_well("erase", "--id", self.teller, "--reason", "asked", "--data", self.data)
        run = self.run_well("replay", "--id", self.hit, "--data", self.data, "--json").json
        self.assertEqual(run["records"][0]["verdict"], "BITWISE")
        self.run_well("hold", "release", held.out.strip(), "--reason", "closed", "--data", self.data)
        self.run_well(*erase)

    def test_a_prune_that_a_hold_leaves_nothing_to_ends_well(self):
        prune = ("prune", "--before", support.now(), "--data", self.data)
        hold = self.run_well("hold", "add", "--id", self.ward, "--reason", "case 7", "--data", self.data).out.strip()
        self.assertIn("nothing to prune", self.run_well(*prune, "--reason", "policy").out)
        self.run_well(*prune, "--dry-run")
        self.run_well("hold", "release", hold, "--reason", "closed", "--data", self.data)
        self.run_well("hold", "add", "--all", "--reason", "case 8", "--data", self.data)
        for more in (("--reason", "policy"), ("--dry-run",)):
            self.assert_one_line_error(support.verbatim(*prune, *more), 3, "case 8")

    def test_a_verifier_from_the_bundle_is_not_taken_for_the_projects(self):
        bundle = self.folder / "bundle"
        made = self.run_well("export", "--out", bundle, "--data", self.data).out
        script = (support.SOURCE / "audit" / "evidence" / "verify.py").read_bytes()
        self.assertIn(hashlib.sha256(script).hexdigest(), made)
        key = ("--key", self.run_well("keys", "list", "--data", self.data).out.strip())
        self.assertNotIn("verify.py", self.run_well("verify", bundle, *key).out)
        (bundle / "verify.py").write_text('print("VALID")\n')
        self.assertIn("verify.py is not the one", self.run_well("verify", bundle, *key, code=1).out)
        support.run_verify_py(self, bundle, *key, code=1)

    def test_wrong_places_are_told_as_what_they_are(self):
        self.assert_one_line_error(support.verbatim("verify", self.folder / "nothere"), 2, "there is no such file", "nothere")
        self.assert_one_line_error(support.verbatim("verify", self.folder), 2, "neither a log nor a bundle")
        policy = self.folder / "policy.txt"
        vkey = self.run_well("keys", "list", "--data", self.data).out.strip()
        policy.write_text(f"log {vkey}\nquorum nobody\n")
        for command in (("verify",), ("witness", "ask")):
            self.assert_one_line_error(support.verbatim(*command, "--policy", policy, "--data", self.data), 2,
                                       str(policy), "line 2", "nobody")
        policy.write_text(f"log {vkey}\nquorum none\n")
        said = self.run_well("verify", "--policy", policy, "--data", self.data).out
        self.assertIn("(named by the policy)", said)
        self.assertNotIn("--key", said)


if __name__ == "__main__":
    support.main()
