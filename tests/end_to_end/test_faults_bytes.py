"""Known faults of gateways, by kind: bytes that change on their way, and HTTP that is read in two ways.

Numbers are those of docs/gateway-faults.md.
"""
import gzip
import http.client
import json
import zlib

import support
from faults import CHAT, CHAT_PATH, DONE, MESSAGES_PATH, FaultTest, chat_chunk, data
from mock_upstream import CLOSE, RESET, Reply

GATEWAYS_OWN = {"x-verbatim-record", "x-verbatim-cache", "cache-control", "x-accel-buffering"}
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}
WHOLE = json.dumps({"id": "c", "object": "chat.completion", "model": "m-7", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}).encode()
STREAM = b"".join([chat_chunk("hi"), chat_chunk(None, "stop"), DONE])
RATE_HEADERS = [("x-request-id", "req_9"), ("retry-after", "7"), ("retry-after-ms", "20"), ("x-should-retry", "true"),
                ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-requests", "1s"),
                ("anthropic-ratelimit-requests-remaining", "0"), ("request-id", "req_a"),
                ("openai-processing-ms", "12"), ("openai-version", "2020-10-01"), ("openai-organization", "org"),
                ("x-lower", "\xe9"), ("X-Twice", "1"), ("X-Twice", "2")]


def error(message, kind="invalid_request_error"):
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


def typed(body, kind, status="200 OK", headers=()):
    return Reply(status, [("content-type", kind), *headers], [body if isinstance(body, bytes) else body.encode()])


def coded(body, coding, kind="application/json"):
    packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    return typed(packed, kind, headers=[("content-encoding", coding)])


# Name (with the numbers of the faults) -> what the upstream answers. Each must reach the client as it is.
UNCHANGED = {
    "400 with its message (51)": Reply.json(error("max_tokens is odd"), "400 Bad Request"),
    "429 with its headers (50, 62)": Reply.json(error("slow down", "rate_limit"), "429 Too Many Requests", RATE_HEADERS),
    "529 of an overloaded provider": Reply.json('{"type":"error"}', "529 Overloaded", RATE_HEADERS),
    "500 that is no JSON": typed("<h1>oops</h1>", "text/html", "500 Internal Server Error"),
    "418 without a body": Reply("418 I'm a teapot", [("x-a", "b")], []),
    "200 that says error": Reply.json(error("late")),
    "JSON labelled as text": typed(WHOLE, "text/plain"),
    "events labelled as JSON": typed(STREAM, "application/json"),
    "no content type at all": Reply("200 OK", [], [WHOLE]),
    "numbers, escapes, blanks and order (63, 64)": Reply.json(
        '{ "z":9007199254740993,"a":\t0.10,"e":1E400,"u":"\\u00e9\\/","a":[ ]}\r\n'),
    "a float array (67)": Reply.json(json.dumps({"data": [{"embedding": [0.1, -2e-9, 1.0]}]})),
    "a base64 array (67)": Reply.json('{"data":[{"embedding":"zczMPQAAgL8="}]}'),
    "bytes of no encoding": typed(bytes(range(256)) * 64, "audio/mpeg"),
    "gzip (58)": coded(WHOLE, "gzip"),
    "deflate (58)": coded(WHOLE, "deflate"),
    "a gzip stream (59)": coded(STREAM, "gzip", "text/event-stream"),
    "a coding that nobody knows": typed(b"\x00\x01", "application/json", headers=[("content-encoding", "x-odd")]),
    "gzip that is none": typed(WHOLE, "application/json", headers=[("content-encoding", "gzip")]),
    "chunks": Reply("200 OK", [("content-type", "application/json")], [WHOLE[:9], WHOLE[9:]], "chunked"),
    "to the end of the connection": Reply("200 OK", [("content-type", "application/json")], [WHOLE], "close"),
}

GOOD = [chat_chunk("h\u00e9"), chat_chunk(None, "stop"), DONE]
# Steps of an event stream. Each must reach the client as it is, whatever its SDK makes of it.
STREAMS = {
    "good": GOOD,
    "byte by byte (55)": [bytes([byte]) for byte in b"".join(GOOD)],
    "CRLF": [b"".join(GOOD).replace(b"\n", b"\r\n")],
    "CR": [b"".join(GOOD).replace(b"\n", b"\r")],
    "a byte order mark": [b"\xef\xbb\xbf", *GOOD],
    "no blank after the colon": [b"".join(GOOD).replace(b"data: ", b"data:")],
    "comments (52, 53)": [b": a\n", b": b\n\n", GOOD[0], b":\n\n", *GOOD[1:]],
    "retry, id and unknown fields": [b"retry: 5\nid: 7\nx: y\n\n", *GOOD],
    "an event in two data lines": [b'data: {"choices":\ndata: []}\n\n', *GOOD],
    "usage in every form (37)": [chat_chunk("a", usage=None), *GOOD],
    "events after the end": [*GOOD, data({"late": True})],
    "no [DONE], but a reason to finish": GOOD[:2],
    "[DONE] twice": [*GOOD, DONE],
    "an error in the middle (48)": [GOOD[0], data({"error": {"message": "boom"}})],
    "an error event (48)": [GOOD[0], data({"type": "error", "error": {"type": "overloaded_error"}}, "error")],
    "JSON behind the events (47)": [*GOOD, error("late").encode() + b"\n"],
    "a line of 4 MB (56)": [data({"image": "A" * (4 << 20)}), *GOOD],
    "padding": [chat_chunk("a", obfuscation="xyz"), *GOOD],
}


