"""A log whose key is in a PKCS#11 token, from the command line."""
import subprocess
import sys
import unittest

import support
from soft_tokens import PIN, SoftTokens
from support import chat


class TokenKeysTest(support.ProgramTest):

    def setUp(self):
        super().setUp()
        self.tokens = SoftTokens(self.folder / "hsm")
        self.tokens.init("audit")
        self.tokens.make_key("audit", "one", 1)
        self.tokens.make_key("audit", "two", 2)

    def token_gateway(self, uri, **env):
        config = self.folder / "gateway.toml"
        config.write_text(f'[log]\nsigning_key = "{uri}"\n')
        return self.gateway("--config", config, "--model", f"demo={support.DEMO_MODEL}", env={**self.tokens.env, **env})

    def with_token(self, *args, code=0, **env):
        return self.run_well(*args, "--data", self.data, code=code, env={**self.tokens.env, **env})

    def assert_no_pin_anywhere(self):
        for path in self.folder.rglob("*"):
            if path.is_file() and "hsm" not in path.relative_to(self.folder).parts:
                self.assertNotIn(PIN.encode(), path.read_bytes(), str(path))

    def test_a_log_begins_in_a_token_and_moves_to_another_key_while_the_gateway_runs(self):
        one, two = self.tokens.uri("audit", "one"), self.tokens.uri("audit", "two")
        with self.token_gateway(one) as gateway:
            gateway.post("/v1/chat/completions", chat("one", temperature=0))
            first = self.run_well("keys", "list", "--data", self.data).out.strip()
            self.assertEqual((self.data / "log.key").read_text(), f"{first} {one}\n")
            # The gateway signs: who asks it needs no PIN.
            self.assert_one_line_error(
                support.verbatim("keys", "rotate", "--reason", "x", "--data", self.data), 2, "--to")
            self.assert_one_line_error(
                support.verbatim("keys", "rotate", "--reason", "x", "--to", one, "--data", self.data), 2, "already")
            changed = self.run_well("keys", "rotate", "--reason", "yearly", "--to", two, "--data", self.data, "--json").json
            self.assertEqual(changed["private_key"], two)
            gateway.post("/v1/chat/completions", chat("two", temperature=0))
            retired = self.run_well("keys", "retire", "--reason", "all know", "--data", self.data, "--json")
            self.assertEqual((retired.json["vkey"], retired.json["private_key"]), (first, "left in its token"))
            self.assertIn("still in the token", retired.err)
            gateway.post("/v1/chat/completions", chat("three", temperature=0))
            keys = self.run_well("keys", "list", "--data", self.data, "--json").json["keys"]
            self.assertEqual([key["private_key"] for key in keys], [two, None])
        self.with_token("replay", "--all", "--quiet")  # its statements are signed in this process
        bundle = self.folder / "bundle"
        self.with_token("export", "--out", bundle)
        self.assertEqual(self.run_well("verify", bundle, "--key", first, "--json").json["verdict"], "VALID")
        subprocess.run([sys.executable, "-B", bundle / "verify.py", "--key", first], check=True, capture_output=True)
        self.assert_valid()
        self.with_token("keys", "rotate", "--reason", "back", "--to", "file")
        retired = self.with_token("keys", "retire", "--reason", "done", "--json").json
        self.assertEqual(retired["private_key"], "left in its token")
        self.assertTrue((self.data / "log.key").read_text().startswith("PRIVATE+KEY+"))
        self.with_token("keys", "rotate", "--reason", "again")
        self.assertEqual(self.with_token("keys", "retire", "--reason", "done", "--json").json["private_key"], "destroyed")
        self.assert_valid()
        self.assert_no_pin_anywhere()

    def test_a_token_that_is_taken_out_stops_the_answers_and_loses_nothing(self):
        with self.token_gateway(self.tokens.uri("audit", "one")) as gateway:
            kept = [gateway.post("/v1/chat/completions", chat("before", temperature=0)).record]
            for fault in ("removed", "garbage"):
                self.tokens.fault(fault)
                refused = gateway.post("/v1/chat/completions", chat("while it is away", temperature=0))
                self.assertEqual(refused.status, 503)
                self.assertNotIn(b"pkcs11", refused.body)
                self.tokens.mend()
                answer = gateway.post("/v1/chat/completions", chat(f"after {fault}", temperature=0))
                self.assertEqual(answer.status, 200)
                kept.append(answer.record)
        self.assert_valid()
        complete = [record["id"] for record in self.records() if record["status"] == "complete"]
        self.assertEqual(sorted(complete), sorted(kept))
        self.assert_no_pin_anywhere()

    def test_a_wrong_pin_is_sent_once_and_makes_no_log(self):
        config = self.folder / "gateway.toml"
        config.write_text(f'[log]\nsigning_key = "{self.tokens.uri("audit", "one")}"\n')
        start = ("gateway", "--listen", "127.0.0.1:0", "--data", self.data, "--config", config)
        finished = support.verbatim(*start, env={**self.tokens.env, "TEST_PIN": "wrong-canary"})
        self.assert_one_line_error(finished, 2, "CKR_PIN_INCORRECT")
        self.assertNotIn("canary", finished.out + finished.err)
        self.assertEqual(self.tokens.logins(), 1)
        self.assertFalse((self.data / "log.key").exists())
        with self.token_gateway(self.tokens.uri("audit", "one")):
            pass
        before = self.tokens.logins()
        for command in (("keys", "rotate", "--reason", "x", "--to", "file"), ("export", "--out", self.folder / "out"),
                        ("replay", "--all")):
            finished = support.verbatim(*command, "--data", self.data, env={**self.tokens.env, "TEST_PIN": "wrong"})
            self.assert_one_line_error(finished, 2, "CKR_PIN_INCORRECT")
            before += 1
            self.assertEqual(self.tokens.logins(), before, command)
        self.assert_valid()

    def test_a_pin_in_a_uri_is_refused_wherever_it_comes_from(self):
        uri = self.tokens.uri("audit", "one") + "&pin-value=canary"
        config = self.folder / "gateway.toml"
        config.write_text(f'[log]\nsigning_key = "{uri}"\n')
        for command in (("gateway", "--config", config, "--check"),
                        ("keys", "rotate", "--reason", "x", "--to", uri, "--data", self.data)):
            finished = support.verbatim(*command)
            self.assert_one_line_error(finished, 2, "pin-value")
            self.assertNotIn("canary", finished.out + finished.err)

    def test_the_configurations_key_is_for_a_new_log(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}"):
            pass
        with self.token_gateway(self.tokens.uri("audit", "one")) as gateway:
            self.assertIn("log.signing_key", gateway.log_tail())
        self.assertEqual(self.tokens.logins(), 0)
        self.assertTrue((self.data / "log.key").read_text().startswith("PRIVATE+KEY+"))


if __name__ == "__main__":
    support.main()
