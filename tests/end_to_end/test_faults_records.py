"""Known faults of gateways, by kind: rows that are lost, wrong hits, secrets that get out, and operation.

Numbers are those of docs/gateway-faults.md.
"""
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.request

import support
from faults import CHAT, CHAT_PATH, DONE, MESSAGES_PATH, RESPONSES_PATH, FaultTest, chat_chunk, in_parallel
from mock_upstream import CLOSE, Reply

WHOLE = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
GREEDY = {**CHAT, "temperature": 0}
# More than the 1,000 after which one gateway's log fell silent; set it higher for a soak.
REQUESTS = int(os.environ.get("VERBATIM_REQUESTS", "1500"))


class Rows(FaultTest):
    scripts = {
        "ok": lambda request: Reply.json(WHOLE),
        "slow": lambda request: Reply("200 OK", [("content-type", "application/json")], [0.2, WHOLE.encode()]),
        "stream": lambda request: Reply.events([chat_chunk("a"), chat_chunk(None, "stop"), DONE]),
        "cut": lambda request: Reply.events([chat_chunk("a"), 0.1, CLOSE]),
        "large error": lambda request: Reply.json(json.dumps(
            {"error": {"message": "cannot read data:image/png;base64," + "A" * (2 << 20)}}), "400 Bad Request"),
    }

    def all_records(self):
        return self.records("--limit", "100000")

    def test_every_request_under_load_has_its_row(self):
        """(7, 12, 16, 17)"""
        seen, lock = [], threading.Lock()

        def one(number):
            script = ("ok", "stream", "ok", "cut")[number % 4]
            answer = self.ask(script, {**CHAT, "stream": script != "ok", "user": str(number)})
            with lock:
                seen.append(answer.record)

        in_parallel(16, one, range(REQUESTS))
        self.assertEqual(len(set(seen)), REQUESTS)
        with support.eventually() as wait:
            wait(lambda: all(record["status"] for record in self.all_records()), "an end of every record")
        self.assertEqual({record["id"] for record in self.all_records()}, set(seen))
        self.assert_valid()

    def test_a_sigterm_under_load_loses_nothing_that_was_answered(self):
        """(2)"""
        seen, stop = [], threading.Event()

        def client():
            while not stop.is_set():
                try:
                    answer = self.ask("slow")
                except OSError:
                    return
                except Exception as error:
                    if type(error).__module__ != "http.client":
                        raise
                    return
                if answer.complete and answer.status == 200:
                    seen.append(answer.record)

        clients = [threading.Thread(target=client) for _ in range(8)]
        for each in clients:
            each.start()
        time.sleep(1)
        self.assertEqual(self.server.stop(), 0)
        stop.set()
        for each in clients:
            each.join()
        self.assertGreater(len(seen), 8)
        status = {record["id"]: record["status"] for record in self.all_records()}
        self.assertEqual({status.get(record) for record in seen}, {"complete"})
        self.assertNotIn("", status.values())
        self.assert_valid()

    def test_answers_of_the_gateway_itself_are_rows(self):
        """(14, 23)"""
        gone = self.folder / "gone"
        with self.gateway("--upstream", "openai=http://127.0.0.1:1", data=gone) as gateway:
            answers = [gateway.post(CHAT_PATH, CHAT), gateway.post(MESSAGES_PATH, CHAT), gateway.request("GET", "/x")]
            large = gateway.request("GET", "/v1/models", headers={"x-large": "x" * 70_000})
            listed = {record["id"]: record["status"] for record in self.records(data=gone)}
        for answer in answers:
            self.assertEqual((answer.status, listed[answer.record]), (502, "upstream_error"))
        self.assertEqual((large.status, listed[large.record]), (431, "rejected"))
        nothing = self.folder / "nothing"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}", data=nothing) as gateway:
            answer = gateway.post("/v1/embeddings", CHAT)
            self.assertEqual((answer.status, self.leaves(answer.record, nothing)["response"]["status"]), (404, "rejected"))

    def test_an_error_of_megabytes_makes_no_large_leaf(self):
        """(9)"""
        answer = self.ask("large error")
        self.assertEqual(answer.status, 400)
        leaf = self.response_leaf(answer.record)
        self.assertLess(len(json.dumps(leaf)), 4096)
        self.assertEqual(self.contents(answer.record)["response.body"], answer.body)

    def test_a_database_that_somebody_locks_delays_and_loses_nothing(self):
        """(16, 17, 18)"""
        before = self.ask("ok")
        self.assertEqual(before.status, 200)
        intruder = sqlite3.connect(self.data / "log.db", timeout=5, isolation_level=None)
        self.addCleanup(intruder.close)
        intruder.execute("BEGIN IMMEDIATE")
        answers = []
        client = threading.Thread(target=lambda: answers.append(self.ask("ok")))
        client.start()
        time.sleep(1.5)
        intruder.execute("ROLLBACK")
        client.join(60)
        after = self.ask("ok")
        self.assertEqual(after.status, 200)
        self.assertIn(answers[0].status, (200, 503))
        listed = {record["id"]: record["status"] for record in self.all_records()}
        for answer in (before, *answers, after):
            if answer.status == 200:
                self.assertEqual(listed[answer.record], "complete")
        self.assert_valid()


