"""Files, audio and pictures: bodies that nobody here reads pass through in both directions without being kept whole.

VERBATIM_LONG_MB sets how long they are; the default is for every day, 1024 is for a look at the real thing.
"""
import hashlib
import http.client
import json
import os
import re
import time
from pathlib import Path

import support
from mock_upstream import RawServer

MEGABYTES = int(os.environ.get("VERBATIM_LONG_MB", "48"))
PIECE = bytes(range(256)) * 256  # 64 KiB
RECORDED = 65536  # stream_record_bytes


def pieces(megabytes):
    return (PIECE for _ in range(megabytes * 16))


class LongUpstream(RawServer):
    """Reads any request to its end without keeping it, and answers with how long it was and its digest; or sends a long
    body. One connection, one request."""

    def serve(self, connection):
        with connection, connection.makefile("rb") as file:
            head = self.read_head(file)
            if head is None:
                return
            try:
                if b"GET" in head.split(b"\r\n")[0]:
                    self.send(connection, head)
                elif b"/early" in head:
                    connection.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                    file.read(1 << 20)
                    time.sleep(0.5)
                else:
                    self.receive(connection, file, head)
            except OSError:
                pass

    @staticmethod
    def send(connection, head):
        if b"/chunked" in head:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ntransfer-encoding: chunked\r\n\r\n")
            for piece in pieces(MEGABYTES):
                connection.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
        else:
            cut = b"/cut" in head
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: %d\r\n\r\n"
                               % (MEGABYTES << 20))
            for piece in pieces(MEGABYTES // 2 if cut else MEGABYTES):
                connection.sendall(piece)

    @staticmethod
    def receive(connection, file, head):
        digest, count = hashlib.sha256(), 0
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if length:
            left = int(length[1])
            while left and (piece := file.read(min(left, 1 << 16))):
                digest.update(piece)
                left -= len(piece)
                count += len(piece)
        else:
            while size := int(file.readline(), 16):
                piece = file.read(size)
                file.readline()
                digest.update(piece)
                count += len(piece)
            file.readline()
        body = json.dumps({"bytes": count, "sha256": digest.hexdigest()}).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                           % (len(body), body))


