"""A remote upstream behind the gateway: every byte passes in both directions, and every ending is recorded."""
import http.client
import json
import os
import socket
import threading

import support
from mock_upstream import CLOSE, RESET, MockUpstream, Reply, make_certificate
from support import UUID_V7

CHAT = {"model": "gpt-test", "messages": [{"role": "user", "content": "hello"}], "temperature": 0}
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}
ODD_JSON = (b'{ "id":"chatcmpl-1",\t"object":"chat.completion","created":1,"model":"gpt-test-0613",\r\n'
            b'"big":9007199254740993,"e":"\\u00e9\xc3\xa9","exp":1E400,"choices":[{"index":0,"finish_reason":"stop",'
            b'"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,'
            b'"total_tokens":4},"system_fingerprint":"fp_7"}')


def chunk(text, finish=None):
    return ("data: " + json.dumps({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
                                   "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})
            + "\n\n").encode()


GOOD_STREAM = [chunk("Hel"), chunk("lo"), chunk("", "stop"), b"data: [DONE]\n\n"]


class PassThrough(support.ProgramTest):
    def serve(self, answer, *flags, **more):
        self.upstream = MockUpstream(answer)
        self.addCleanup(self.upstream.close)
        return self.gateway("--upstream", f"openai={self.upstream.url}", *flags, **more)

    def response_leaf(self, record):
        with support.eventually() as wait:
            return wait(lambda: self.leaves(record).get("response"), f"a response leaf of {record}")

    def test_the_body_of_a_request_arrives_byte_for_byte(self):
        gateway = self.serve(lambda request: Reply.json(ODD_JSON))
        bodies = [b'{ "model":"gpt-test" ,"messages":[{"role":"user","content":"\\u0068i \xf0\x9f\x98\x80"}],'
                  b'"seed":9007199254740993,"temperature":0.10,"x":[1.0,1e2,-0]}\n',
                  json.dumps({**CHAT, "pad": "x" * 3_000_000}).encode()]
        for body in bodies:
            answer = gateway.post("/v1/chat/completions", body)
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(self.upstream.requests[-1].body, body)
            self.assertEqual(self.contents(answer.record)["request.body"], body)

    def test_headers_of_the_request_arrive_but_for_hop_by_hop_ones(self):
        gateway = self.serve(lambda request: Reply.json(ODD_JSON))
        sent = {"authorization": "Bearer sk-test", "OpenAI-Organization": "org-1", "x-stainless-retry-count": "0",
                "accept": "application/json", "accept-encoding": "gzip, deflate", "user-agent": "OpenAI/JS 7",
                "anthropic-beta": "a,b", "x-client-request-id": "abc", "connection": "keep-alive, x-hop",
                "x-hop": "must not pass", "te": "trailers", "idempotency-key": "k"}
        gateway.post("/v1/chat/completions", CHAT, sent)
        got = self.upstream.requests[-1]
        for name, value in sent.items():
            if name in ("connection", "x-hop", "te"):
                continue
            self.assertEqual(got.header(name), value, name)
        self.assertIsNone(got.header("x-hop"))
        self.assertEqual(got.header("host"), f"127.0.0.1:{self.upstream.port}")
        names = [name.lower() for name, _ in got.headers]
        self.assertEqual(len([n for n in names if n in ("content-length", "transfer-encoding")]), 1, names)

    def test_status_headers_and_body_of_the_answer_come_back_byte_for_byte(self):
        headers = [("x-request-id", "req_123"), ("openai-processing-ms", "12"), ("X-RateLimit-Remaining-Requests", "7"),
                   ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("openai-version", "2020-10-01")]
        gateway = self.serve(lambda request: Reply.json(ODD_JSON, headers=headers))
        answer = gateway.post("/v1/chat/completions", CHAT)
        self.assertEqual((answer.status, answer.body), (200, ODD_JSON))
        ours = [(n, v) for n, v in answer.headers if n.lower().startswith("x-verbatim-")]
        self.assertEqual(sorted(n.lower() for n, _ in ours), ["x-verbatim-cache", "x-verbatim-record"])
        theirs = [(n.lower(), v) for n, v in answer.headers if (n, v) not in ours and n.lower() not in HOP_BY_HOP]
        expected = [("content-type", "application/json"), *headers, ("content-length", str(len(ODD_JSON)))]
        self.assertEqual(sorted(theirs), sorted((n.lower(), v) for n, v in expected))
        self.assertEqual(self.contents(answer.record)["response.body"], ODD_JSON)
        said = self.response_leaf(answer.record)["upstream"]
        self.assertEqual((said["request_id"], said["system_fingerprint"]), ("req_123", "fp_7"))
        self.assertEqual(self.leaves(answer.record)["request"]["model"]["level"], "claimed")

    def test_errors_pass_unchanged_with_what_clients_retry_by(self):
        for status, text in (("400 Bad Request", '{"error":{"message":"bad","type":"invalid_request_error"}}'),
                             ("429 Too Many Requests", '{"error":{"message":"slow down","code":"rate_limit"}}'),
                             ("500 Internal Server Error", "<h1>oops</h1>"), ("529 Overloaded", "{}")):
            headers = [("retry-after", "7"), ("retry-after-ms", "20"), ("x-should-retry", "false"),
                       ("x-request-id", "r-9")]
            with MockUpstream(lambda request: Reply.json(text, status, headers)) as upstream:
                data = self.folder / status.split()[0]
                with self.gateway("--upstream", f"openai={upstream.url}", data=data) as gateway:
                    answer = gateway.post("/v1/chat/completions", CHAT)
                    again = gateway.post("/v1/chat/completions", CHAT)
                self.assertEqual(answer.status, int(status.split()[0]))
                self.assertEqual(answer.body, text.encode())
                for name, value in headers:
                    self.assertEqual(answer.header(name), value)
                self.assertEqual(len(upstream.requests), 2, "an error must not be retried or cached by the gateway")
                self.assertNotEqual(again.cache, "hit")
                leaf = self.leaves(answer.record, data)["response"]
                self.assertEqual((leaf["status"], leaf["http_status"]), ("upstream_error", answer.status))

    def test_a_stream_passes_byte_for_byte_whatever_its_framing(self):
        odd = [b"\xef\xbb\xbf", b": a comment\n\n", b"event: ping\r\ndata: {}\r\n\r\n", chunk("\u00e9")[:30],
               chunk("\u00e9")[30:], b"data:no space\n\n", *GOOD_STREAM]
        gateway = self.serve(lambda request: Reply.events(odd))
        answer = gateway.post("/v1/chat/completions", {**CHAT, "stream": True})
        self.assertEqual(answer.body, b"".join(odd))
        self.assertTrue(answer.complete)
        self.assertEqual(answer.header("content-type"), "text/event-stream")
        self.assertEqual(self.contents(answer.record)["response.body"], b"".join(odd))

    def test_a_line_of_16_mib_in_a_stream_passes(self):
        line = b'data: {"image":"' + b"A" * (16 << 20) + b'"}\n\n'
        gateway = self.serve(lambda request: Reply.events([line, *GOOD_STREAM]))
        answer = gateway.post("/v1/chat/completions", {**CHAT, "stream": True}, timeout=120)
        self.assertEqual(len(answer.body), len(line) + sum(map(len, GOOD_STREAM)))
        self.assertEqual(answer.body[: len(line)], line)

    def test_events_are_not_held_back(self):
        gateway = self.serve(lambda request: Reply.events([chunk("first"), 1.5, *GOOD_STREAM]))
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "stream": True}))
        response = connection.getresponse()
        connection.sock.settimeout(1.2)
        self.assertEqual(response.read1(65536), chunk("first"))
        connection.sock.settimeout(30)
        self.assertEqual(response.read(), b"".join(GOOD_STREAM))

    def test_an_upstream_that_is_cut_off_never_looks_complete(self):
        cuts = {"reset": [chunk("Hel"), 0.1, RESET], "closed": [chunk("Hel"), 0.1, CLOSE]}
        for name, steps in cuts.items():
            with MockUpstream(lambda request: Reply.events(steps)) as upstream:
                data = self.folder / name
                gateway = self.gateway("--upstream", f"openai={upstream.url}", data=data)
                answer = gateway.post("/v1/chat/completions", {**CHAT, "stream": True})
                self.assertTrue(answer.body.startswith(chunk("Hel")), answer.body)
                self.assertNotIn(b"[DONE]", answer.body)
                if answer.complete:
                    self.assertIn(b'"error"', answer.body, "a clean end without an error event")
                again = gateway.post("/v1/chat/completions", {**CHAT, "stream": True})
                self.assertNotEqual(again.cache, "hit")
                with support.eventually() as wait:
                    leaf = wait(lambda: self.leaves(answer.record, data).get("response"))
                self.assertEqual(leaf["status"], "upstream_truncated")
                self.assertTrue(leaf["error"]["kind"])
                self.assertEqual(self.contents(answer.record, data)["response.body"][: len(chunk("Hel"))], chunk("Hel"))

    def test_a_body_shorter_than_its_content_length_is_truncated(self):
        reply = Reply("200 OK", [("content-type", "application/json"), ("content-length", "5000")], [b'{"a":1', CLOSE],
                      "close")
        gateway = self.serve(lambda request: reply)
        answer = gateway.post("/v1/chat/completions", CHAT)
        self.assertFalse(answer.status == 200 and answer.complete)
        self.assertIn(self.response_leaf(answer.record)["status"], ("upstream_truncated", "upstream_error"))

    def test_an_upstream_that_cannot_be_reached_is_a_502_in_the_shape_of_the_api(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # bound, not listening: refused
            gateway = self.gateway("--upstream", f"openai=http://127.0.0.1:{nobody.getsockname()[1]}")
            answer = gateway.post("/v1/chat/completions", CHAT)
        self.assertEqual(answer.status, 502, answer.body)
        self.assertIn("upstream openai cannot be reached", answer.json["error"]["message"])
        self.assertRegex(answer.record, UUID_V7)
        leaf = self.response_leaf(answer.record)
        self.assertEqual((leaf["status"], leaf["http_status"]), ("upstream_error", 502))
        self.assertIn(f"upstream openai failed: upstream_error, connect (record {answer.record})", gateway.log_tail())

    def test_what_is_no_http_from_the_upstream_is_a_502(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        def babble():
            for _ in range(4):
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\nthis is not HTTP\r\n\r\n")

        threading.Thread(target=babble, daemon=True).start()
        gateway = self.gateway("--upstream", f"openai=http://127.0.0.1:{listener.getsockname()[1]}")
        answer = gateway.post("/v1/chat/completions", CHAT)
        self.assertEqual(answer.status, 502, answer.body)
        self.assertEqual(self.response_leaf(answer.record)["status"], "upstream_error")

    def test_a_client_that_leaves_is_recorded_and_the_upstream_is_let_go(self):
        gateway = self.serve(lambda request: Reply.events([chunk("a")] + [0.05, chunk("b")] * 400))
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
        connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "stream": True}))
        response = connection.getresponse()
        record = response.getheader("x-verbatim-record")
        response.read1(10)
        response.close()
        connection.close()
        leaf = self.response_leaf(record)
        self.assertEqual(leaf["status"], "client_disconnect")
        with support.eventually() as wait:
            wait(lambda: self.upstream.disconnects == 1, "the upstream's connection closed")

    def test_connections_to_the_upstream_are_kept_and_used_again(self):
        gateway = self.serve(lambda request: Reply.json(ODD_JSON))
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
        self.addCleanup(connection.close)
        for i in range(10):
            connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "max_tokens": i + 1}))
            self.assertEqual(connection.getresponse().read(), ODD_JSON)
        self.assertEqual(len(self.upstream.requests), 10)
        self.assertEqual(self.upstream.connections, 1)

    def test_an_idle_connection_that_the_upstream_closed_costs_no_request(self):
        gateway = self.serve(lambda request: Reply.json(ODD_JSON))
        for i in range(5):
            answer = gateway.post("/v1/chat/completions", {**CHAT, "max_tokens": i + 1})
            self.assertEqual(answer.status, 200, answer.body)
            self.upstream.close_connections()  # as an idle time-out does
        self.assertEqual(len(self.upstream.requests), 5)

    def test_the_version_in_a_base_url_is_never_doubled(self):
        with MockUpstream(lambda request: Reply.json(ODD_JSON)) as upstream:
            for name, base in (("plain", upstream.url), ("v1", upstream.url + "/v1"), ("slash", upstream.url + "/v1/")):
                with self.gateway("--upstream", f"openai={base}", data=self.folder / name) as gateway:
                    gateway.post("/v1/chat/completions?x=1", CHAT)
                self.assertEqual(upstream.requests[-1].target, "/v1/chat/completions?x=1")

    def test_the_dialect_decides_between_two_upstreams(self):
        with MockUpstream(lambda r: Reply.json('{"openai":1}')) as one, \
                MockUpstream(lambda r: Reply.json('{"anthropic":1}')) as two:
            gateway = self.gateway("--upstream", f"openai={one.url}", "--upstream", f"anthropic={two.url}")
            gateway.post("/v1/messages", CHAT, {"anthropic-version": "2026-10-21"})
            gateway.post("/v1/chat/completions", CHAT)
            self.assertEqual([r.target for r in one.requests], ["/v1/chat/completions"])
            self.assertEqual([r.target for r in two.requests], ["/v1/messages"])
            self.assertEqual(two.requests[0].header("anthropic-version"), "2026-10-21")

    def test_other_paths_pass_through_and_are_recorded(self):
        gateway = self.serve(lambda request: Reply.json('{"object":"list","data":[]}'))
        for method, path in (("GET", "/v1/files?limit=2"), ("POST", "/v1/embeddings"), ("DELETE", "/v1/files/f-1")):
            answer = gateway.request(method, path, b'{"input":"x"}' if method == "POST" else None)
            self.assertEqual(answer.status, 200)
            self.assertEqual((self.upstream.requests[-1].method, self.upstream.requests[-1].target), (method, path))
            self.assertEqual(self.leaves(answer.record)["request"]["route"]["target"], path)

    def test_a_greedy_repeat_is_a_hit_and_concurrent_misses_coalesce(self):
        from concurrent.futures import ThreadPoolExecutor

        gateway = self.serve(lambda request: Reply.events([0.4, *GOOD_STREAM]) if b"stream" in request.body
                             else Reply("200 OK", [("content-type", "application/json")], [0.4, ODD_JSON]))
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: gateway.post("/v1/chat/completions", CHAT), range(8)))
        self.assertEqual({answer.body for answer in answers}, {ODD_JSON})
        self.assertEqual(len({answer.record for answer in answers}), 8)
        self.assertEqual(len(self.upstream.requests), 1)
        self.assertEqual(gateway.post("/v1/chat/completions", CHAT).cache, "hit")
        self.assert_valid()

    def test_requests_that_could_be_read_in_two_ways_are_refused(self):
        gateway = self.serve(lambda request: Reply.json(ODD_JSON))
        smuggles = [
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: +4\r\n\r\nabcd",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        ]
        for bytes_sent in smuggles:
            with socket.create_connection((gateway.host, gateway.port), 10) as peer:
                peer.sendall(bytes_sent)
                peer.shutdown(socket.SHUT_WR)
                got = b""
                while data := peer.recv(65536):
                    got += data
            if got:
                self.assertIn(got.split(b" ")[1], (b"400", b"501"), got[:200])
        self.assertEqual(self.upstream.requests, [])
        self.assertEqual(gateway.post("/v1/chat/completions", CHAT).status, 200)

    def test_https_upstreams_are_used_only_with_a_certificate_that_verifies(self):
        context, certificate = make_certificate(self.folder)
        with MockUpstream(lambda request: Reply.json(ODD_JSON), context) as upstream:
            flags = ("--upstream", f"openai={upstream.url}")
            with self.gateway(*flags, data=self.folder / "trusted", env={"SSL_CERT_FILE": certificate}) as gateway:
                answer = gateway.post("/v1/chat/completions", CHAT)
                self.assertEqual((answer.status, answer.body), (200, ODD_JSON))
            seen = len(upstream.requests)
            with self.gateway(*flags, data=self.folder / "untrusted") as gateway:
                self.assertEqual(gateway.post("/v1/chat/completions", CHAT).status, 502)
            self.assertEqual(len(upstream.requests), seen, "a request went to an upstream that did not verify")
        os.mkdir(self.folder / "other")
        context, certificate = make_certificate(self.folder / "other", "example.org")
        with MockUpstream(lambda request: Reply.json(ODD_JSON), context) as upstream:
            with self.gateway("--upstream", f"openai={upstream.url}", data=self.folder / "name",
                              env={"SSL_CERT_FILE": certificate}) as gateway:
                self.assertEqual(gateway.post("/v1/chat/completions", CHAT).status, 502)
            self.assertEqual(upstream.requests, [])

    def test_sigterm_lets_a_running_stream_finish(self):
        gateway = self.serve(lambda request: Reply.events([chunk("a"), 1.0, *GOOD_STREAM]))
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=30)
        connection.request("POST", "/v1/chat/completions", json.dumps({**CHAT, "stream": True}))
        response = connection.getresponse()
        record = response.getheader("x-verbatim-record")
        response.read1(10)
        gateway.process.terminate()
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        self.assertEqual(gateway.process.wait(30), 0)
        self.assertEqual(self.leaves(record)["response"]["status"], "complete")
        self.assert_valid()


if __name__ == "__main__":
    support.main()