class Hits(FaultTest):
    scripts = {
        "ok": lambda request: Reply.events([chat_chunk("a"), chat_chunk(None, "stop"), DONE])
        if b'"stream": true' in request.body else Reply.json(WHOLE),
        "slow": lambda request: Reply("200 OK", [("content-type", "application/json")], [0.4, WHOLE.encode()]),
    }

    def hits(self, first, second, path=CHAT_PATH, headers=({}, {})):
        """Is the second request served from the answer to the first?"""
        first, second = ({**body, "messages": [{"role": "user", "content": self.id() + str(self.number)}]}
                         for body in (first, second))
        self.number += 1
        self.assertEqual(self.ask("ok", first, path, headers[0]).status, 200)
        return self.ask("ok", second, path, headers[1]).cache == "hit"

    number = 0

    def test_only_the_same_question_is_a_hit(self):
        """(69, 70, 71, 72)"""
        same = [
            ({"model": "m", "temperature": 0, "top_p": 1}, {"top_p": 1, "temperature": 0, "model": "m"}),
            (GREEDY, {**GREEDY, "stream": True}), ({**GREEDY, "stream": True}, GREEDY),
            (GREEDY, {**GREEDY, "user": "u", "metadata": {"a": "b"}}), ({**CHAT, "seed": 7}, {**CHAT, "seed": 7}),
        ]
        for first, second in same:
            self.assertTrue(self.hits(first, second), (first, second))
        for change in ({"tools": []}, {"top_p": 0.5}, {"max_tokens": 5}, {"model": "other"}, {"stop": ["x"]}, {"n": 2},
                       {"logit_bias": {"1": 2}}, {"response_format": {"type": "json_object"}}, {"seed": 1},
                       {"temperature": 0.0000001}, {"unknown": 1}, {"reasoning_effort": "low"}, {"service_tier": "flex"}):
            self.assertFalse(self.hits(GREEDY, {**GREEDY, **change}), change)
        keys = ({"authorization": "Bearer a"}, {"authorization": "Bearer b"})
        self.assertFalse(self.hits(GREEDY, GREEDY, headers=keys))
        self.assertFalse(self.hits(GREEDY, GREEDY, headers=({}, {"anthropic-beta": "x"}), path=MESSAGES_PATH))

    def test_what_is_never_served_again(self):
        for first, path, headers in ((CHAT, CHAT_PATH, {}), (GREEDY, RESPONSES_PATH, {}), (GREEDY, "/v1/embeddings", {}),
                                     ({**GREEDY, "store": True}, CHAT_PATH, {}), (GREEDY, CHAT_PATH, {"cache-control": "no-cache"}),
                                     (GREEDY, CHAT_PATH, {"cache-control": "no-store"})):
            self.assertFalse(self.hits(first, first, path, (headers, headers)), (first, path, headers))

    def test_a_stampede_asks_once_and_every_waiter_has_its_row(self):
        """(5, 73, 74)"""
        answers = []
        in_parallel(8, lambda _: answers.append(self.ask("slow", GREEDY)), range(8))
        self.assertEqual(len(self.upstream.requests), 1)
        self.assertEqual({answer.body for answer in answers}, {WHOLE.encode()})
        leaves = [self.response_leaf(answer.record) for answer in answers]
        origins = {leaf["origin"] for leaf in leaves if leaf["status"] == "cache_hit"}
        leader = [answer.record for answer, leaf in zip(answers, leaves) if leaf["status"] == "complete"]
        self.assertEqual((len(leader), origins), (1, set(leader)))
        self.assertEqual(len({answer.record for answer in answers}), 8)