class LongBodies(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.upstream = LongUpstream()
        self.addCleanup(self.upstream.listener.close)
        self.server = self.gateway("--upstream", f"openai={self.upstream.url}")
        digest = hashlib.sha256()
        for piece in pieces(MEGABYTES):
            digest.update(piece)
        self.digest = digest.hexdigest()
        self.before = self.resident_mb()

    def resident_mb(self):
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def connection(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=120)
        self.addCleanup(connection.close)
        return connection

    def upload(self, target, chunked=False):
        connection = self.connection()
        headers = {"content-type": "multipart/form-data; boundary=b"}
        if not chunked:
            headers["content-length"] = str(MEGABYTES << 20)
        connection.request("POST", target, pieces(MEGABYTES), headers, encode_chunked=chunked)
        response = connection.getresponse()
        return response, response.read()

    def response_leaf(self, record):
        with support.eventually() as wait:
            return wait(lambda: self.leaves(record).get("response"))

    def assert_sampled(self, record, field, count, digest):
        leaf = self.response_leaf(record)
        self.assertEqual(leaf[f"{field}_body"], {"bytes": count, "recorded": RECORDED})
        contents = self.contents(record)
        self.assertEqual(contents[f"{field}.body"], (PIECE * 2)[:RECORDED])
        self.assertEqual(json.loads(contents[f"{field}.digest"]), {"bytes": count, "sha256": digest})

    def test_uploads_pass_through_with_flat_memory(self):
        for chunked in (False, True):
            response, body = self.upload("/v1/files", chunked)
            self.assertEqual(json.loads(body), {"bytes": MEGABYTES << 20, "sha256": self.digest})
            record = response.getheader("x-verbatim-record")
            self.assertEqual(self.leaves(record)["request"]["body"], "streamed")
            self.assertEqual(self.response_leaf(record)["status"], "complete")
            self.assert_sampled(record, "request", MEGABYTES << 20, self.digest)
            lengths = re.findall(rb"(?i)content-length|transfer-encoding", self.upstream.heads[-1])
            self.assertEqual([w.lower() for w in lengths], [b"transfer-encoding" if chunked else b"content-length"])
        self.assertLess(self.resident_mb() - self.before, 24, "a body was kept")
        self.assert_valid()

    def test_downloads_pass_through_with_flat_memory(self):
        for target in ("/v1/files/f/content", "/v1/audio/chunked"):
            connection = self.connection()
            connection.request("GET", target)
            response = connection.getresponse()
            digest, count = hashlib.sha256(), 0
            while piece := response.read(1 << 18):
                digest.update(piece)
                count += len(piece)
            self.assertEqual((count, digest.hexdigest()), (MEGABYTES << 20, self.digest))
            record = response.getheader("x-verbatim-record")
            self.assertEqual(self.response_leaf(record)["status"], "complete")
            self.assert_sampled(record, "response", count, self.digest)
        self.assertLess(self.resident_mb() - self.before, 24, "a body was kept")
        self.assert_valid()

    def test_a_download_that_is_cut_off_is_recorded_as_far_as_it_came(self):
        connection = self.connection()
        connection.request("GET", "/v1/files/cut")
        response = connection.getresponse()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        leaf = self.response_leaf(response.getheader("x-verbatim-record"))
        self.assertEqual(leaf["status"], "upstream_truncated")
        self.assertGreater(leaf["response_body"]["bytes"], 1 << 20)
        self.assertLessEqual(leaf["response_body"]["bytes"], MEGABYTES << 19)

    def test_a_client_that_leaves_in_the_middle_of_its_upload_is_recorded(self):
        connection = self.connection()
        connection.putrequest("POST", "/v1/files")
        connection.putheader("content-type", "audio/wav")
        connection.putheader("content-length", str(MEGABYTES << 20))
        connection.endheaders()
        for piece in pieces(4):
            connection.send(piece)
        with support.eventually() as wait:
            wait(lambda: self.upstream.heads, "the upload at the upstream")
        connection.close()
        with support.eventually() as wait:
            record = wait(lambda: [r for r in self.records() if r["status"]])[0]
        self.assertEqual(record["status"], "client_disconnect")
        self.assertGreater(self.response_leaf(record["id"])["request_body"]["bytes"], 1 << 20)

    def test_an_answer_before_the_end_of_the_upload_is_passed_on(self):
        connection = self.connection()
        connection.putrequest("POST", "/v1/early")
        connection.putheader("content-type", "audio/wav")
        connection.putheader("content-length", str(MEGABYTES << 20))
        connection.endheaders()
        try:
            for piece in pieces(MEGABYTES):
                connection.send(piece)
        except OSError:
            pass  # the gateway takes no more
        response = connection.getresponse()
        self.assertEqual((response.status, response.read()), (413, b"{}"))
        leaf = self.response_leaf(response.getheader("x-verbatim-record"))
        self.assertEqual((leaf["status"], leaf["http_status"]), ("upstream_error", 413))

    def test_what_is_read_here_or_short_is_kept_whole_as_before(self):
        body = b"--b\r\n" + PIECE * 8 + b"\r\n--b--\r\n"
        answer = self.server.post("/v1/files", body, {"content-type": "multipart/form-data; boundary=b"})
        self.assertEqual(self.contents(answer.record)["request.body"], body)
        self.assertNotIn("body", self.leaves(answer.record)["request"])
        long = json.dumps({"model": "m", "pad": "x" * (3 << 20)}).encode()
        answer = self.server.post("/v1/chat/completions", long)
        self.assertEqual(self.contents(answer.record)["request.body"], long)


if __name__ == "__main__":
    support.main()
