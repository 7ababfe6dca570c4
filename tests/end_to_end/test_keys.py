"""Keys from the command line: rotation while the gateway runs, and auditors who hold the first key."""
import unittest

import support
from support import chat


class KeysTest(support.ProgramTest):

    def keys(self):
        return self.run_well("keys", "list", "--data", self.data, "--json").json["keys"]

    def test_the_key_is_changed_while_a_gateway_runs(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            gateway.post("/v1/chat/completions", chat("one", temperature=0))
            first = self.run_well("keys", "list", "--data", self.data).out.strip()
            kept = self.folder / "kept"
            kept.write_text(self.run_well("checkpoint", "--data", self.data).out)
            second = self.run_well("keys", "rotate", "--reason", "yearly", "--data", self.data).out.strip()
            self.assertNotEqual(first, second)
            record = gateway.post("/v1/chat/completions", chat("two", temperature=0)).record
            self.assertEqual([key["vkey"] for key in self.keys()], [second, first])
            self.assertEqual(self.keys()[1]["use"], "checkpoints, beside the newest")
            self.assert_one_line_error(
                support.verbatim("keys", "rotate", "--reason", "again", "--data", self.data), 3, "overlap")
            self.run_well("keys", "retire", "--reason", "all have the new one", "--data", self.data)
            gateway.post("/v1/chat/completions", chat("three", temperature=0))
            self.assertEqual(self.keys()[1]["use"], "retired")
            for key in (first, second):
                self.assertEqual(self.verify("--key", key, "--checkpoint", kept)["verdict"], "VALID")
        receipt = self.folder / "receipt"
        receipt.write_text(self.run_well("receipt", record, "--data", self.data).out)
        bundle = self.folder / "bundle"
        self.run_well("export", "--data", self.data, "--out", bundle)
        for key in (first, second):
            report = self.run_well("verify", bundle, "--key", key, "--json").json
            self.assertEqual((report["verdict"], report["keys"]), ("VALID", [first, second]))
            self.run_well("verify", "--receipt", receipt, "--key", key)
        self.assertEqual(self.assert_valid()["vkey"], second)

    def test_what_cannot_be_done_says_so(self):
        self.assert_one_line_error(
            support.verbatim("keys", "rotate", "--reason", "x", "--data", self.data), 2, "there is no log")
        with self.gateway("--model", f"demo={support.DEMO_MODEL}"):
            pass
        self.assert_one_line_error(support.verbatim("keys", "rotate", "--data", self.data), 2, "--reason")
        self.assert_one_line_error(
            support.verbatim("keys", "retire", "--reason", "x", "--data", self.data), 3, "keys rotate")
        self.assertEqual(self.assert_valid()["problems"], [])


if __name__ == "__main__":
    support.main()
