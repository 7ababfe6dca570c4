"""Comments of the gateway's own in a stream that is silent: for the client alone, and nothing is put off by them."""
import json
import socket
import time

import support
from faults import CHAT, CHAT_PATH, DONE, FaultTest, chat_chunk
from mock_upstream import CLOSE, Reply

SILENCE = 0.9
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class QuietStreams(FaultTest):
    toml = "[timeouts]\nkeep_alive_comment_ms = 100\nidle_ms = 2000\n"
    scripts = {
        "silent": lambda request: Reply.events([chat_chunk("a"), SILENCE, chat_chunk(None, "stop"), DONE]),
        "mid_line": lambda request: Reply.events([chat_chunk("a")[:20], SILENCE, chat_chunk("a")[20:] +
                                                  chat_chunk(None, "stop"), DONE]),
        "mid_event": lambda request: Reply.events([b"event: x\n", SILENCE, b"data: {}\n\n" + chat_chunk(None, "stop"), DONE]),
        "head_only": lambda request: Reply.raw(HEAD, SILENCE, chunk(chat_chunk(None, "stop") + DONE) + b"0\r\n\r\n"),
        "never": lambda request: Reply.events([chat_chunk("a"), 30.0]),
        "length": lambda request: Reply("200 OK", [("content-type", "text/event-stream")],
                                        [chat_chunk("a"), SILENCE, chat_chunk(None, "stop"), DONE]),
        "json": lambda request: Reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                                          b"transfer-encoding: chunked\r\n\r\n" + chunk(b"{"), SILENCE,
                                          chunk(b"}") + b"0\r\n\r\n"),
        "cut": lambda request: Reply.events([chat_chunk("a"), SILENCE, CLOSE]),
    }

    def lines_of(self, answer):
        return answer.body.split(b"\n")

    def test_a_silent_stream_has_comments_that_are_in_no_record(self):
        for script in ("silent", "mid_event"):
            with self.subTest(script):
                answer = self.ask(script, {**CHAT, "stream": True})
                comments = [line for line in self.lines_of(answer) if line == b":"]
                self.assertGreaterEqual(len(comments), 2)
                sent = type(self).scripts[script](None).body()
                self.assertEqual(answer.body.replace(b":\n", b"", len(comments)) if script == "silent" else
                                 b"\n".join(line for line in self.lines_of(answer) if line != b":"), sent)
                leaf = self.response_leaf(answer.record)
                self.assertEqual(leaf["stream"]["keep_alive_comments"], len(comments))
                contents = self.contents(answer.record)
                self.assertEqual(contents["response.body"], sent)
                self.assertEqual(leaf["status"], "complete")
                for offset, _ in json.loads(contents["response.events"]):
                    self.assertIn(sent[offset:offset + 5], (b"data:", b"event"))

    def test_none_stands_where_it_would_break_something(self):
        for script in ("mid_line", "length", "json"):
            with self.subTest(script):
                answer = self.ask(script, {**CHAT, "stream": True})
                self.assertNotIn(b"\n:\n", b"\n" + answer.body)
                self.assertTrue(answer.complete)

    def test_they_are_no_activity_of_the_upstream(self):
        began = time.monotonic()
        answer = self.ask("never", {**CHAT, "stream": True})
        self.assertFalse(answer.complete)
        self.assertLess(time.monotonic() - began, 10)
        leaf = self.response_leaf(answer.record)
        self.assertEqual((leaf["status"], leaf["error"]["kind"]), ("timeout", "idle_timeout"))
        self.assertGreaterEqual(leaf["stream"]["keep_alive_comments"], 10)

    def test_a_cut_stays_a_cut(self):
        answer = self.ask("cut", {**CHAT, "stream": True})
        self.assertFalse(answer.complete)
        self.assertEqual(self.response_leaf(answer.record)["status"], "upstream_truncated")

    def test_a_client_that_left_in_the_silence_is_noticed(self):
        with socket.create_connection((self.server.host, self.server.port), 10) as peer:
            body = json.dumps({**CHAT, "stream": True}).encode()
            peer.sendall(b"POST %s HTTP/1.0\r\nx-script: never\r\ncontent-length: %d\r\n\r\n%s"
                         % (CHAT_PATH.encode(), len(body), body))
            peer.recv(1000)
        with support.eventually() as wait:
            record = wait(lambda: self.records())[0]["id"]
        self.assertEqual(self.response_leaf(record)["status"], "client_disconnect")


class OffByDefault(FaultTest):
    scripts = {"silent": lambda request: Reply.events([chat_chunk("a"), 0.5, chat_chunk(None, "stop"), DONE])}

    def test_nothing_is_added(self):
        answer = self.ask("silent", {**CHAT, "stream": True})
        self.assertEqual(answer.body, type(self).scripts["silent"](None).body())
        self.assertNotIn("keep_alive_comments", self.response_leaf(answer.record)["stream"])


if __name__ == "__main__":
    support.main()
