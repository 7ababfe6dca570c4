"""HTTP/2 from clients: nginx in front, with the configuration that the documentation gives, word for word."""
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
import unittest
from pathlib import Path

import support
from mock_upstream import RawServer

ROOT = Path(__file__).resolve().parents[2]
NGINX = next((str(p) for p in (ROOT / "build/tools/nginx/usr/sbin/nginx", Path("/usr/sbin/nginx")) if p.exists()), None)
CHAT = "/v1/chat/completions"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class SteppedUpstream(RawServer):
    """Sends one event, and the end only when the test says so."""

    def __init__(self):
        self.seen = threading.Event()
        super().__init__()

    def serve(self, connection):
        with connection, connection.makefile("rb") as file:
            head = self.read_head(file)
            if head is None:
                return
            if b"upgrade: websocket" in head.lower():
                connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
                return
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                               b"data: {\"n\":1}\n\n")
            self.seen.wait(20)
            connection.sendall(b"data: [DONE]\n\n")


@unittest.skipIf(NGINX is None, "no nginx: deploy/install-packages bench")
@unittest.skipIf(shutil.which("curl") is None, "no curl")
class BehindNginx(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.upstream = SteppedUpstream()
        self.addCleanup(self.upstream.listener.close)
        self.server = self.gateway("--model", f"demo={support.DEMO_MODEL}", "--upstream", f"openai={self.upstream.url}")
        self.port = free_port()
        self.certificate = self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", self.folder / "key.pem", "-out", self.certificate, "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-days", "2"], check=True, capture_output=True)
        given = re.search(r"```nginx\n(.*?)```", (ROOT / "docs/configuration.md").read_text(), re.S)[1]
        adapted = (given.replace("443", f"127.0.0.1:{self.port}").replace("/etc/verbatim", str(self.folder))
                   .replace("127.0.0.1:8080", f"{self.server.host}:{self.server.port}"))
        temporary = "".join(f"{what}_temp_path {self.folder}/{what};" for what in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = self.folder / "nginx.conf"
        config.write_text(f"daemon off; master_process off; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;\n"
                          f"events {{}}\nhttp {{ access_log off; {temporary}\n{adapted} }}\n")
        self.nginx = subprocess.Popen([NGINX, "-p", str(self.folder), "-c", str(config), "-e", f"{self.folder}/error.log"],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop_nginx)
        with support.eventually() as wait:
            wait(self.nginx_listens, "nginx")

    def nginx_listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop_nginx(self):
        self.nginx.terminate()
        self.nginx.wait(20)

    def curl(self, path, body):
        return ["curl", "--silent", "--show-error", "--no-buffer", "--http2", "--cacert", str(self.certificate), "--max-time", "60",
                "--resolve", f"localhost:{self.port}:127.0.0.1", "--dump-header", str(self.folder / "headers"),
                "-H", "content-type: application/json", "-d", json.dumps(body), f"https://localhost:{self.port}{path}"]

    def test_an_answer_over_http_2_is_the_gateways_and_has_its_record(self):
        done = subprocess.run(self.curl(CHAT, support.chat("Hello", temperature=0)), capture_output=True, check=True)
        head = (self.folder / "headers").read_text()
        self.assertTrue(head.startswith("HTTP/2 200"), head)
        record = re.search(r"x-verbatim-record: (\S+)", head)[1]
        self.assertEqual(self.contents(record)["response.body"], done.stdout)
        self.assert_valid()

    def test_an_event_goes_out_while_the_next_is_not_there(self):
        body = {"model": "gpt-x", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        with subprocess.Popen(self.curl(CHAT, body), stdout=subprocess.PIPE) as client:
            # Nothing else comes before the upstream is told that this was read.
            self.assertEqual(client.stdout.readline(), b'data: {"n":1}\n')
            self.upstream.seen.set()
            self.assertEqual(client.stdout.read(), b"\ndata: [DONE]\n\n")
        self.assertEqual(client.returncode, 0)

    def test_a_body_of_any_length_passes(self):
        body = support.chat("x" * 3_000_000)
        answer = subprocess.run(self.curl(CHAT, body)[:-3] + ["--data-binary", "@-", self.curl(CHAT, body)[-1]],
                                input=json.dumps(body).encode(), capture_output=True, check=True)
        # Too long for the demo model, and the gateway's own word, not the proxy's 413.
        self.assertIn(b"context", answer.stdout)

    def test_an_upgrade_passes_over_http_1_1(self):
        context = ssl.create_default_context(cafile=str(self.certificate))
        client = http.client.HTTPSConnection("localhost", self.port, timeout=20, context=context)
        self.addCleanup(client.close)
        client.request("GET", "/v1/realtime?model=gpt-realtime",
                       headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
        self.assertEqual(client.getresponse().status, 101)


if __name__ == "__main__":
    support.main()
