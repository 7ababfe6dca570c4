"""What a remote server says of itself is recorded, and recorded again when it changes."""
import json
import time

import support
from faults import CHAT, CHAT_PATH
from mock_upstream import MockUpstream, Reply

ANSWER = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]})


class UpstreamFacts(support.ProgramTest):
    version, status = "0.9.1", 200

    def answer(self, request):
        path = request.target.split("?")[0]
        if path == "/version":
            return Reply.json(json.dumps({"version": self.version}), status=f"{self.status} x")
        if path == "/v1/models":
            return Reply.json(json.dumps({"data": [{"id": "m", "created": time.time_ns()}]}))
        return Reply.json(ANSWER)

    def start(self, more='server = "vllm"\n'):
        self.upstream = MockUpstream(self.answer)
        self.addCleanup(self.upstream.close)
        self.config = self.folder / "c.toml"
        self.config.write_text(f'[[upstream]]\nname = "house"\nurl = "{self.upstream.url}"\n{more}environment_every_s = 1\n')
        self.server = self.gateway("--config", self.config)

    def facts_leaves(self, count):
        """The environment leaves about the upstream, once there are so many."""
        deadline = time.monotonic() + 30
        while True:
            rows = self.run_well("log", "list", "--all-types", "--data", self.data, "--json").json["records"]
            leaves = [self.run_well("log", "show", str(row["index"]), "--data", self.data, "--json").json["leaves"][0]
                      for row in rows if row["type"] == "environment"]
            found = [leaf for leaf in leaves if leaf["leaf"].get("upstream") == "house"]
            if len(found) >= count or time.monotonic() > deadline:
                self.assertEqual(len(found), count)
                return found
            time.sleep(0.1)

    def asked(self, path):
        return sum(request.target == path for request in self.upstream.requests)

    def wait_until_asked(self, path, times):
        deadline = time.monotonic() + 30
        while self.asked(path) < times and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertGreaterEqual(self.asked(path), times)

    def test_a_change_is_a_leaf_an_alert_and_named_by_what_comes_after(self):
        self.start()
        first = self.facts_leaves(1)[0]
        self.assertEqual(first["leaf"]["facts"], {"/version.version": "0.9.1", "/v1/models.data.0.id": "m"})
        before = self.leaves(self.server.post(CHAT_PATH, CHAT).record)["request"]
        self.assertEqual(before["upstream_environment"], first["index"])
        # Asked again, it says the same: no leaf.
        self.wait_until_asked("/v1/models", self.asked("/v1/models") + 2)
        self.assertEqual(len(self.facts_leaves(1)), 1)
        self.version = "0.9.2"
        second = self.facts_leaves(2)[1]
        self.assertEqual(second["leaf"]["facts"]["/version.version"], "0.9.2")
        self.assertIn("upstream house is not what it was: /version.version", self.server.log_tail())
        after = self.leaves(self.server.post(CHAT_PATH, {**CHAT, "n": 1}).record)["request"]
        self.assertEqual(after["upstream_environment"], second["index"])
        # One that does not answer is what it was.
        self.upstream.close()
        time.sleep(1.5)
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual(len(self.facts_leaves(2)), 2)
        self.assert_valid()

    def test_who_is_not_to_be_asked_is_not(self):
        self.start(more="")
        self.server.post(CHAT_PATH, CHAT)
        time.sleep(1.2)
        self.assertEqual({request.target for request in self.upstream.requests}, {CHAT_PATH})

    def test_a_server_that_hangs_does_not_keep_the_gateway_from_ending(self):
        def hang(_request):
            return Reply.json(ANSWER) if _request.target == CHAT_PATH else Reply("200 OK", [], [30.0])
        self.answer = hang
        self.start()
        self.wait_until_asked("/version", 1)
        self.assertEqual(self.server.stop(10), 0)


if __name__ == "__main__":
    support.main()
