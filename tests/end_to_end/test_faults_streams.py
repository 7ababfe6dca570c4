"""Known faults of gateways, by kind: what is read of streams, who leaves whom, and when time is up.

Numbers are those of docs/gateway-faults.md.
"""
import http.client
import json
import re
import socket
import struct
from pathlib import Path

import support
from faults import (CHAT, CHAT_PATH, DONE, MESSAGE_START, MESSAGE_STOP, MESSAGES_PATH, RESPONSES_PATH, FaultTest, chat_chunk,
                    data, in_parallel)
from mock_upstream import Reply

STREAM = {**CHAT, "stream": True}


def response_event(kind, **response):
    return data({"type": kind, "sequence_number": 1, "response": {"id": "resp_1", "object": "response", **response}}, kind)


def tool(index, arguments, call=None, **more):
    function = {"arguments": arguments, **({"name": more["name"]} if "name" in more else {})}
    return {"tool_calls": [{"index": index, "function": function, **({"id": call, "type": "function"} if call else {})}]}


USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
NORMAL = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
# Name -> (path, steps, what the record must say). None: the member must be absent.
READ = {
    "usage in its own chunk (36)": (CHAT_PATH, [chat_chunk("a", usage=None), chat_chunk(None, "stop", usage=None), data(
        {"id": "c", "choices": [], "usage": USAGE}), DONE], {"usage": NORMAL, "finish": ["stop"], "status": "complete"}),
    "usage in the last chunk": (CHAT_PATH, [chat_chunk("a"), chat_chunk(None, "stop", usage=USAGE), DONE], {"usage": NORMAL}),
    "usage null everywhere (37)": (CHAT_PATH, [chat_chunk("a", usage=None), chat_chunk(None, "stop", usage=None), DONE],
                                   {"usage": None, "finish": ["stop"]}),
    "no usage is absent, never 0 (35)": ("/v1/completions", [data({"id": "x", "choices": [
        {"index": 0, "text": "a", "finish_reason": "length"}]}), DONE], {"usage": None, "finish": ["length"]}),
    "cached tokens once (39)": (CHAT_PATH, [chat_chunk(None, "stop", usage={
        **USAGE, "prompt_tokens_details": {"cached_tokens": 2}}), DONE], {"usage": {**NORMAL, "cached_input_tokens": 2}}),
    "usage told twice is not added (38)": (MESSAGES_PATH, [MESSAGE_START, data(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 5, "output_tokens": 9}},
        "message_delta"), MESSAGE_STOP], {"usage": {"input_tokens": 5, "output_tokens": 9}, "finish": ["end_turn"]}),
    "usage only at the start (38)": (MESSAGES_PATH, [MESSAGE_START, data(
        {"type": "message_delta", "delta": {"stop_reason": "refusal"}}, "message_delta"), MESSAGE_STOP],
        {"usage": {"input_tokens": 5, "output_tokens": 1}, "finish": ["refusal"]}),
    "two choices, the second first (28)": (CHAT_PATH, [chat_chunk("b", index=1), chat_chunk("a"), chat_chunk(
        None, "length", index=1), chat_chunk(None, "stop"), DONE], {"finish": ["stop", "length"], "status": "complete"}),
    "response.completed (31)": (RESPONSES_PATH, [response_event("response.created", status="in_progress"), response_event(
        "response.completed", status="completed", model="m-9", usage={"input_tokens": 3, "output_tokens": 5,
                                                                     "total_tokens": 8})],
        {"usage": NORMAL, "finish": ["completed"], "status": "complete"}),
    "response.incomplete keeps its usage (33)": (RESPONSES_PATH, [response_event("response.incomplete", status="incomplete",
        usage={"input_tokens": 3, "output_tokens": 5, "total_tokens": 8})],
        {"usage": NORMAL, "finish": ["incomplete"], "status": "complete"}),
    "response.failed is a failure (32)": (RESPONSES_PATH, [response_event("response.failed", status="failed", error={
        "code": "server_error", "message": "no"})], {"finish": ["failed"], "status": "upstream_error"}),
    "an error in an event": (CHAT_PATH, [chat_chunk("a"), data({"error": {"message": "boom"}})],
                             {"status": "upstream_error"}),
    "no response.created (34)": (RESPONSES_PATH, [response_event("response.completed", status="completed")],
                                 {"status": "complete"}),
}

