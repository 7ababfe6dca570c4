"""The admin listener's page and metrics: exchanges, cache, log, and the verdicts of replays as they become leaves."""
import base64
import json
import re
import signal
import socket
import struct
import time
import urllib.error
import urllib.request
from datetime import datetime

import support
from support import chat
from test_probe import PlainText

KINDS = ["BITWISE", "TOKEN_EXACT", "WITHIN_MARGIN", "DIVERGED", "NOT_REPLAYABLE", "ERASED", "PRUNED"]


def samples(text):
    return {name: float(value) for name, value in
            (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))}


class DashboardTest(support.ProgramTest):
    def start(self, *flags):
        gateway = self.gateway("--model", f"demo={support.DEMO_MODEL}", *flags)
        gateway.admin = re.search(r"health and metrics on (\S+)", gateway.log_tail())[1]
        return gateway

    def get(self, gateway, path, **headers):
        request = urllib.request.Request(gateway.admin + path, headers={n.replace("_", "-"): v for n, v in headers.items()})
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.read().decode()

    def verdicts(self, gateway):
        told = samples(self.get(gateway, "/metrics"))
        return told, {kind: told[f'verbatim_replay_verdict_total{{verdict="{kind}"}}'] for kind in KINDS}

    def append(self, fields):
        """A leaf through append.sock, as commands of the program append theirs."""
        message = json.dumps({"draft": {"type": "replay_verdict", "fields": fields}}).encode()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.data / "append.sock"))
            client.sendall(struct.pack(">I", len(message)) + message)
            self.assertIn(b"appended", client.recv(65536))

    def test_verdicts_are_counted_as_they_become_leaves(self):
        with self.start() as gateway:
            told, counts = self.verdicts(gateway)
            self.assertEqual(counts, dict.fromkeys(KINDS, 0))
            self.assertNotIn("verbatim_replay_last_verdict_timestamp_seconds", told)
            for index in range(3):
                gateway.post("/v1/chat/completions", chat(f"Who are you, number {index}?", temperature=0))
            gateway.post("/v1/chat/completions", {**chat("x"), "model": "none"})
            for runs in (1, 2):
                self.run_well("replay", "--data", self.data, "--all")
                told, counts = self.verdicts(gateway)
                self.assertEqual(counts, {**dict.fromkeys(KINDS, 0), "BITWISE": 3 * runs, "NOT_REPLAYABLE": runs})
            leaves = [r for r in self.records("--all-types") if r["type"] == "replay_verdict"]
            self.assertEqual(len(leaves), sum(counts.values()))
            newest = int(datetime.fromisoformat(leaves[-1]["time"]).timestamp())
            self.assertEqual(told["verbatim_replay_last_verdict_timestamp_seconds"], newest)
            self.assertLess(abs(time.time() - newest - told["verbatim_replay_last_verdict_age_seconds"]), 5)
            self.assertGreaterEqual(told["verbatim_log_last_leaf_timestamp_seconds"], newest)
            self.assertGreater(told["verbatim_log_file_bytes"], 0)
        # A counter begins anew with its process; how long ago the last run was is in the log.
        with self.start() as gateway:
            told, counts = self.verdicts(gateway)
            self.assertEqual(sum(counts.values()), 0)
            self.assertEqual(told["verbatim_replay_last_verdict_timestamp_seconds"], newest)

    def test_the_page_shows_the_figures_of_the_metrics(self):
        with self.start() as gateway:
            for _ in range(4):
                gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0))
            self.run_well("replay", "--data", self.data, "--all")
            page = self.get(gateway, "/")
            told = samples(self.get(gateway, "/metrics"))
        plain = PlainText(page)
        words = " ".join(plain.text.split())
        self.assertIn("recording", words)
        self.assertIn("4 ended, 0 under way", words)
        self.assertIn("75.0 % of the questions that may be cached", words)
        self.assertIn(f"{int(told['verbatim_log_leaves_total'])} leaves", words)
        self.assertIn("0 % diverged, of 4 that were compared; 4 verdicts", words)
        self.assertEqual(len(re.findall(r"BITWISE", words)), 5)  # the sum, and each of the newest
        self.assertNotIn("{{", page)
        self.assertNotIn("script", plain.tags)
        self.assertEqual(re.findall(r'(?:src|href)=|url\(|@import', page), [])

    def test_texts_from_elsewhere_are_texts(self):
        with self.start() as gateway:
            self.append({"record": "<b>x</b>", "verdict": "<script>alert(1)</script>", "reason": "\u202e\"'&" + "y" * 5000})
            for index in range(30):
                self.append({"record": "r", "verdict": f"kind {index}"})
            self.append({"record": 7, "verdict": None})
            page = self.get(gateway, "/")
            told, counts = self.verdicts(gateway)
            self.append({"record": "<b>z</b>", "verdict": "<script>", "reason": "\u202e\"'&" + "y" * 5000})
            last = self.get(gateway, "/")
        self.assertEqual(sum(counts.values()), 0)
        self.assertNotIn("script", PlainText(last).tags)
        self.assertNotIn("b", PlainText(last).tags)
        self.assertNotIn("\u202e", last)
        self.assertIn("<script>", PlainText(last).text)
        self.assertLess(len(last), 40_000)
        self.assertIn("kind 29", page)

    def test_a_browser_gives_the_token_as_a_password(self):
        config = self.folder / "config.toml"
        config.write_text('[gateway]\nadmin_token = "t0ken"\n')
        with self.start("--config", config) as gateway:
            for path in ("/", "/metrics"):
                for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"},
                                {"Authorization": "Basic " + base64.b64encode(b"t0ken").decode()},
                                {"Authorization": "Basic " + base64.b64encode(b"t0ken:").decode()}):
                    with self.assertRaises(urllib.error.HTTPError) as refused:
                        self.get(gateway, path, **headers)
                    self.assertEqual(refused.exception.code, 401)
                    refused.exception.close()
                if path == "/":
                    self.assertIn("Basic", refused.exception.headers["www-authenticate"])
                for given in ("Bearer t0ken", "Basic " + base64.b64encode(b"anyone:t0ken").decode()):
                    self.assertIn("erbatim", self.get(gateway, path, Authorization=given))

    def test_it_answers_to_its_names_alone_and_the_error_says_what_to_configure(self):
        def code(**headers):
            try:
                return 200, self.get(gateway, "/metrics", **headers)
            except urllib.error.HTTPError as refused:
                with refused:
                    return refused.code, refused.read().decode()

        config = self.folder / "config.toml"
        config.write_text("# as it is without one\n")
        with self.start("--config", config, "--admin", "0.0.0.0:0") as gateway:
            gateway.admin = gateway.admin.replace("0.0.0.0", "127.0.0.1")
            self.assertEqual(code()[0], 200)  # as Prometheus asks that was given the address
            refused, text = code(Host="verbatim:9090")
            self.assertEqual(refused, 421)
            self.assertIn("gateway.admin_hosts", text)
            config.write_text('[gateway]\nadmin_hosts = ["verbatim"]\n')
            gateway.process.send_signal(signal.SIGHUP)
            with support.eventually() as wait:
                wait(lambda: code(Host="verbatim:9090")[0] == 200, "the name to be known")
            self.assertEqual(code(Host="rebound.example")[0], 421)
            self.assertEqual(code(Origin="http://evil.example")[0], 403)

    def test_the_health_of_the_gateway_is_told_to_clients_and_is_no_record(self):
        with self.start() as gateway:
            for method, body in (("GET", b"ready\n"), ("HEAD", b"")):
                answer = gateway.request(method, "/healthz")
                self.assertEqual((answer.status, answer.body, answer.header("content-length")), (200, body, "6"))
                self.assertIsNone(answer.record)
            self.assertEqual(gateway.request("POST", "/healthz", b"").status, 404)
        self.assertEqual(len(self.records()), 1)


if __name__ == "__main__":
    support.main()