SECRETS = {"authorization": "Bearer sk-SECRET-1", "x-api-key": "sk-SECRET-2", "api-key": "sk-SECRET-3",
           "x-goog-api-key": "sk-SECRET-4", "cookie": "session=sk-SECRET-5", "proxy-authorization": "Basic sk-SECRET-6",
           "x-custom-token": "sk-SECRET-7"}


class Secrets(FaultTest):
    scripts = {"ok": lambda request: Reply.json(WHOLE, headers=[("set-cookie", "sid=sk-SECRET-8")]),
               "no": lambda request: Reply.json('{"error":{"message":"no"}}', "401 Unauthorized")}

    def test_no_secret_is_in_any_record_log_metric_or_error(self):
        """(68) Nor in a hash that could be tried: the handle of a credential is keyed."""
        records = []
        for script in ("ok", "no"):
            for path in (CHAT_PATH, MESSAGES_PATH, "/v1/files"):
                answer = self.ask(script, CHAT, path + "?key=sk-SECRET-9&api%2Dkey=sk-SECRET-0&page=2", SECRETS)
                records.append(answer.record)
                sent = self.upstream.requests[-1]
                self.assertEqual(sent.header("authorization"), SECRETS["authorization"])
        records.append(self.server.request("GET", "/v1/x?token=sk-SECRET-a", headers={**SECRETS, "x-large": "x" * 70_000}).record)
        for record in records:
            shown = self.run_well("log", "show", record, "--contents", "--data", self.data, "--json").out
            self.assertNotIn("SECRET", shown)
            self.assertNotIn("SECRET", json.dumps({k: str(v) for k, v in self.contents(record).items()}))
        admin = self.server.log_tail().split("health and metrics on ")[1].split()[0]
        self.assertNotIn("SECRET", urllib.request.urlopen(admin + "/metrics").read().decode())
        self.assertNotIn("SECRET", self.server.log_tail())
        for file in self.data.rglob("*"):
            if file.is_file() and not file.is_socket():
                self.assertNotIn(b"SECRET", file.read_bytes(), file)


class Operation(support.ProgramTest):
    def test_want_of_descriptors_refuses_some_and_ends_nothing(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))  # noqa: E731
        gateway = self.gateway("--model", f"demo={support.DEMO_MODEL}", preexec=limit)
        self.assertEqual(gateway.request("GET", "/v1/models").status, 200)
        held = [socket.create_connection((gateway.host, gateway.port), 5) for _ in range(150)]
        time.sleep(0.5)
        for each in held:
            each.close()
        with support.eventually() as wait:
            wait(lambda: gateway.request("GET", "/v1/models").status == 200, "service, once descriptors are free")
        self.assertIn("cannot accept a connection", gateway.log_tail())
        self.assertEqual(gateway.stop(), 0)
        self.assert_valid()

    def test_a_second_gateway_on_the_same_data_is_refused(self):
        self.gateway("--model", f"demo={support.DEMO_MODEL}")
        second = support.verbatim("gateway", "--listen", "127.0.0.1:0", "--data", self.data, "--model",
                                  f"demo={support.DEMO_MODEL}", timeout=30)
        self.assert_one_line_error(second, 3)

    def test_a_stopped_gateway_goes_on_where_it_was(self):
        """What a clock sees as a jump: the process stands still for a while."""
        gateway = self.gateway("--model", f"demo={support.DEMO_MODEL}")
        gateway.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        gateway.process.send_signal(signal.SIGCONT)
        self.assertEqual(gateway.post(CHAT_PATH, support.chat("Hello")).status, 200)
        self.assert_valid()


if __name__ == "__main__":
    support.main()