TOOLS = [chat_chunk(delta={"role": "assistant", "content": None}),
         chat_chunk(delta=tool(0, "", "call_a", name="first")), chat_chunk(delta=tool(1, "", "call_b", name="second")),
         chat_chunk(delta=tool(0, '{"x":')), chat_chunk(delta=tool(1, '{"y":2}')), chat_chunk(delta=tool(0, "1}")),
         chat_chunk(None, "tool_calls"), DONE]


class Read(FaultTest):
    scripts = {**{name: lambda request, steps=steps: Reply.events(steps) for name, (_, steps, _) in READ.items()},
               "tools": lambda request: Reply.events(TOOLS),
               "same id": lambda request: Reply.events([chat_chunk("a"), chat_chunk(None, "stop", usage=USAGE), DONE])}

    def test_what_a_stream_says_of_itself_is_recorded_and_nothing_else(self):
        for name, (path, steps, expected) in READ.items():
            with self.subTest(name):
                answer = self.ask(name, {**STREAM, "stream_options": {"include_usage": True}}, path)
                self.assertEqual(answer.body, b"".join(steps))
                self.assertNotIn(b"usage", self.upstream.requests[-1].body.replace(b"include_usage", b""))
                leaf = self.response_leaf(answer.record)
                for member, value in expected.items():
                    self.assertEqual(leaf.get(member), value, member)

    def test_every_stream_has_its_row_though_the_provider_repeats_its_id(self):
        """(3, 4)"""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        self.addCleanup(connection.close)
        records = []
        for _ in range(5):
            connection.request("POST", CHAT_PATH, json.dumps({**STREAM, "stream_options": {"include_usage": True}}),
                               {"x-script": "same id"})
            response = connection.getresponse()
            response.read()
            records.append(response.getheader("x-verbatim-record"))
        self.assertEqual(len(set(records)), 5)
        for record in records:
            self.assertEqual(self.response_leaf(record)["upstream"]["response_id"], "c")

    def test_tool_calls_that_run_in_parallel_stay_apart(self):
        """(29, 30) A whole answer that is made of a recorded stream."""
        self.assertEqual(self.ask("tools", {**STREAM, "temperature": 0}).body, b"".join(TOOLS))
        whole = self.ask("tools", {**CHAT, "temperature": 0})
        self.assertEqual(whole.cache, "hit")
        calls = whole.json["choices"][0]["message"]["tool_calls"]
        self.assertEqual([(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls],
                         [("call_a", "first", '{"x":1}'), ("call_b", "second", '{"y":2}')])
        again = self.ask("tools", {**STREAM, "temperature": 0})
        self.assertEqual((again.cache, again.body), ("hit", b"".join(TOOLS)))
        leaf = self.response_leaf(again.record)
        self.assertEqual((leaf["cache"], leaf["status"]), ("hit", "cache_hit"))  # (40)


WAITING = {
    "comments": lambda request: Reply.events([b": one\n", 2.0, b": two\n\n", chat_chunk("a", "stop"), DONE]),
    "slow": lambda request: Reply.events([chat_chunk("a")] + [0.02, chat_chunk("b")] * 500),
    "silent": lambda request: Reply.raw(20.0),
    "silent after the head": lambda request: Reply.events([20.0]),
    "stalled": lambda request: Reply.events([MESSAGE_START if request.target == MESSAGES_PATH else chat_chunk("a"), 20.0]),
    "processing": lambda request: Reply.raw(*[b"HTTP/1.1 102 Processing\r\n\r\n", 0.1] * 60),
    "head by bytes": lambda request: Reply.raw(*[b"H", 0.1, b"TTP/1.1 200 OK\r\n"] + [b"x: y\r\n", 0.1] * 60),
}


class Waiting(FaultTest):
    scripts = WAITING

    def test_comments_are_passed_on_at_once(self):
        """(54) And nothing is held back for the sake of a buffer (57)."""
        connection, response = self.open_stream("comments")
        connection.sock.settimeout(1.5)
        self.assertEqual(response.read1(100), b": one\n")
        connection.sock.settimeout(30)
        self.assertTrue(response.read().endswith(DONE))

    def test_a_client_that_leaves_is_recorded_and_frees_its_upstream(self):
        """(24, 25, 26, 27) At every stage, by a close and by a reset."""
        stages = [("slow", CHAT_PATH, True), ("stalled", MESSAGES_PATH, True), ("silent", CHAT_PATH, False),
                  ("silent after the head", CHAT_PATH, True), ("silent", MESSAGES_PATH, False)]
        for script, path, begun in stages:
            for reset in (False, True):
                with self.subTest(script, path=path, reset=reset):
                    seen, known = len(self.upstream.requests), {record["id"] for record in self.records()}
                    connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
                    connection.request("POST", path, json.dumps(STREAM), {"x-script": script})
                    sock = connection.sock
                    with support.eventually() as wait:
                        wait(lambda: len(self.upstream.requests) > seen, "the request at the upstream")
                    response = connection.getresponse() if begun else None
                    if reset:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if response:
                        response.close()
                    connection.close()
                    with support.eventually(5) as wait:
                        wait(lambda: [r for r in self.records() if r["id"] not in known and r["status"]], "the record")
                    record = next(r["id"] for r in self.records() if r["id"] not in known)
                    leaf = self.response_leaf(record)
                    self.assertEqual((leaf["status"], leaf["http_status"]), ("client_disconnect", 200 if begun else 499))


class Timeouts(FaultTest):
    toml = "[timeouts]\nfirst_byte_ms = 700\nidle_ms = 700\n"
    scripts = WAITING

    def test_a_silent_upstream(self):
        """(41, 42) Interim answers and single bytes of a head put nothing off."""
        for script, path in (("silent", CHAT_PATH), ("silent", MESSAGES_PATH), ("processing", CHAT_PATH),
                             ("head by bytes", CHAT_PATH), ("silent after the head", CHAT_PATH)):
            with self.subTest(script, path=path):
                answer = self.ask(script, STREAM, path, timeout=10)
                leaf = self.response_leaf(answer.record)
                self.assertEqual(leaf["status"], "timeout")
                if answer.status != 200:
                    self.assertEqual(answer.status, 504)
                    self.assertEqual(answer.json.get("type"), "error" if path == MESSAGES_PATH else None)
                else:
                    self.assertFalse(answer.complete)

    def test_an_upstream_that_stalls_in_the_middle(self):
        for path in (CHAT_PATH, MESSAGES_PATH):
            answer = self.ask("stalled", STREAM, path, timeout=10)
            self.assertEqual((answer.status, answer.complete), (200, False))
            leaf = self.response_leaf(answer.record)
            self.assertEqual((leaf["status"], leaf["error"]["kind"]), ("timeout", "idle_timeout"))


class Many(FaultTest):
    streams = 400
    scripts = {"slow": lambda request: Reply.events([chat_chunk("a"), 1.5, chat_chunk("b" * 1000), chat_chunk(None, "stop"),
                                                     DONE])}

    def resident_kb(self):
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def test_many_streams_at_once_all_end_well_in_bounded_memory(self):
        """(44)"""
        self.ask("slow", STREAM)
        before = self.resident_kb()
        peak = []

        def stream(number):
            answer = self.ask("slow", {**STREAM, "user": str(number)}, timeout=120)
            self.assertEqual(answer.status, 200)
            self.assertTrue(answer.body.endswith(DONE) and answer.complete)
            if number % 50 == 0:
                peak.append(self.resident_kb())

        in_parallel(self.streams, stream, range(self.streams))
        self.assertLess(max(peak) - before, self.streams * 150, "more than 150 KB a stream")
        self.assertEqual(len(self.records("--limit", "1000")), self.streams + 1)
        self.assert_valid()


if __name__ == "__main__":
    support.main()