class Unchanged(FaultTest):
    scripts = {**{name: lambda request, reply=reply: reply for name, reply in UNCHANGED.items()},
               **{name: lambda request, steps=steps: Reply.events(steps) for name, steps in STREAMS.items()}}

    def test_answers_reach_the_client_and_the_record_as_they_are(self):
        records = {}
        for name, reply in UNCHANGED.items():
            for path in (CHAT_PATH, MESSAGES_PATH, "/v1/anything"):
                with self.subTest(name, path=path):
                    answer = self.ask(name, {**CHAT, "stream": "stream" in name}, path)
                    self.assertEqual(f"{answer.status}", reply.status.split()[0])
                    self.assertEqual(answer.body, reply.body())
                    self.assertTrue(answer.complete)
                    theirs = [(n, v) for n, v in answer.headers if n.lower() not in GATEWAYS_OWN | HOP_BY_HOP]
                    sent = [(n, v) for n, v in reply.headers]
                    if reply.framing == "length":
                        sent.append(("content-length", str(len(reply.body()))))
                    self.assertEqual(theirs, sent)
                    records[answer.record] = (reply.body(), path, name)
        for record, (body, path, name) in records.items():
            with self.subTest(name, path=path):
                self.assertEqual(self.contents(record).get("response.body", b""), body)

    def test_what_a_compressed_answer_says_is_recorded(self):
        for name in ("gzip (58)", "deflate (58)"):
            leaf = self.response_leaf(self.ask(name).record)
            self.assertEqual(leaf["usage"], {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}, name)
            self.assertEqual(leaf["upstream"]["model"], "m-7")
        leaf = self.response_leaf(self.ask("a gzip stream (59)", {**CHAT, "stream": True}).record)
        self.assertEqual((leaf["status"], leaf["finish"]), ("complete", ["stop"]))

    def test_streams_reach_the_client_and_the_record_as_they_are(self):
        records = {}
        for name, steps in STREAMS.items():
            with self.subTest(name):
                answer = self.ask(name, {**CHAT, "stream": True})
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.body, b"".join(steps))
                self.assertTrue(answer.complete)
                self.assertEqual(answer.header("x-accel-buffering"), "no")
                self.assertEqual(answer.header("cache-control"), "no-cache")
                records[answer.record] = b"".join(steps)
        for record, body in records.items():
            self.assertEqual(self.contents(record)["response.body"], body)


