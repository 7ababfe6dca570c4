"""Requests with a content coding: they pass byte for byte, and what they ask for is known all the same."""
import gzip
import json
import subprocess
import zlib

import support
from faults import CHAT, CHAT_PATH, FaultTest
from mock_upstream import Reply

WHOLE = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]})
GREEDY = json.dumps({**CHAT, "temperature": 0}).encode()


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstd(data):
    """By the program of that name; absent where it is not installed."""
    try:
        return subprocess.run(["zstd", "-c", "-q"], input=data, capture_output=True, check=True).stdout
    except FileNotFoundError:
        return None


def uncompressed_brotli(data):
    """RFC 7932: one metablock that is not compressed (section 9.2), and an empty last one."""
    assert 0 < len(data) <= 65536
    window = [(0, 1)]  # WBITS 16
    header = window + [(0, 1), (0, 2), (len(data) - 1, 16), (1, 1)]
    value = bits = 0
    for number, width in header:
        value |= number << bits
        bits += width
    return value.to_bytes((bits + 7) // 8, "little") + data + b"\x03"


class CompressedRequests(FaultTest):
    scripts = {"whole": lambda request: Reply.json(WHOLE)}
    toml = "[limits]\ndecoded_bytes_max = 100_000\n"

    def ask_coded(self, coding, body, **more):
        return self.ask("whole", body, headers={"content-encoding": coding, **more})

    def codings(self, body):
        yield "gzip", gzip.compress(body)
        yield "deflate", zlib.compress(body)
        yield "deflate", raw_deflate(body)
        yield "br", uncompressed_brotli(body)
        yield "gzip, deflate", zlib.compress(gzip.compress(body))
        if packed := zstd(body):
            yield "zstd", packed

    def test_they_pass_as_they_are_and_are_read(self):
        for number, (coding, packed) in enumerate(self.codings(GREEDY)):
            with self.subTest(coding):
                answer = self.ask_coded(coding, packed)
                self.assertEqual((answer.status, answer.body), (200, WHOLE.encode()))
                leaf = self.leaves(answer.record)["request"]
                self.assertEqual((leaf["model"]["requested"], leaf["params"]["temperature"], leaf["determinism"]),
                                 ("m", "0", "greedy"))
                self.assertEqual(leaf["coding"], {"name": coding})
                self.assertEqual(self.contents(answer.record)["request.body"], packed)
                # One question, however it is packed.
                self.assertEqual(answer.cache, "miss" if number == 0 else "hit")
        self.assertEqual(self.ask("whole", GREEDY).cache, "hit")
        self.assertEqual(len(self.upstream.requests), 1)
        sent = self.upstream.requests[0]
        self.assertEqual(sent.header("content-encoding"), "gzip")
        self.assertEqual(gzip.decompress(sent.body), GREEDY)

    def test_a_bomb_is_refused_before_it_is_unpacked(self):
        bomb = gzip.compress(b'{"model":"m","x":"' + b"0" * 50_000_000 + b'"}')
        for coding, body in (("gzip", bomb), ("gzip, gzip", gzip.compress(bomb))):
            answer = self.ask_coded(coding, body)
            self.assertEqual((answer.status, answer.json["error"]["code"]),
                             (413, "request_body_too_large_after_decoding"))
            leaves = self.leaves(answer.record)
            self.assertEqual(leaves["request"]["coding"], {"name": coding, "unread": "too_large"})
            self.assertEqual(leaves["response"]["status"], "rejected")
        self.assertEqual(self.upstream.requests, [])

    def test_what_cannot_be_unpacked_passes_and_is_recorded_as_unread(self):
        for coding, body, why in (("gzip", gzip.compress(GREEDY)[:-5], "broken"), ("gzip", GREEDY, "broken"),
                                  ("zstd", b"\x28\xb5\x2f\xfd\x00", "broken"), ("br", b"\xff" * 9, "broken"),
                                  ("snappy", GREEDY, "unsupported"), ("gzip," * 9, GREEDY, "unsupported")):
            with self.subTest(coding=coding, why=why):
                answer = self.ask_coded(coding, body)
                self.assertEqual(answer.status, 200)
                self.assertEqual(self.upstream.requests[-1].body, body)
                leaf = self.leaves(answer.record)["request"]
                self.assertEqual(leaf["coding"]["unread"], why)
                self.assertNotIn("requested", leaf["model"])
                self.assertEqual(answer.cache, "bypass")

    def test_streams_asked_for_in_a_packed_request_come_as_streams(self):
        body = gzip.compress(json.dumps({**CHAT, "stream": True, "temperature": 0}).encode())
        first = self.ask("whole", GREEDY)
        self.assertEqual(first.cache, "miss")
        answer = self.ask_coded("gzip", body)
        self.assertEqual(answer.cache, "hit")
        self.assertTrue(answer.header("content-type").startswith("text/event-stream"))
        self.assertTrue(answer.body.endswith(b"data: [DONE]\n\n"))


class KeysAndModels(support.ProgramTest):
    def test_a_list_of_models_holds_for_packed_requests(self):
        key = self.run_well("gateway", "--new-key", "one", "--json").json
        config = self.folder / "c.toml"
        config.write_text(f'[[key]]\nname = "one"\nhash = "{key["hash"]}"\nmodels = ["demo"]\n'
                          f'[[model]]\nname = "demo"\npath = "{support.DEMO_MODEL}"\n')
        server = self.gateway("--config", config)
        allowed = support.chat("What is a hash?", temperature=0, max_tokens=2)

        def ask(body, **headers):
            return server.post(CHAT_PATH, gzip.compress(json.dumps(body).encode()),
                               {"content-encoding": "gzip", "authorization": f"Bearer {key['key']}", **headers})

        answer = ask(allowed)
        self.assertEqual(answer.status, 200, answer.body)
        refused = ask({**allowed, "model": "other"})
        self.assertEqual((refused.status, refused.json["error"]["code"]), (403, "model_not_allowed"))
        # Nothing is unpacked for strangers.
        stranger = ask(allowed, authorization="Bearer vb-00000000-none")
        self.assertEqual((stranger.status, stranger.json["error"]["code"]), (401, "unknown_key"))
        self.assertEqual(self.leaves(stranger.record)["request"]["coding"]["unread"], "unknown_key")
        report = self.run_well("replay", "--id", answer.record, "--data", self.data, "--json").json
        self.assertEqual(report["records"][0]["verdict"], "BITWISE")


if __name__ == "__main__":
    support.main()
