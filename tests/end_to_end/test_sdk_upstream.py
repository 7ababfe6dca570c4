"""The official SDKs through the gateway to a scripted upstream: clients notice nothing, and the log has every try."""
import collections
import json

import support
from mock_upstream import RESET, MockUpstream, Reply


def openai_events(*texts):
    for i, text in enumerate(texts):
        yield ("data: " + json.dumps({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {"content": text},
                         "finish_reason": "stop" if i == len(texts) - 1 else None}]}) + "\n\n").encode()


def anthropic_event(kind, **more):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def anthropic_events(*texts):
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    yield anthropic_event("message_start", message=message)
    yield anthropic_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for text in texts:
        yield anthropic_event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    yield anthropic_event("content_block_stop", index=0)
    yield anthropic_event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None},
                          usage={"output_tokens": 2})
    yield anthropic_event("message_stop")


class ScriptedUpstream:
    """Does what the model's name says, in one of the two dialects."""

    def __init__(self, anthropic):
        self.anthropic = anthropic
        self.tries = collections.Counter()
        self.id = ("request-id" if anthropic else "x-request-id", "req_up")

    def events(self, *texts):
        made = list((anthropic_events if self.anthropic else openai_events)(*texts))
        return made if self.anthropic else made + [b"data: [DONE]\n\n"]

    def whole(self):
        if self.anthropic:
            return json.dumps({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                               "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn",
                               "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}})
        return json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                           "choices": [{"index": 0, "finish_reason": "stop",
                                        "message": {"role": "assistant", "content": "hello"}}]})

    def error(self, kind, message):
        error = {"type": kind, "message": message}
        return json.dumps({"type": "error", "error": error} if self.anthropic else {"error": error})

    def __call__(self, request):
        model = json.loads(request.body)["model"]
        self.tries[model] += 1
        soon = [self.id, ("retry-after-ms", "10")]
        if model == "stream":
            return Reply.events(self.events("hel", "lo"), [self.id])
        if model == "bad":
            return Reply.json(self.error("invalid_request_error", "max_tokens is odd"), "400 Bad Request", [self.id])
        if model == "limit" or (model == "third" and self.tries[model] < 3):
            return Reply.json(self.error("rate_limit_error", "slow down"), "429 Too Many Requests", soon)
        if model == "broken":
            return Reply.json(self.error("api_error", "oops"), "500 Internal Server Error", soon)
        if model == "reset":
            return Reply.events([*self.events("hel")[: 3 if self.anthropic else 1], 0.1, RESET], [self.id])
        if model == "event":
            error = self.error("overloaded_error", "overloaded")
            return Reply.events([*self.events("hel")[: 3 if self.anthropic else 1],
                                 f"event: error\ndata: {error}\n\n".encode()], [self.id])
        if model == "endless":
            return Reply.events(self.events("a")[: 3 if self.anthropic else 1]
                                + [0.05, self.events("b")[2 if self.anthropic else 0]] * 300, [self.id])
        return Reply.json(self.whole(), headers=[self.id])


class SdkThroughTheGateway(support.ProgramTest):
    def check(self, module):
        support.node_or_skip()
        scripted = ScriptedUpstream("anthropic" in module)
        with MockUpstream(scripted) as upstream:
            name = "anthropic" if scripted.anthropic else "openai"
            gateway = self.gateway("--upstream", f"{name}={upstream.url}")
            told = {t["name"]: t["record"] for t in support.run_node("sdk_upstream.mjs", module, gateway.url)}
            expected = {"whole": "complete", "stream": "complete", "bad": "upstream_error", "limit": "upstream_error",
                        "broken": "upstream_error", "third": "complete", "reset": "upstream_truncated",
                        "endless": "client_disconnect"}
            with support.eventually() as wait:
                for call, status in expected.items():
                    leaf = wait(lambda: self.leaves(told[call]).get("response"), call)
                    self.assertEqual(leaf["status"], status, call)
            self.assertEqual(gateway.stop(), 0)
            tries = collections.Counter(record["model"] for record in self.records())
            self.assertEqual(tries, scripted.tries)
            self.assertEqual({m: tries[m] for m in ("bad", "limit", "broken", "third")},
                             {"bad": 1, "limit": 3, "broken": 3, "third": 3})
            self.assert_valid()
            replayed = self.run_well("replay", "--all", "--data", self.data, "--json").json
            self.assertEqual({r["verdict"] for r in replayed["records"]}, {"NOT_REPLAYABLE"})
            self.assertTrue(all(r["reason"] for r in replayed["records"]))

    def test_openai_7(self):
        self.check("openai-7")

    def test_openai_6(self):
        self.check("openai-6")

    def test_anthropic_1(self):
        self.check("@anthropic-ai/sdk")


if __name__ == "__main__":
    support.main()
