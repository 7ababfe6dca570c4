"""WebSockets (OpenAI's Realtime API): they pass byte for byte in both directions, and are recorded frame by frame.

Frames are made here by hand, so that each byte is known; npm's `ws` stands for the clients that there are.
"""
import base64
import contextlib
import hashlib
import json
import os
import socket
import struct
import subprocess
import time
import zlib
from pathlib import Path

import support
from mock_upstream import RawServer

PATH = "/v1/realtime?model=gpt-realtime"
CLIENT_KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # RFC 6455 section 1.3
ACCEPT = base64.b64encode(hashlib.sha1(CLIENT_KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(opcode, payload=b"", fin=True, masked=False, reserved=0):
    out = bytes([(0x80 if fin else 0) | reserved | opcode])
    mask = 0x80 if masked else 0
    if len(payload) < 126:
        out += bytes([mask | len(payload)])
    elif len(payload) < 65536:
        out += bytes([mask | 126]) + struct.pack(">H", len(payload))
    else:
        out += bytes([mask | 127]) + struct.pack(">Q", len(payload))
    if not masked:
        return out + payload
    key = b"\x11\x22\x33\x44"
    return out + key + bytes(b ^ key[i % 4] for i, b in enumerate(payload))


def close(code, masked=False):
    return frame(CLOSE, struct.pack(">H", code), masked=masked)


AGREED = (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          f"Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n"
          f"x-request-id: up-1\r\n\r\n").encode()


class SocketUpstream(RawServer):
    """Agrees to every Upgrade, then hands the connection to `talk(connection, file)`."""

    def __init__(self, talk, answer=None):
        self.talk, self.answer = talk, answer
        super().__init__()

    def serve(self, connection):
        with connection, connection.makefile("rb") as file, contextlib.suppress(OSError):
            if self.read_head(file) is None:
                return
            connection.sendall(self.answer or (
                f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {ACCEPT}\r\nx-request-id: up-1\r\n\r\n").encode())
            self.talk(connection, file)


class Peer:
    """A client made of bytes."""

    def __init__(self, server, extra=""):
        self.socket = socket.create_connection((server.host, server.port), 20)
        self.socket.sendall((f"GET {PATH} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
                             f"Sec-WebSocket-Key: {CLIENT_KEY}\r\nSec-WebSocket-Version: 13\r\n{extra}\r\n").encode())
        self.file = self.socket.makefile("rb")
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            if not line:
                break
            self.head += line
        found = [line.split(b": ")[1] for line in self.head.split(b"\r\n") if line.startswith(b"x-verbatim-record: ")]
        self.record = found[0].decode() if found else None

    def send(self, data):
        self.socket.sendall(data)

    def read(self, size):
        return self.file.read(size)

    def rest(self):
        """Everything until the end; what a reset took away is not there."""
        try:
            return self.file.read()
        except ConnectionError:
            return b""

    def close(self):
        self.file.close()
        self.socket.close()


class WebSocketTest(support.ProgramTest):
    def start(self, serve, toml="", answer=None, flags=()):
        self.upstream = SocketUpstream(serve, answer)
        self.addCleanup(self.upstream.listener.close)
        config = self.folder / "c.toml"
        config.write_text(toml + f'[[upstream]]\nname = "openai"\nurl = "{self.upstream.url}"\n')
        self.server = self.gateway("--config", config, *flags)

    def peer(self, extra=""):
        peer = Peer(self.server, extra)
        self.addCleanup(peer.close)
        return peer

    def response_leaf(self, record):
        with support.eventually() as wait:
            return wait(lambda: self.leaves(record).get("response"), f"a response leaf of {record}")


FROM_CLIENT = (frame(TEXT, b'{"type":"session.update"}', masked=True) + frame(TEXT, b"frag", fin=False, masked=True) +
               frame(PING, b"are you there", masked=True) + frame(0, b"ment", masked=True) +
               frame(BINARY, os.urandom(70_000), masked=True) + frame(TEXT, b"deflated", masked=True, reserved=0x40))
FROM_UPSTREAM = (frame(TEXT, b'{"type":"session.created"}') + frame(PONG, b"are you there") +
                 frame(BINARY, os.urandom(300)) + frame(TEXT, b"", fin=False) + frame(0, b"end") +
                 frame(TEXT, b"\x01\x02deflated", reserved=0x40))


class PassThrough(WebSocketTest):
    def talk(self, connection, file):
        self.got = file.read(len(FROM_CLIENT))
        connection.sendall(FROM_UPSTREAM)
        self.got += file.read(len(close(1000, masked=True)))
        connection.sendall(close(1000))

    def test_both_directions_pass_byte_for_byte_and_are_recorded_frame_by_frame(self):
        self.start(self.talk, answer=AGREED)
        peer = self.peer("Authorization: Bearer sk-SECRET\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"
                         "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-OTHER\r\n")
        self.assertTrue(peer.head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n"), peer.head)
        for line in (b"Sec-WebSocket-Accept: " + ACCEPT.encode(), b"connection: Upgrade", b"upgrade: websocket"):
            self.assertIn(line + b"\r\n", peer.head)
        for at in range(0, len(FROM_CLIENT), 1009):
            peer.send(FROM_CLIENT[at:at + 1009])
        self.assertEqual(peer.read(len(FROM_UPSTREAM)), FROM_UPSTREAM)
        peer.send(close(1000, masked=True))
        self.assertEqual(peer.rest(), close(1000))
        self.assertEqual(self.got, FROM_CLIENT + close(1000, masked=True))
        sent = self.upstream.heads[0].lower()
        self.assertTrue(sent.startswith(b"get /v1/realtime?model=gpt-realtime http/1.1\r\n"))
        for line in (b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-key: " + CLIENT_KEY.lower().encode(),
                     b"sec-websocket-extensions: permessage-deflate", b"authorization: bearer sk-secret"):
            self.assertIn(b"\r\n" + line + b"\r\n", sent)
        self.assertEqual(sent.count(b"connection:"), 1)

        leaf = self.response_leaf(peer.record)
        self.assertEqual((leaf["status"], leaf["http_status"], leaf["upstream"]["request_id"]), ("complete", 101, "up-1"))
        self.assertEqual(leaf["websocket"]["close"], {"by": "client", "code": 1000})
        self.assertEqual((leaf["websocket"]["client"]["frames"], leaf["websocket"]["upstream"]["frames"]), (7, 7))
        self.assertNotIn("fault", json.dumps(leaf["websocket"]))
        self.assertEqual(leaf["websocket"]["compression"], "permessage-deflate")
        contents = self.contents(peer.record)
        self.assertEqual(contents["websocket.client"], FROM_CLIENT + close(1000, masked=True))
        self.assertEqual(contents["websocket.upstream"], FROM_UPSTREAM + close(1000))
        frames = json.loads(contents["websocket.frames"])
        self.assertEqual([f[3] for f in frames if f[0] == "c"], [0x81, 0x01, 0x89, 0x80, 0x82, 0xC1, 0x88])
        self.assertEqual([f[3] for f in frames if f[0] == "u"], [0x81, 0x8A, 0x82, 0x01, 0x80, 0xC1, 0x88])
        for direction, offset, _, first in frames:
            name = "websocket.client" if direction == "c" else "websocket.upstream"
            self.assertEqual(contents[name][offset], first)
        self.assertEqual([f[2] for f in frames], sorted(f[2] for f in frames))
        for file in self.data.rglob("*"):
            if file.is_file() and not file.is_socket():
                self.assertNotIn(b"sk-OTHER", file.read_bytes())
        self.assertNotIn(b"sk-", b"".join(contents.values()))
        self.assert_valid()

    def test_the_upstream_may_close_and_hears_the_clients_answer(self):
        def serve(connection, file):
            connection.sendall(frame(TEXT, b"bye") + close(4001))
            self.got = file.read()

        self.start(serve)
        peer = self.peer()
        self.assertEqual(peer.read(len(frame(TEXT, b"bye")) + 4), frame(TEXT, b"bye") + close(4001))
        # The record is there before the Close is.
        self.assertEqual(self.leaves(peer.record)["response"]["websocket"]["close"], {"by": "upstream", "code": 4001})
        peer.send(close(4001, masked=True))
        self.assertEqual(peer.rest(), b"")
        with support.eventually() as wait:
            wait(lambda: getattr(self, "got", None) == close(4001, masked=True), "the client's Close")
        self.assertEqual(self.response_leaf(peer.record)["status"], "complete")

    def test_an_upgrade_that_is_refused_is_an_answer_like_any_other(self):
        self.start(lambda connection, file: None, answer=b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\n"
                                                         b"content-length: 2\r\nconnection: close\r\n\r\n{}")
        peer = self.peer()
        self.assertTrue(peer.head.startswith(b"HTTP/1.1 401 "))
        self.assertEqual(peer.read(2), b"{}")
        leaf = self.response_leaf(peer.record)
        self.assertEqual((leaf["status"], leaf["error"]["kind"]), ("upstream_error", "http_status"))
        self.assertNotIn("websocket", leaf)

    def test_a_key_of_the_gateway_among_the_subprotocols_goes_no_further(self):
        key = self.run_well("gateway", "--new-key", "one", "--json").json
        other = self.run_well("gateway", "--new-key", "two", "--json").json
        toml = (f'[[key]]\nname = "one"\nhash = "{key["hash"]}"\nmodels = ["gpt-*"]\n'
                f'[[key]]\nname = "two"\nhash = "{other["hash"]}"\nmodels = ["o9"]\n')

        def serve(connection, file):
            connection.sendall(close(1000))

        self.start(serve, toml)
        refused = self.peer("Sec-WebSocket-Protocol: realtime\r\n")
        self.assertTrue(refused.head.startswith(b"HTTP/1.1 401 "))
        peer = self.peer(f"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.{key['key']}, v1\r\n")
        self.assertTrue(peer.head.startswith(b"HTTP/1.1 101 "), peer.head)
        self.assertIn(b"\r\nSec-WebSocket-Protocol: realtime, v1\r\n", self.upstream.heads[0])
        self.assertNotIn(b"vb-", self.upstream.heads[0])
        self.assertEqual(self.leaves(peer.record)["request"]["model"]["requested"], "gpt-realtime")
        self.assertTrue(self.peer(f"Authorization: Bearer {other['key']}\r\n").head.startswith(b"HTTP/1.1 403 "))


class Endings(WebSocketTest):
    def test_every_end_has_its_status(self):
        def serve(connection, file):
            how = file.read(7)[-1:]  # one masked byte
            if how == bytes([ord("e") ^ 0x11]):
                return  # ends without a Close
            if how == bytes([ord("r") ^ 0x11]):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if how == bytes([ord("c") ^ 0x11]):
                file.read(8)  # the client's Close, and no answer to it
                return
            file.read()

        self.start(serve, "[timeouts]\nwebsocket_idle_ms = 300\n")
        for how, status, kind in ((b"e", "upstream_truncated", "no_close_frame"),
                                  (b"r", "upstream_truncated", "no_close_frame"), (b"c", "complete", None),
                                  (b"i", "timeout", "idle_timeout"), (b"l", "client_disconnect", "client_disconnect"),
                                  (b"h", "client_disconnect", "client_disconnect")):
            with self.subTest(how):
                peer = self.peer()
                peer.send(frame(TEXT, how, masked=True))
                if how == b"c":
                    peer.send(close(1000, masked=True))
                if how == b"l":
                    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    peer.close()
                elif how == b"h":
                    peer.socket.shutdown(socket.SHUT_WR)
                leaf = self.response_leaf(peer.record)
                self.assertEqual((leaf["status"], leaf.get("error", {}).get("kind")), (status, kind))
                self.assertEqual(leaf["http_status"], 101)
                if how != b"l":
                    self.assertEqual(peer.rest(), b"", "no Close frame is made up")
        self.assert_valid()

    def test_what_breaks_the_rules_passes_and_is_named(self):
        def serve(connection, file):
            self.got = file.read(3)
            connection.sendall(frame(3, b"x") + close(1002))

        self.start(serve)
        peer = self.peer()
        peer.send(frame(TEXT, b"a"))  # not masked
        self.assertEqual(peer.read(3), frame(3, b"x"))
        leaf = self.response_leaf(peer.record)
        self.assertEqual(self.got, frame(TEXT, b"a"))
        self.assertEqual(leaf["websocket"]["client"]["fault"], "a frame that is not masked")
        self.assertEqual(leaf["websocket"]["upstream"]["fault"], "a reserved opcode")
        self.assertNotIn("compression", leaf["websocket"])

    def test_a_compressed_frame_where_no_compression_was_agreed_on_is_named(self):
        def serve(connection, file):
            file.read(8)
            connection.sendall(close(1002))

        self.start(serve)
        peer = self.peer("Sec-WebSocket-Extensions: permessage-deflate\r\n")  # an offer that is not taken
        peer.send(frame(TEXT, b"ab", masked=True, reserved=0x40))
        self.assertEqual(peer.rest(), close(1002))
        self.assertEqual(self.response_leaf(peer.record)["websocket"]["client"]["fault"],
                         "a reserved bit without an extension")

    def test_a_drain_that_takes_too_long_cuts_and_records(self):
        self.start(lambda connection, file: file.read(), "[timeouts]\ndrain_ms = 200\n")
        peer = self.peer()
        self.assertEqual(self.server.stop(), 0)
        leaf = self.response_leaf(peer.record)
        self.assertEqual((leaf["status"], leaf["error"]["kind"]), ("gateway_error", "shutting_down"))

    def test_long_sessions_are_kept_by_their_beginning_and_digest_in_bounded_memory(self):
        piece = frame(BINARY, bytes(range(256)) * 256)
        times = 1500  # about 94 MiB

        def serve(connection, file):
            for _ in range(times):
                connection.sendall(piece)
            connection.sendall(close(1000))
            file.read()

        self.start(serve, "[limits]\nwebsocket_record_bytes = 100_000\n")
        peer = self.peer()
        before = self.resident()
        expected = hashlib.sha256()
        got = 0
        while got < times * len(piece):
            data = peer.read(min(1 << 20, times * len(piece) - got))
            expected.update(data)
            got += len(data)
        grown = self.resident() - before
        self.assertEqual(peer.read(4), close(1000))
        expected.update(close(1000))
        leaf = self.response_leaf(peer.record)
        self.assertEqual(leaf["websocket"]["upstream"], {"bytes": got + 4, "recorded": 100_000, "frames": times + 1})
        contents = self.contents(peer.record)
        self.assertEqual(contents["websocket.upstream"], (piece * 2)[:100_000])
        self.assertEqual(json.loads(contents["websocket.upstream.digest"]),
                         {"bytes": got + 4, "sha256": expected.hexdigest()})
        self.assertLess(grown, 16 << 20)

    def resident(self):
        for line in Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) << 10
        return 0


class Capture(WebSocketTest):
    def test_levels_and_rules_hold_for_frames(self):
        def serve(connection, file):
            connection.sendall(frame(TEXT, b"the canary") + close(1000))
            file.read()

        for toml, kept in (('[[capture]]\nname = "m"\npath = "/v1/realtime"\nlevel = "metadata"\n', set()),
                           ('[[capture]]\nname = "h"\npath = "/v1/realtime"\nlevel = "hashes"\n',
                            {"websocket.client.digest", "websocket.upstream.digest"}),
                           # Frames may be compressed, and messages cut in frames: they are not searched, so not kept.
                           ('[[redact]]\nname = "r"\npatterns = ["email"]\n', {"websocket.frames"})):
            with self.subTest(toml):
                self.data = self.folder / f"data-{time.monotonic_ns()}"
                self.start(serve, toml)
                peer = self.peer()
                peer.send(close(1000, masked=True))
                peer.rest()
                self.response_leaf(peer.record)
                shown = self.run_well("log", "show", peer.record, "--contents", "--data", self.data, "--json").json
                names = {name for name in shown.get("contents") or {} if name.startswith("websocket.")}
                self.assertEqual(names, kept)
                self.assertNotIn(b"the canary", b"".join(support.contents_in(shown).values()) if names else b"")
                self.server.stop()


def messages(direction, frames, data):
    """The messages of one direction as a reader of the record finds them: put together, unmasked and unpacked."""
    window = zlib.decompressobj(-15)
    found, parts, packed = [], b"", False
    for name, offset, _, first in frames:
        if name != direction or first & 0x0F not in (0, TEXT, BINARY):
            continue
        size, at = data[offset + 1] & 0x7F, offset + 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size, at = int.from_bytes(data[at:at + width], "big"), at + width
        key = data[at:at + 4] if data[offset + 1] & 0x80 else b""
        payload = data[at + len(key):at + len(key) + size]
        if key:
            pad = (key * (size // 4 + 1))[:size]
            payload = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
        if first & 0x0F:
            packed = bool(first & 0x40)
        parts += payload
        if first & 0x80:
            found.append(window.decompress(parts + b"\0\0\xff\xff") if packed else parts)
            parts = b""
    return found


class RealClient(support.ProgramTest):
    """npm's ws on both sides of the gateway: websocket_client.mjs."""

    def talk(self):
        node = support.node_or_skip()
        (self.folder / "node_modules").symlink_to(support.NPM)
        script = self.folder / "client.mjs"
        script.write_bytes((Path(__file__).parent / "websocket_client.mjs").read_bytes())
        with subprocess.Popen([node, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            self.addCleanup(run.kill)
            port = json.loads(run.stdout.readline())["port"]
            server = self.gateway("--upstream", f"openai=http://127.0.0.1:{port}")
            run.stdin.write(f"{server.port}\n")
            run.stdin.flush()
            return {one["name"]: one for one in map(json.loads, run.stdout)}

    def test_the_ws_package_talks_through_the_gateway(self):
        talks = self.talk()
        text = ("x" * 5000 + "\u00e4\U0001f600").encode()
        large = bytes((i * 7919) >> 8 & 255 for i in range(3_000_000))
        sent = [text, b"\0\1\2", b"fragment", large, text]
        expected = {"client closes": (2, 4000, "done", "complete", {"by": "client", "code": 4000}),
                    "upstream closes": (2, 4001, "after 1 pongs", "complete", {"by": "upstream", "code": 4001}),
                    "no code": (0, 1005, "", "complete", {"by": "client", "code": 1005}),
                    "client ends": (0, 1006, "", "client_disconnect", None),
                    "upstream ends": (0, 1006, "", "upstream_truncated", None)}
        self.assertEqual(list(talks), list(expected))
        for name, (pongs, code, reason, status, closed) in expected.items():
            with self.subTest(name):
                talk = talks[name]
                self.assertEqual((talk["same"], talk["pongs"], talk["code"], talk["reason"]), (True, pongs, code, reason))
                with support.eventually() as wait:
                    leaf = wait(lambda: self.leaves(talk["record"]).get("response"), "a response leaf")
                about = leaf["websocket"]
                self.assertEqual((leaf["status"], about.get("close")), (status, closed))
                self.assertNotIn("fault", json.dumps(about))
                # Whether messages are compressed is what the two ends agreed on, and the record says so.
                agreed = "permessage-deflate" if name == "client closes" else None
                self.assertEqual((talk["extensions"] or None, about.get("compression")), (agreed, agreed))
        for name, more in (("client closes", []), ("upstream closes", [b"ping", b"close"])):
            contents = self.contents(talks[name]["record"])
            frames = json.loads(contents["websocket.frames"])
            compressed = {f[3] & 0x40 for f in frames if f[3] & 0x0F in (TEXT, BINARY)}
            self.assertEqual(compressed, {0} if more else {0x40}, name)
            self.assertEqual(messages("c", frames, contents["websocket.client"]), sent + more)
            self.assertEqual(messages("u", frames, contents["websocket.upstream"]), sent)
        self.assert_valid()


if __name__ == "__main__":
    support.main()
