"""kill -9 in the middle of traffic, again and again: the log stays valid and holds all that a client saw."""
import json
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
import support  # noqa: E402
from mock_upstream import MockUpstream, Reply  # noqa: E402

ROUNDS = 6
CLIENTS = 8


def slow_stream(request):
    if b'"stream": true' in request.body:
        return Reply.events([b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', 0.02] * 6
                            + [b"data: [DONE]\n\n"])
    return Reply("200 OK", [("content-type", "application/json")], [0.01, b'{"object":"chat.completion","choices":[]}'])


class Crash(support.ProgramTest):
    def traffic(self, gateway, seen, stop, number):
        """Asks until the gateway dies; notes each record that a header named, and whether the answer came whole."""
        i = 0
        while not stop.is_set():
            i += 1
            kind = (number + i) % 4
            body = {"model": "demo" if kind == 0 else "remote", "temperature": 0, "stream": kind in (1, 2),
                    "messages": [{"role": "user", "content": f"Who are you? {number}.{i}"}], "max_tokens": 4}
            try:
                answer = gateway.post("/v1/chat/completions", body, timeout=20)
            except OSError:
                return
            except Exception as error:  # http.client's own words for a connection that died
                if type(error).__module__ != "http.client":
                    raise
                return
            if answer.record:
                seen.append((answer.record, answer.complete and answer.status == 200))

    def test_nothing_that_a_client_saw_is_missing_after_kill_9(self):
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        print(f"seed {seed}", flush=True)
        everything, interrupted = [], 0
        with MockUpstream(slow_stream) as upstream:
            for _ in range(ROUNDS):
                gateway = self.gateway("--upstream", f"openai={upstream.url}", "--model", f"demo={support.DEMO_MODEL}")
                seen, stop = [], threading.Event()
                clients = [threading.Thread(target=self.traffic, args=(gateway, seen, stop, n)) for n in range(CLIENTS)]
                for client in clients:
                    client.start()
                time.sleep(0.3 + chance.random())
                gateway.kill()
                stop.set()
                for client in clients:
                    client.join(30)
                self.assertTrue(seen, "no traffic before the kill")
                everything += seen
                # As it lies there, before any recovery.
                self.assert_valid()
        gateway = self.gateway("--model", f"demo={support.DEMO_MODEL}")
        self.assert_valid()
        listed = {record["id"]: record for record in self.records()}
        for record, whole in everything:
            self.assertIn(record, listed, "a record that a client was told of is missing")
            if whole:
                self.assertIn(listed[record]["status"], ("complete", "cache_hit"), listed[record])
        self.assertEqual([r for r in listed.values() if not r["status"]], [], "a request is still open after recovery")
        interrupted = [r for r in listed.values() if r["status"] == "interrupted"]
        self.assertTrue(interrupted, "no kill hit an open exchange: the test proved too little")
        leaf = self.leaves(interrupted[0]["id"])["response"]
        self.assertEqual(leaf["status"], "interrupted")
        answer = gateway.post("/v1/chat/completions", support.chat("Who are you?", temperature=0))
        self.assertEqual(answer.status, 200)
        self.assertEqual(gateway.stop(), 0)
        self.assert_valid()
        print(json.dumps({"seen": len(everything), "listed": len(listed), "interrupted": len(interrupted)}), flush=True)

    def test_a_second_gateway_on_the_same_log_is_refused_and_the_first_goes_on(self):
        first = self.gateway("--model", f"demo={support.DEMO_MODEL}")
        second = support.verbatim("gateway", "--listen", "127.0.0.1:0", "--data", self.data, "--model",
                                  f"demo={support.DEMO_MODEL}", timeout=30)
        self.assert_one_line_error(second, 3)
        self.assertEqual(first.post("/v1/chat/completions", support.chat("Hello!", temperature=0)).status, 200)

    def test_commands_that_append_work_beside_a_running_gateway(self):
        gateway = self.gateway("--model", f"demo={support.DEMO_MODEL}")
        answer = gateway.post("/v1/chat/completions", support.chat("Hello!", temperature=0))
        self.contents(answer.record)
        replayed = self.run_well("replay", "--all", "--data", self.data, "--engine", f"demo={support.DEMO_MODEL}",
                                 "--json").json
        self.assertEqual(replayed["records"][0]["verdict"], "BITWISE")
        self.run_well("export", "--data", self.data, "--out", self.folder / "bundle")
        self.assertEqual(gateway.post("/v1/chat/completions", support.chat("Hi", temperature=0)).status, 200)
        self.assert_valid()
        self.assertEqual(gateway.stop(), 0)
        types = [r["type"] for r in self.records("--all-types")]
        for kind in ("access", "replay_verdict", "export"):
            self.assertIn(kind, types)


if __name__ == "__main__":
    support.main()
