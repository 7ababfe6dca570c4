"""What the tests of known faults of gateways share: one scripted upstream and one gateway for a whole class of tests.

A request names the script that answers it in the header x-script, so that a table of cases needs one gateway.
"""
import http.client
import json
import socket
import threading

import support
from mock_upstream import MockUpstream

CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH = "/v1/chat/completions", "/v1/messages", "/v1/responses"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def data(value, event=None):
    """One server-sent event."""
    text = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def chat_chunk(content=None, finish=None, index=0, **more):
    delta = {} if content is None else {"content": content}
    return data({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                 "choices": [{"index": index, "delta": {**delta, **more.pop("delta", {})}, "finish_reason": finish}], **more})


DONE = b"data: [DONE]\n\n"
MESSAGE_START = data({"type": "message_start", "message": {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "c", "content": [],
    "usage": {"input_tokens": 5, "output_tokens": 1}}}, "message_start")
MESSAGE_STOP = data({"type": "message_stop"}, "message_stop")


class FaultTest(support.ProgramTest):
    """`scripts`: name -> function from Request to Reply. `toml`: of the gateway's configuration file."""

    scripts = {}
    toml = "# the defaults\n"

    def setUp(self):
        super().setUp()
        self.upstream = MockUpstream(lambda request: type(self).scripts[request.header("x-script")](request))
        self.addCleanup(self.upstream.close)
        config = self.folder / "verbatim.toml"
        config.write_text(self.toml)
        self.server = self.gateway("--upstream", f"openai={self.upstream.url}", "--config", config)

    def ask(self, script, body=CHAT, path=CHAT_PATH, headers=None, **more):
        return self.server.post(path, body, {"x-script": script, **(headers or {})}, **more)

    def response_leaf(self, record):
        with support.eventually() as wait:
            return wait(lambda: self.leaves(record).get("response"), f"a response leaf of {record}")

    def wire(self):
        peer = socket.create_connection((self.server.host, self.server.port), 30)
        self.addCleanup(peer.close)
        return peer

    def open_stream(self, script, body=None, path=CHAT_PATH):
        """A request whose response is read by the test: (connection, response)."""
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", path, json.dumps(body or {**CHAT, "stream": True}), {"x-script": script})
        return connection, connection.getresponse()


def in_parallel(workers, work, items):
    """work(item) for each item on so many threads; raises the first failure."""
    failures, queue, lock = [], list(items), threading.Lock()

    def run():
        while True:
            with lock:
                if not queue or failures:
                    return
                item = queue.pop()
            try:
                work(item)
            except BaseException as failure:  # noqa: B036 handed to the caller
                with lock:
                    failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
