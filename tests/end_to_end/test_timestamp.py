"""Time stamps from the command line: an authority made by `openssl ts`, asked over HTTP or by files, and what it gets wrong."""
import base64
import http.server
import shutil
import subprocess
import threading
import unittest

import support
from support import chat

CONFIG = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
certs = {folder}/ca.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.3.6.1.4.1.99999.1
digests = sha256, sha512
ess_cert_id_alg = sha256
"""


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)


class Authority:
    """A CA, a certificate for time stamps, and `openssl ts -reply`."""

    def __init__(self, folder, name):
        self.folder, self.ca = folder / name, folder / name / "ca.pem"
        self.folder.mkdir()
        (self.folder / "serial").write_text("01\n")
        (self.folder / "tsa.cnf").write_text(CONFIG.format(folder=self.folder))
        (self.folder / "use.cnf").write_text("extendedKeyUsage=critical,timeStamping\n")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *curve, "-keyout", self.folder / "ca.key", "-out", self.ca, "-days", "30",
                "-subj", f"/CN={name} CA")
        openssl("req", "-new", *curve, "-keyout", self.folder / "tsa.key", "-out", self.folder / "tsa.csr",
                "-subj", f"/O=Example/CN={name} stamps")
        openssl("x509", "-req", "-in", self.folder / "tsa.csr", "-CA", self.ca, "-CAkey", self.folder / "ca.key",
                "-CAcreateserial", "-days", "30", "-extfile", self.folder / "use.cnf", "-out", self.folder / "tsa.pem")

    def reply(self, query):
        asked, answer = self.folder / "q.tsq", self.folder / "r.tsr"
        asked.write_bytes(query)
        openssl("ts", "-reply", "-config", self.folder / "tsa.cnf", "-queryfile", asked, "-out", answer)
        return answer.read_bytes()


class Server:
    """Answers POSTs with what `answer(query)` gives: (status, bytes)."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                query = self.rfile.read(int(self.headers["content-length"]))
                asked.append((self.path, self.headers["content-type"], query))
                status, body = answer(query)
                self.send_response(status)
                self.send_header("content-type", "application/timestamp-reply")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    pass  # who asked has seen enough

            def log_message(self, *_):
                pass

        self.asked = asked = []
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/tsr/"
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@unittest.skipUnless(shutil.which("openssl"), "SKIPPED: no openssl: ./deploy/install-packages test")
class TimestampTest(support.ProgramTest):

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder, "first")
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            self.record = gateway.post("/v1/chat/completions", chat("one", temperature=0)).record
        self.vkey = self.run_well("keys", "list", "--data", self.data).out.strip()

    def serve(self, answer):
        server = Server(answer)
        self.addCleanup(server.close)
        return server

    def ask(self, server, *flags):
        return support.verbatim("timestamp", "ask", "--tsa", server.url, "--data", self.data, "--json", *flags)

    def test_a_checkpoint_is_stamped_and_others_can_check_it(self):
        server = self.serve(lambda query: (200, self.authority.reply(query)))
        size = int(self.run_well("checkpoint", "--data", self.data).out.split("\n")[1])
        kept = self.ask(server, "--tsa-ca", self.authority.ca)
        self.assertEqual(kept.code, 0, str(kept))
        self.assertTrue(kept.json["trusted"])
        self.assertEqual((kept.json["size"], kept.json["tsa"]), (size, "CN=first stamps,O=Example"))
        self.assertEqual(server.asked[0][:2], ("/tsr/", "application/timestamp-query"))
        self.assertIsNone(self.verify()["timestamps"]["trusted"])
        report = self.verify("--tsa-ca", self.authority.ca)
        self.assertEqual((report["verdict"], report["timestamps"]["trusted"]), ("VALID", 1))
        # The token and the note in the leaf are all that openssl needs.
        shown = self.run_well("log", "show", kept.json["index"], "--data", self.data, "--json").json
        leaf = support.leaves_in(shown)[0]
        (self.folder / "note").write_text(leaf["note"])
        (self.folder / "token.der").write_bytes(base64.b64decode(leaf["token"]))
        openssl("ts", "-verify", "-token_in", "-in", self.folder / "token.der", "-data", self.folder / "note",
                "-CAfile", self.authority.ca)
        # Evidence and receipts take it along.
        bundle, receipt = self.folder / "bundle.zip", self.folder / "receipt"
        self.run_well("export", "--data", self.data, "--out", bundle)
        report = self.run_well("verify", bundle, "--key", self.vkey, "--tsa-ca", self.authority.ca, "--json").json
        self.assertTrue(report["timestamps"]["newest"]["trusted"])
        receipt.write_text(self.run_well("receipt", self.record, "--stamped", "--data", self.data).out)
        verified = self.run_well("verify", "--receipt", receipt, "--key", self.vkey, "--tsa-ca", self.authority.ca,
                                 "--json").json
        self.assertTrue(verified["timestamp"]["trusted"])
        self.assertEqual(verified["size"], size)

    def test_files_go_to_an_authority_that_is_not_reached_from_here(self):
        query, response = self.folder / "c.tsq", self.folder / "c.tsr"
        self.run_well("timestamp", "query", "--out", query, "--data", self.data)
        self.run_well("log", "show", self.record, "--contents", "--data", self.data)  # the log goes on
        response.write_bytes(self.authority.reply(query.read_bytes()))
        flags = ("--response", response, "--data", self.data, "--json")
        self.run_well("timestamp", "add", "--query", query, "--tsa-ca", self.authority.ca, *flags)
        stamps = self.run_well("timestamp", "list", "--data", self.data, "--json").json["timestamps"]
        self.assertEqual([stamp["trusted"] for stamp in stamps], [None])
        self.assert_valid()
        self.assert_one_line_error(support.verbatim("timestamp", "add", "--query", query, *flags), 2,
                                   f"leaf {stamps[0]['index']} keeps this time stamp already")
        # An answer to another query, a query about another log, and what is neither.
        other = self.folder / "d.tsq"
        self.run_well("timestamp", "query", "--out", other, "--data", self.data)
        self.assert_one_line_error(support.verbatim("timestamp", "add", "--query", other, *flags), 1, "imprint")
        openssl("ts", "-query", "-data", query, "-sha256", "-cert", "-out", other)
        self.assert_one_line_error(support.verbatim("timestamp", "add", "--query", other, *flags), 2, "no checkpoint")
        openssl("ts", "-query", "-data", query, "-sha512", "-cert", "-out", other)
        self.assert_one_line_error(support.verbatim("timestamp", "add", "--query", other, *flags), 2, "SHA-256")
        self.assert_one_line_error(support.verbatim("timestamp", "add", "--query", response, *flags), 2, "query")
        self.assert_valid()

    def test_an_authority_that_answers_badly_is_named_and_leaves_nothing(self):
        old = self.authority.reply(self.query())
        answers = {
            "another nonce": (lambda query: (200, old), 1, "nonce"),
            "garbage": (lambda query: (200, b"garbage"), 3, "no time-stamp response"),
            "a huge answer": (lambda query: (200, b"0" * (16 << 20)), 3, "response_too_large"),
            "an error": (lambda query: (503, b"come back later"), 3, "503"),
            "a refusal": (lambda query: (200, bytes.fromhex("30053003020102")), 3, "refuses"),
        }
        size = self.verify()["size"]
        for name, (answer, code, word) in answers.items():
            with self.subTest(name):
                self.assert_one_line_error(self.ask(self.serve(answer)), code, word)
        other = Authority(self.folder, "other")
        honest = self.serve(lambda query: (200, self.authority.reply(query)))
        self.assert_one_line_error(self.ask(honest, "--tsa-ca", other.ca), 1, "trusted", "CN=first stamps")
        self.assert_one_line_error(self.ask(honest, "--tsa-ca", self.data / "log.db"), 2, "certificate")
        self.assert_one_line_error(
            support.verbatim("timestamp", "ask", "--tsa", "http://127.0.0.1:1/", "--data", self.data), 3, "connect")
        self.assert_one_line_error(
            support.verbatim("timestamp", "ask", "--tsa", "ftp://tsa.example/", "--data", self.data), 2, "http")
        self.assertEqual(self.assert_valid()["size"], size)
        self.assert_one_line_error(
            support.verbatim("receipt", self.record, "--stamped", "--data", self.data), 2, "timestamp ask")

    def test_a_stamp_without_a_ca_is_kept_and_not_called_trusted(self):
        server = self.serve(lambda query: (200, self.authority.reply(query)))
        kept = self.ask(server)
        self.assertEqual(kept.code, 0, str(kept))
        self.assertIsNone(kept.json["trusted"])
        said = self.run_well("verify", "--data", self.data).out
        self.assertIn("not checked: pass --tsa-ca", said)
        self.assertEqual(self.verify("--tsa-ca", Authority(self.folder, "other").ca, code=1)["verdict"],
                         "VALID_UNWITNESSED")
        # While a gateway holds the log, it appends.
        with self.gateway("--model", f"demo={support.DEMO_MODEL}"):
            self.assertEqual(self.ask(server).code, 0)
        self.assertEqual(self.verify("--tsa-ca", self.authority.ca)["timestamps"]["trusted"], 2)

    def query(self):
        path = self.folder / "first.tsq"
        self.run_well("timestamp", "query", "--out", path, "--data", self.data)
        return path.read_bytes()


if __name__ == "__main__":
    support.main()