class Requests(FaultTest):
    scripts = {"ok": lambda request: Reply.json(WHOLE),
               "head": lambda request: Reply.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n")}

    def test_requests_reach_the_upstream_as_they_are(self):
        bodies = {
            "odd JSON (63, 64)": b' {"seed":9007199254740993 , "x":1.0e0,"messages":[],"model":"m","u":"\\u00e9\xc3\xa9"}\n',
            "no JSON": b"\x00\xff not JSON",
            "nothing": b"",
            "multipart": b"--b\r\ncontent-disposition: form-data; name=file; filename=a\r\n\r\n\x00\x01\r\n--b--\r\n",
            "compressed": gzip.compress(json.dumps(CHAT).encode()),
        }
        headers = {
            "versions and betas (60, 61)": {"anthropic-version": "2026-10-21", "anthropic-beta": "a-1,b-2"},
            "old version": {"anthropic-version": "2023-06-01", "x-api-key": "sk-1"},
            "SDK headers": {"x-stainless-retry-count": "1", "x-stainless-helper-method": "stream",
                            "OpenAI-Organization": "o", "X-Client-Request-Id": "c-1", "idempotency-key": "i"},
            "tracing": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"},
            "coding": {"content-encoding": "gzip"},
        }
        for body_name, body in bodies.items():
            for header_name, sent in headers.items():
                for path in (CHAT_PATH, MESSAGES_PATH, "/v1/files"):
                    with self.subTest(body_name, headers=header_name, path=path):
                        if header_name == "coding" and body_name != "compressed":
                            continue
                        answer = self.ask("ok", body, path, sent)
                        self.assertEqual(answer.status, 200, answer.body)
                        got = self.upstream.requests[-1]
                        self.assertEqual(got.body, body)
                        for name, value in sent.items():
                            self.assertEqual(got.header(name), value)
                        framings = [n for n, _ in got.headers if n.lower() in ("content-length", "transfer-encoding")]
                        self.assertLessEqual(len(framings), 1, got.headers)

    def test_a_chunked_request_goes_on_with_one_length(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", CHAT_PATH, iter([b'{"a"', b":1}"]), {"x-script": "ok"}, encode_chunked=True)
        self.assertEqual(connection.getresponse().read(), WHOLE)
        got = self.upstream.requests[-1]
        self.assertEqual(got.body, b'{"a":1}')
        self.assertEqual([v for n, v in got.headers if n.lower() == "content-length"], ["7"])
        self.assertIsNone(got.header("transfer-encoding"))

    def test_requests_that_could_be_read_in_two_ways_go_nowhere(self):
        head = b"POST /v1/chat/completions HTTP/1.1\r\nx-script: ok\r\n"
        host = head + b"host: x\r\n"
        smuggles = {
            "length and chunks (65)": host + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "a list of lengths": host + b"content-length: 2, 2\r\n\r\n{}",
            "two lengths": host + b"content-length: 2\r\ncontent-length: 4\r\n\r\n{}{}",
            "two equal lengths": host + b"content-length: 2\r\ncontent-length: 2\r\n\r\n{}",
            "two codings": host + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "no host": head + b"content-length: 2\r\n\r\n{}",
            "two hosts": host + b"host: y\r\ncontent-length: 2\r\n\r\n{}",
            "a URL with a password": b"POST http://u:pw@evil/v1/x HTTP/1.1\r\nhost: x\r\nx-script: ok\r\ncontent-length: 2\r\n\r\n{}",
            "another scheme": b"POST ftp://evil/v1/x HTTP/1.1\r\nhost: x\r\nx-script: ok\r\ncontent-length: 2\r\n\r\n{}",
            "a tunnel": b"CONNECT evil:443 HTTP/1.1\r\nhost: evil:443\r\nx-script: ok\r\n\r\n",
            "an echo": b"TRACE /v1/x HTTP/1.1\r\nhost: x\r\nx-script: ok\r\n\r\n",
            "options of the server": b"OPTIONS * HTTP/1.1\r\nhost: x\r\nx-script: ok\r\n\r\n",
            "a fragment": b"POST /v1/x#y HTTP/1.1\r\nhost: x\r\nx-script: ok\r\ncontent-length: 2\r\n\r\n{}",
            "a method in small letters": b"post /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-script: ok\r\ncontent-length: 2\r\n\r\n{}",
            "a folded coding": host + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
            "a blank before the colon": host + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
            "a line feed alone": host + b"x: a\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "a carriage return alone": host + b"x: a\rtransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "a NUL in a value": host + b"x: a\0b\r\ncontent-length: 2\r\n\r\n{}",
            "chunks in HTTP/1.0": host.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "a length with a sign": host + b"content-length: +2\r\n\r\n{}",
            "a chunk of 2 to the 64": host + b"transfer-encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
            "a line feed in a chunk's extension": host + b'transfer-encoding: chunked\r\n\r\n2;a="\n"\r\n{}\r\n0\r\n\r\n',
            "an extension without end": host + b"transfer-encoding: chunked\r\n\r\n2;" + b"a" * 140_000,
            "a length behind the chunks": host + b"transfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 5\r\n\r\n",
            "a host with a path": head + b"host: x/y\r\ncontent-length: 2\r\n\r\n{}",
            "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        }
        for name, sent in smuggles.items():
            with self.subTest(name):
                peer = self.wire()
                peer.sendall(sent)
                response = http.client.HTTPResponse(peer)
                response.begin()
                response.read()
                self.assertIn(response.status, (400, 431, 501, 505))
                record = response.getheader("x-verbatim-record")
                self.assertEqual(self.response_leaf(record)["status"], "rejected")
        self.assertEqual(self.upstream.requests, [])

    def test_a_target_that_is_a_url_is_the_path_in_it(self):
        peer = self.wire()
        peer.sendall(b"\r\nPOST HTTP://elsewhere.example:81/v1/chat/completions?a=http://b/ HTTP/1.1\r\nhost: x\r\nx-script: ok\r\n"
                     b"content-length: 2\r\n\r\n{}")
        response = http.client.HTTPResponse(peer)
        response.begin()
        self.assertEqual(response.read(), WHOLE)
        got = self.upstream.requests[-1]
        self.assertEqual((got.target, got.header("host")),
                         ("/v1/chat/completions?a=http://b/", self.upstream.url.removeprefix("http://")))
        record = response.getheader("x-verbatim-record")
        route = self.leaves(record)["request"]["route"]
        self.assertEqual((route["api"], route["target"]), ("openai.chat", "/v1/chat/completions?a=*"))
        contents = self.contents(record)
        self.assertEqual(contents["request.target"].decode(), got.target)
        headers = dict(json.loads(contents["request.headers"]))
        self.assertEqual(headers["host"], "elsewhere.example:81")

    def test_the_answer_to_head_has_a_length_and_no_body_and_the_connection_goes_on(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        self.addCleanup(connection.close)
        for path in ("/v1/models", "/v1/models/m", "/v1/anything", CHAT_PATH):
            connection.request("HEAD", path, headers={"x-script": "head"})
            response = connection.getresponse()
            self.assertEqual((response.status, response.read(), response.getheader("content-length")), (200, b"", "5000"))
            leaf = self.response_leaf(response.getheader("x-verbatim-record"))
            self.assertEqual((leaf["status"], leaf["http_status"]), ("complete", 200))


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
# Answers that are none, or end too early. No client may take one for a whole answer.
BROKEN = {
    "closed before any byte": Reply.raw(CLOSE),
    "reset before any byte": Reply.raw(RESET),
    "closed in the head": Reply.raw(b"HTTP/1.1 200 OK\r\ncontent-ty", CLOSE),
    "closed after the head (49)": Reply.raw(HEAD + b"content-length: 9\r\n\r\n", CLOSE),
    "closed in the body": Reply.raw(HEAD + b"content-length: 9\r\n\r\n{", 0.1, CLOSE),
    "reset in the body": Reply.raw(HEAD + b"content-length: 9\r\n\r\n{", 0.1, RESET),
    "closed in a chunk (45)": Reply.raw(EVENTS + b"20\r\ndata: 1\n\n", 0.1, CLOSE),
    "closed in a chunk's length (45)": Reply.raw(EVENTS + b"9\r\ndata: 1\n\n\r\n2", 0.1, CLOSE),
    "closed between chunks (45)": Reply.raw(EVENTS + b"9\r\ndata: 1\n\n\r\n", 0.1, CLOSE),
    "reset between chunks (45)": Reply.raw(EVENTS + b"9\r\ndata: 1\n\n\r\n", 0.1, RESET),
    "ended for HTTP only (46)": Reply.raw(EVENTS + b"9\r\ndata: 1\n\n\r\n", 0.1, b"0\r\n\r\n"),
    "a chunk without a length": Reply.raw(EVENTS + b"zz\r\n", CLOSE),
    "two lengths": Reply.raw(HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}", CLOSE),
    "a list of lengths": Reply.raw(HEAD + b"content-length: 2, 2\r\n\r\n{}", CLOSE),
    "length and chunks": Reply.raw(HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", CLOSE),
    "a second transfer coding": Reply.raw(HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", CLOSE),
    "status 099": Reply.raw(b"HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\n{}", CLOSE),
    "status 101": Reply.raw(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", CLOSE),
    "no HTTP": Reply.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", CLOSE),
    "a head without end": Reply.raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20000, CLOSE),
}


class Broken(FaultTest):
    scripts = {name: lambda request, reply=reply: reply for name, reply in BROKEN.items()}

    def test_no_broken_answer_looks_whole(self):
        records = {}
        for name in BROKEN:
            for path in (CHAT_PATH, MESSAGES_PATH):
                with self.subTest(name, path=path):
                    try:
                        answer = self.ask(name, {**CHAT, "stream": True, "temperature": 0}, path)
                    except (ConnectionError, http.client.HTTPException):
                        continue  # cut where no head had come: no answer at all
                    whole = answer.status == 200 and answer.complete
                    self.assertFalse(whole, answer.body)
                    self.assertNotIn(b"[DONE]", answer.body)
                    self.assertNotIn(b"message_stop", answer.body)
                    if answer.status != 200:
                        self.assertTrue(answer.complete)
                        self.assertTrue(answer.json["error"]["message"])
                        self.assertEqual("request_id" in answer.json, path == MESSAGES_PATH)
                    records[answer.record] = name
        self.assertEqual(len(records), 2 * len(BROKEN))
        for record, name in records.items():
            leaf = self.response_leaf(record)
            self.assertIn(leaf["status"], ("upstream_error", "upstream_truncated"), name)
            self.assertTrue(leaf["error"]["kind"], name)
            self.assertNotIn("canonical", leaf)
        self.assert_valid()


if __name__ == "__main__":
    support.main()
