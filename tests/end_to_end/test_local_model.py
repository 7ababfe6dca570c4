"""The demo model, served by the gateway: what clients get, and what the log then holds."""
import http.client
import json

import support
from support import UUID_V7, chat


def events_of(body):
    """The data of each event in an event stream, [DONE] left out; event names are checked by the SDK tests."""
    data = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(text) for text in data if text != "[DONE]"]


def streamed_text(body):
    return "".join(c["delta"].get("content") or "" for event in events_of(body) for c in event["choices"])


class LocalModel(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.served = self.gateway("--model", f"demo={support.DEMO_MODEL}")

    def text(self, answer):
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["choices"][0]["message"]["content"]

    def test_every_answer_names_a_record_that_is_in_the_log_once_the_answer_is_whole(self):
        for body in (chat("Who are you?", temperature=0), chat("Who are you?", temperature=1, seed=7),
                     chat("Who are you?", temperature=0.9), chat("Who are you?", temperature=0, stream=True)):
            answer = self.served.post("/v1/chat/completions", body)
            self.assertEqual(answer.status, 200, answer.body)
            self.assertRegex(answer.record, UUID_V7)
            leaves = self.leaves(answer.record)
            self.assertIn(leaves["response"]["status"], ("complete", "cache_hit"))
            self.assertEqual(leaves["request"]["mode"], "strict")
            self.assertEqual(leaves["request"]["route"]["upstream"], "local")
        self.assert_valid()

    def test_recorded_bodies_are_the_bytes_that_crossed_the_wire(self):
        # Spaces, an escape, an integer beyond 2^53 and an unknown member must all survive.
        body = (b'{"model" : "demo","messages":[{"role":"user","content":"Who \\u0061re you?"}],\n'
                b'"max_tokens":8,"temperature":0,"x_unknown":9007199254740993}')
        answer = self.served.post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.body)
        contents = self.contents(answer.record)
        self.assertEqual(contents["request.body"], body)
        self.assertEqual(contents["response.body"], answer.body)

    def test_a_margin_or_deficit_without_bound_is_null(self):
        def scored(token, *flags):
            done = self.run_well("engine", "score", "--model", support.DEMO_MODEL, "--prompt-ids", "5,6,7", "--output-ids",
                                 str(token), *flags, "--json")
            return done.json["tokens"][0]
        best = scored(8)["best"]
        filtered = ("--temperature", "1", "--seed", "3", "--top-k", "1")
        alone = scored(best, *filtered)
        self.assertIsNone(alone["margin"], "the filter left no runner-up")
        self.assertEqual(alone["deficit"], 0)
        self.assertIsNone(scored(best + 1, *filtered)["deficit"], "the filter removed it")
        self.assertGreater(scored(best, *filtered[:-1], "2")["margin"], 0)

    def test_a_repeat_is_a_hit_with_the_same_bytes_and_a_record_that_names_its_origin(self):
        first = self.served.post("/v1/chat/completions", chat("What is replay?", temperature=0))
        again = self.served.post("/v1/chat/completions", chat("What is replay?", temperature=0))
        self.assertEqual((first.cache, again.cache), ("miss", "hit"))
        self.assertEqual(again.body, first.body)
        self.assertNotEqual(again.record, first.record)
        response = self.leaves(again.record)["response"]
        self.assertEqual((response["status"], response["origin"]), ("cache_hit", first.record))

    def test_a_hit_does_not_depend_on_the_order_of_members_or_on_white_space(self):
        first = self.served.post("/v1/chat/completions", chat("What is replay?", temperature=0))
        turned = dict(reversed(chat("What is replay?", temperature=0).items()))
        again = self.served.post("/v1/chat/completions", json.dumps(turned, indent=3).encode())
        self.assertEqual(again.cache, "hit")
        self.assertEqual(again.body, first.body)

    def test_a_hit_in_the_other_shape_is_the_same_answer(self):
        whole = self.served.post("/v1/chat/completions", chat("What is a Merkle tree?", temperature=0))
        stream = self.served.post("/v1/chat/completions", chat("What is a Merkle tree?", temperature=0, stream=True))
        self.assertEqual(stream.cache, "hit")
        self.assertEqual(streamed_text(stream.body), self.text(whole))
        self.assertTrue(stream.body.endswith(b"data: [DONE]\n\n"), stream.body[-80:])

    def test_without_temperature_a_request_is_sampled_and_never_served_from_the_cache(self):
        answers = [self.served.post("/v1/chat/completions", chat("Tell me a story.")) for _ in range(2)]
        self.assertNotIn("hit", [answer.cache for answer in answers])
        self.assertEqual(self.leaves(answers[0].record)["request"]["determinism"], "sampled")

    def test_a_seed_makes_a_sampled_answer_repeatable_and_another_seed_another(self):
        texts = {}
        for seed in (1, 2, 3, 4):
            body = chat("Tell me a story.", temperature=1.5, seed=seed, max_tokens=40)
            texts[seed] = self.text(self.served.post("/v1/chat/completions", body))
            again = {**body, "user": "another, so that the cache does not answer"}
            self.assertEqual(self.text(self.served.post("/v1/chat/completions", again)), texts[seed])
        self.assertGreater(len(set(texts.values())), 1)

    def test_a_stream_says_what_the_whole_answer_says(self):
        body = chat("Who are you?", temperature=0)
        stream = self.served.post("/v1/chat/completions", {**body, "stream": True})
        self.assertEqual(stream.header("content-type").split(";")[0], "text/event-stream")
        events = events_of(stream.body)
        self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
        self.assertEqual(len({event["id"] for event in events}), 1)
        whole = self.served.post("/v1/chat/completions", {**body, "user": "b"})
        self.assertEqual(streamed_text(stream.body), self.text(whole))
        leaf = self.leaves(stream.record)["response"]
        self.assertGreaterEqual(leaf["stream"]["events"], 2)

    def test_an_unknown_model_is_a_404_in_the_shape_of_the_api_and_recorded_as_rejected(self):
        openai = self.served.post("/v1/chat/completions", {**chat("Hi"), "model": "no-such-model"})
        self.assertEqual(openai.status, 404, openai.body)
        self.assertEqual(openai.json["error"]["code"], "model_not_found")
        anthropic = self.served.post("/v1/messages", {**chat("Hi"), "model": "no-such-model"},
                                     {"anthropic-version": "2023-06-01"})
        self.assertEqual(anthropic.status, 404, anthropic.body)
        self.assertEqual(anthropic.json["type"], "error")
        self.assertEqual(anthropic.json["error"]["type"], "not_found_error")
        for answer in (openai, anthropic):
            response = self.leaves(answer.record)["response"]
            self.assertEqual((response["status"], response["http_status"]), ("rejected", 404))

    def test_malformed_requests_are_400_with_a_reason_and_recorded(self):
        bodies = [b"", b"{", b"[]", b"null", b'{"model":"demo"}', b'{"model":"demo","messages":"x"}',
                  b'{"model":"demo","messages":[]}', b'{"model":"demo","messages":[{"role":"user"}],"temperature":"x"}',
                  b"\xff\xfe{}", b'{"model":"demo","messages":[{"role":"user","content":"x"}],"max_tokens":-1}',
                  b'{"model":"demo","messages":[{"role":"user","content":"x"}],"n":100000}',
                  b"[" * 100000]
        for body in bodies:
            answer = self.served.post("/v1/chat/completions", body)
            self.assertEqual(answer.status, 400, (body[:80], answer.body))
            self.assertTrue(answer.json["error"]["message"])
            self.assertEqual(self.leaves(answer.record)["response"]["status"], "rejected", body[:80])
        self.assert_valid()

    def test_an_unknown_path_or_method_is_404(self):
        self.assertEqual(self.served.request("GET", "/no/such/path").status, 404)
        self.assertEqual(self.served.request("DELETE", "/v1/chat/completions").status, 404)

    def test_models_are_listed_and_described(self):
        listed = self.served.request("GET", "/v1/models")
        self.assertEqual(listed.status, 200, listed.body)
        self.assertEqual([m["id"] for m in listed.json["data"]], ["demo"])
        self.assertRegex(listed.record, UUID_V7)
        self.assertEqual(self.served.request("GET", "/v1/models/demo").json["id"], "demo")
        self.assertEqual(self.served.request("GET", "/v1/models/none").status, 404)

    def test_the_measured_fingerprint_of_the_model_is_in_every_record(self):
        fingerprint = self.run_well("model", "fingerprint", support.DEMO_MODEL, "--json").json
        answer = self.served.post("/v1/chat/completions", chat("Who are you?", temperature=0))
        model = self.leaves(answer.record)["request"]["model"]
        self.assertEqual(model["level"], "measured")
        self.assertEqual(model["weights_sha256"], fingerprint["weights_sha256"])
        self.assertEqual(model["manifest_sha256"], fingerprint["manifest_sha256"])

    def test_a_client_cannot_choose_the_record_id_or_turn_recording_off(self):
        chosen = "0193a5e0-7c1a-7b3e-9d2f-0123456789ab"
        answer = self.served.post("/v1/chat/completions", chat("Who are you?", temperature=0),
                                  {"x-verbatim-record": chosen, "cache-control": "no-store", "x-no-log": "1"})
        self.assertNotEqual(answer.record, chosen)
        self.assertIn("response", self.leaves(answer.record))

    def test_credentials_are_nowhere_in_the_data_folder_or_the_output(self):
        secret = "sk-secret-4f7a91c2d8e6"
        for headers in ({"authorization": f"Bearer {secret}"}, {"x-api-key": secret}):
            answer = self.served.post(f"/v1/chat/completions?api_key={secret}&key={secret}",
                                      chat("Who are you?", temperature=0), headers)
            self.assertEqual(answer.status, 200, answer.body)
            self.assertNotIn(secret.encode(), b"".join(self.contents(answer.record).values()))
            self.assertNotIn(secret, json.dumps(self.leaves(answer.record)))
        self.assertEqual(self.served.stop(), 0)
        for path in [self.served.output, *self.data.rglob("*")]:
            if path.is_file():
                self.assertNotIn(secret.encode(), path.read_bytes(), path)

    def test_a_client_that_leaves_in_the_middle_of_a_stream_is_recorded_as_such(self):
        connection = http.client.HTTPConnection(self.served.host, self.served.port, timeout=30)
        body = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 400, "temperature": 1, "stream": True,
                "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        record = response.getheader("x-verbatim-record")
        response.read(10)
        response.close()
        connection.close()
        with support.eventually() as wait:
            leaf = wait(lambda: self.leaves(record).get("response"), "the response leaf")
        # A small model may have finished before the gateway could see that the client was gone.
        self.assertIn(leaf["status"], ("client_disconnect", "complete"))
        self.assertEqual(self.served.request("GET", "/v1/models").status, 200)

    def test_many_clients_at_once_get_what_each_gets_alone(self):
        from concurrent.futures import ThreadPoolExecutor

        questions = ["Who are you?", "What is replay?", "What is a Merkle tree?", "Hello!", "What can you do?"]
        ask = lambda q, user: self.text(self.served.post("/v1/chat/completions",
                                                         chat(q, temperature=0, user=user, max_tokens=16)))
        alone = {q: ask(q, "alone") for q in questions}
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(lambda i: (questions[i % 5], ask(questions[i % 5], f"u{i}")), range(60)))
        for question, text in together:
            self.assertEqual(text, alone[question])
        self.assert_valid()


if __name__ == "__main__":
    support.main()
