"""Witnesses from the command line: a server that cosigns, a log that asks, and a policy that is met or not."""
import hashlib
import json
import subprocess
import unittest
import urllib.error
import urllib.request

import support
from support import chat


class WitnessTest(support.ProgramTest):

    def setUp(self):
        super().setUp()
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            self.record = gateway.post("/v1/chat/completions", chat("one", temperature=0)).record
        self.vkey = self.run_well("keys", "list", "--data", self.data).out.strip()

    def witness(self, name, log=None):
        """A witness on a free port: (process, url, vkey)."""
        process = subprocess.Popen(
            [support.VERBATIM, "witness", "serve", "--listen", "127.0.0.1:0", "--state", str(self.folder / name),
             "--name", "witness.example/" + name, "--log", log or self.vkey, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = json.loads(process.stdout.readline())
        return process, said["listening"], said["vkey"]

    def policy(self, *witnesses, needed="all"):
        lines = ["log " + self.vkey]
        for number, (_, url, vkey) in enumerate(witnesses):
            lines.append(f"witness w{number} {vkey} {url}")
        names = " ".join(f"w{number}" for number in range(len(witnesses)))
        lines += [f"group all-of-them {needed} {names}", "quorum all-of-them", ""]
        path = self.folder / "policy.txt"
        path.write_text("\n".join(lines))
        return path

    def ask(self, policy, code=0):
        return self.run_well("witness", "ask", "--policy", policy, "--data", self.data, "--json", code=code)

    def append(self):
        self.run_well("log", "show", self.record, "--contents", "--data", self.data)

    def test_a_bundle_is_replayed_if_the_auditors_policy_is_met(self):
        policy = self.policy(self.witness("w0"))
        audit = ("--all", "--key", self.vkey, "--policy", policy, "--engine", f"demo={support.DEMO_MODEL}")
        unwitnessed, witnessed = self.folder / "unwitnessed", self.folder / "witnessed"
        self.run_well("export", "--data", self.data, "--out", unwitnessed)
        refused = support.verbatim("replay", "--bundle", unwitnessed, *audit)
        self.assert_one_line_error(refused, 1, "VALID_UNWITNESSED")
        self.assertEqual(refused.out, "")
        self.ask(policy)
        self.run_well("export", "--cosigned", "--data", self.data, "--out", witnessed)
        audited = self.run_well("replay", "--bundle", witnessed, *audit, "--json").json
        self.assertEqual((audited["bundle"]["verdict"], audited["summary"]["BITWISE"]), ("VALID", 1))

    def test_a_log_is_cosigned_and_the_policy_is_met(self):
        witnesses = [self.witness("a"), self.witness("b")]
        policy = self.policy(*witnesses)
        report = self.verify("--policy", policy, code=1)
        self.assertEqual(report["verdict"], "VALID_UNWITNESSED")
        asked = self.ask(policy).json
        self.assertTrue(asked["quorum"])
        self.assertEqual([w["cosigned"] for w in asked["witnesses"]], [True, True])
        self.assertEqual(self.verify("--policy", policy)["verdict"], "VALID")
        self.ask(policy)  # the same tree once more
        self.append()  # the log goes on
        self.assertEqual(self.verify("--policy", policy, code=1)["verdict"], "VALID_UNWITNESSED")
        # Evidence under the checkpoint that was cosigned meets it all the same.
        bundle, receipt = self.folder / "bundle", self.folder / "receipt"
        self.run_well("export", "--cosigned", "--data", self.data, "--out", bundle)
        self.run_well("verify", bundle, "--policy", policy, "--key", self.vkey)
        receipt.write_text(self.run_well("receipt", self.record, "--cosigned", "--data", self.data).out)
        self.run_well("verify", "--receipt", receipt, "--policy", policy, "--key", self.vkey)
        self.assertEqual(self.ask(policy).json["size"], self.assert_valid()["size"])
        self.assertEqual(self.verify("--policy", policy)["verdict"], "VALID")

    def test_the_witness_speaks_http_as_specified(self):
        process, url, _ = self.witness("a")

        def ask(path, body=None):
            try:
                with urllib.request.urlopen(urllib.request.Request(url + path, body), timeout=20) as answer:
                    return answer.status, answer.read().decode(), answer.headers["content-type"]
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode(), error.headers["content-type"]

        note = self.run_well("checkpoint", "--data", self.data).out
        status, line, _ = ask("/add-checkpoint", b"old 0\n\n" + note.encode())
        self.assertEqual(status, 200)
        self.assertTrue(line.startswith("\u2014 witness.example/a "))
        status, size, kind = ask("/add-checkpoint", b"old 0\n\n" + note.encode())
        self.assertEqual((status, size, kind), (409, note.split("\n")[1] + "\n", "text/x.tlog.size"))
        self.assertEqual(ask("/add-checkpoint", b"nonsense")[0], 400)
        self.assertEqual(ask("/add-checkpoint")[0], 405)
        self.assertEqual(ask("/nothing")[0], 404)
        path = "/" + hashlib.sha256(note.split("\n")[0].encode()).hexdigest() + "/checkpoint"
        self.assertEqual(ask(path)[:2], (200, note + line))
        process.terminate()
        self.assertEqual(process.wait(20), 0)

    def test_a_witness_that_is_down_or_does_not_know_the_log_is_named(self):
        knows = self.witness("a")
        other = self.folder / "other"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=other):
            pass
        stranger = self.witness("b", self.run_well("keys", "list", "--data", other).out.strip())
        down = self.witness("c")
        down[0].kill()
        down[0].wait()
        failed = self.ask(self.policy(knows, stranger, down), code=3)
        self.assertEqual([w["cosigned"] for w in failed.json["witnesses"]], [True, False, False])
        self.assert_one_line_error(failed, 3, "404")
        self.assertTrue(self.ask(self.policy(knows, stranger, down, needed="any")).json["quorum"])

    def test_a_witness_that_does_not_know_the_new_key_is_told_what_to_do(self):
        policy = self.policy(self.witness("a"))
        self.ask(policy)
        rotated = self.run_well("keys", "rotate", "--reason", "yearly", "--data", self.data)
        self.assertIn("start each witness with --log", rotated.err)
        self.ask(policy)  # the old key signs beside it
        self.run_well("keys", "retire", "--reason", "done", "--data", self.data)
        self.assert_one_line_error(self.ask(policy, code=3), 3, "403", "this log is known", "--log of the new key")

    def test_a_log_that_was_rolled_back_is_refused(self):
        backup = self.folder / "backup"
        self.run_well("backup", backup, "--keys", "--data", self.data)
        witness = self.witness("a")
        self.append()
        policy = self.policy(witness)
        self.ask(policy)
        self.data = backup
        self.assert_one_line_error(self.ask(policy, code=1), 1, "rolled back")
        # It goes on from there, and has another history from then on.
        for _ in range(8):
            self.append()
        failed = self.ask(policy, code=1)
        self.assert_one_line_error(failed, 1, "422")

    def test_bad_input(self):
        path = self.folder / "policy.txt"
        path.write_text("quorum nobody\n")
        self.assert_one_line_error(
            support.verbatim("witness", "ask", "--policy", path, "--data", self.data), 2, "nobody")
        for flags in (("--name", "has space", "--log", self.vkey), ("--name", "w", "--log", "no key")):
            self.assert_one_line_error(
                support.verbatim("witness", "serve", "--state", self.folder / "w", *flags), 2)
        self.assert_one_line_error(
            support.verbatim("receipt", self.record, "--cosigned", "--data", self.data), 2, "witness ask")


if __name__ == "__main__":
    support.main()
