"""How much of an exchange is stored: capture levels and redaction rules, and that what was taken out is nowhere."""
import base64
import gzip
import hashlib
import json
import time

import support
from faults import CHAT, CHAT_PATH, DONE, MESSAGES_PATH, chat_chunk, data
from mock_upstream import CLOSE, MockUpstream, Reply

CARD, EMAIL, KEY, NAME, HEADER = ("4111 1111 1111 1111", "canary.one@example.org", "sk-CANARY0123456789abcdefgh",
                                  "Canary Roe-Smith", "canary-header-value")
CANARIES = (CARD, CARD.replace(" ", ""), EMAIL, KEY, NAME, HEADER)
RULES = """
[[redact]]
name = "secrets"
patterns = ["card_number", "email", "api_key"]
[[redact]]
name = "person"
pointers = ["/user", "/messages/*/name"]
headers = ["x-person"]
"""


def answer_of(text, **more):
    return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


class CaptureTest(support.ProgramTest):
    def start(self, toml, answer, **more):
        self.upstream = MockUpstream(answer)
        self.addCleanup(self.upstream.close)
        config = self.folder / "verbatim.toml"
        config.write_text(toml + f'[[upstream]]\nname = "openai"\nurl = "{self.upstream.url}"\n')
        self.server = self.gateway("--config", config, **more)

    def recorded(self, record):
        """Leaves and opened contents of a record, once it has ended."""
        with support.eventually() as wait:
            wait(lambda: "response" in self.leaves(record))
        leaves = self.leaves(record)
        shown = self.run_well("log", "show", record, "--contents", "--data", self.data, "--json").json
        return leaves["request"], leaves["response"], support.contents_in(shown) if shown.get("contents") else {}

    def stored(self, *folders):
        for folder in folders:
            for file in folder.rglob("*"):
                if file.is_file() and not file.is_socket():
                    yield file, file.read_bytes()

    def assert_nowhere(self, canaries, *texts):
        """Not in the data folder, its WAL and the program's output; not in any opened content; not in an export."""
        bundle = self.folder / f"bundle-{time.monotonic_ns()}"
        self.run_well("export", "--out", bundle, "--contents", "all", "--data", self.data)
        everything = [*self.stored(self.data, bundle), ("output", self.server.output.read_bytes())]
        for record in self.records():
            request, response, contents = self.recorded(record["id"])
            everything.append((record["id"], json.dumps([request, response]).encode()))
            everything += contents.items()
        for where, text in everything:
            for canary in canaries:
                for form in (canary.encode(), base64.b64encode(canary.encode()).rstrip(b"=")[:-1],
                             canary.encode("utf-16-le"), hashlib.sha256(canary.encode()).hexdigest().encode()):
                    self.assertNotIn(form, text, f"{canary} in {where}")


class Redaction(CaptureTest):
    def answer(self, request):
        body = json.loads(request.body) if request.body.startswith(b"{") else {}
        text = f"You are {NAME}, {EMAIL}, and pay by {CARD} with {KEY}."
        if body.get("stream"):
            # Cut everywhere: a secret may be spread over events.
            steps = [chat_chunk(text[i:i + 3]) for i in range(0, len(text), 3)]
            return Reply.events([*steps, chat_chunk(None, "stop"), DONE], [("x-person", HEADER)])
        return Reply.json(answer_of(text, logprobs={"content": [{"token": CARD}]}), headers=[("x-person", HEADER)])

    def ask(self, path=CHAT_PATH, headers=None, **more):
        body = {**CHAT, "user": NAME, "temperature": 0, "stop": [EMAIL],
                "messages": [{"role": "user", "name": NAME, "content": f"{CARD} {EMAIL} {KEY}"}], **more}
        return self.server.post(path, body, {"x-person": HEADER, "user-agent": f"agent {EMAIL}", **(headers or {})})

    def test_what_was_taken_out_is_nowhere_and_the_client_gets_all(self):
        self.start(RULES, self.answer)
        asked = [self.ask(), self.ask(), self.ask(stream=True), self.ask(path=f"{CHAT_PATH}?mail={EMAIL}")]
        for answer in asked:
            self.assertEqual(answer.status, 200)
            if b"data:" in answer.body:
                pieces = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
                text = "".join(p["choices"][0]["delta"].get("content") or "" for p in pieces)
            else:
                text = answer.json["choices"][0]["message"]["content"]
            for canary in (CARD, EMAIL, KEY, NAME):
                self.assertIn(canary, text)
            # Answers are served from the record; this record could not give this one.
            self.assertEqual(answer.cache, "bypass")
        for sent in self.upstream.requests:
            self.assertIn(NAME.encode(), sent.body)
            self.assertEqual(sent.header("x-person"), HEADER)
        self.assertEqual(len(self.upstream.requests), 4)

        request, response, contents = self.recorded(asked[0].record)
        self.assertEqual(request["capture"]["redacted"]["request.body"], {"person": 2, "secrets": 4})
        self.assertEqual(request["capture"]["redacted"]["request.headers"], {"person": 1, "secrets": 1})
        self.assertIn("stop", request["params_in_body"])
        self.assertEqual(json.loads(contents["request.body"])["stop"], ["REDACTED"])
        self.assertEqual(request["client"]["user_agent"], "agent REDACTED")
        self.assertEqual(response["capture"]["redacted"]["response.body"], {"secrets": 4, "person": 1, "derived": 1})
        self.assertEqual(response["usage"], {"input_tokens": 1, "output_tokens": 1})
        self.assertNotIn("canonical", response)
        body = json.loads(contents["response.body"])
        self.assertEqual(body["choices"][0]["message"]["content"], "You are REDACTED, REDACTED, and pay by REDACTED with REDACTED.")

        _, streamed, contents = self.recorded(asked[2].record)
        self.assertEqual(streamed["finish"], ["stop"])
        for offset, _ in json.loads(contents["response.events"]):
            self.assertTrue(contents["response.body"][offset:].startswith(b"data: "), offset)
        self.assertIn("REDACTED", self.recorded(asked[3].record)[0]["route"]["target"])

        self.assert_nowhere(CANARIES)
        self.assert_valid()
        self.assertEqual(self.server.stop(), 0)
        self.assert_nowhere(CANARIES)

    def test_errors_cuts_and_coded_bodies_are_redacted_too(self):
        def answer(request):
            kind = request.header("x-script")
            if kind == "gzip":
                return Reply.json(gzip.compress(answer_of(f"it is {CARD}").encode()), headers=[("content-encoding", "gzip")])
            if kind == "error":
                return Reply.json(json.dumps({"error": {"message": f"bad name {NAME}"}}), "400 Bad Request")
            if kind == "cut":
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n"
                return Reply.raw(head + b'{"text": "' + CARD[:14].encode(), CLOSE)
            return Reply(headers=[("content-type", "image/png")], steps=[b"\x89PNG" + EMAIL.encode()])

        self.start(RULES, answer)
        for kind in ("gzip", "error", "cut", "binary"):
            with self.subTest(kind):
                answer = self.ask(headers={"x-script": kind})
                _, response, contents = self.recorded(answer.record)
                if kind == "gzip":
                    self.assertEqual(json.loads(contents["response.body"])["choices"][0]["message"]["content"],
                                     "it is REDACTED")
                if kind == "error":
                    self.assertIn(b"bad name REDACTED", contents["response.body"])
                if kind == "cut":
                    left_out = response["capture"]["left_out"]
                    self.assertIn("unreadable", (left_out.get("upstream.body"), left_out.get("response.body")))
                if kind == "binary":
                    self.assertNotIn("response.body", contents)
                    self.assertEqual(response["capture"]["left_out"]["response.body"], "unreadable")
        self.assert_nowhere((*CANARIES, CARD[:14]))

    def test_a_request_that_cannot_be_read_is_passed_on_and_not_stored(self):
        self.start(RULES, lambda request: Reply.json("{}"))
        for body, kind in ((b'{"user": "' + NAME.encode(), "application/json"),
                           (gzip.compress(b"x")[:5] + EMAIL.encode(), "application/json"),
                           (b"mail=" + EMAIL.encode(), "application/x-www-form-urlencoded")):
            answer = self.server.post("/v1/embeddings", body, {"content-type": kind})
            self.assertEqual(self.upstream.requests[-1].body, body)
            request, _, contents = self.recorded(answer.record)
            self.assertNotIn("request.body", contents)
            self.assertEqual(request["capture"]["left_out"]["request.body"], "unreadable")
        self.assert_nowhere(CANARIES)

    def test_long_bodies_that_nobody_searches_are_not_kept_where_a_rule_might_apply(self):
        long = EMAIL.encode() * 50_000  # more than one read
        self.start("[limits]\nstream_above_bytes = 1000\n" + RULES,
                   lambda request: Reply(headers=[("content-type", "audio/wav")], steps=[long]))
        answer = self.server.post("/v1/files", long, {"content-type": "audio/wav"})
        self.assertEqual((answer.body, self.upstream.requests[0].body), (long, long))
        _, response, contents = self.recorded(answer.record)
        self.assertEqual({name for name in contents if name.endswith((".body", ".digest"))}, set())
        for part in ("request", "response"):
            self.assertEqual(response[f"{part}_body"], {"bytes": len(long), "recorded": 0})
            self.assertEqual(response["capture"]["left_out"][f"{part}.digest"], "unreadable")
        self.assert_nowhere(CANARIES)

    def test_tokens_and_digests_of_logits_go_with_the_text_and_replays_say_so(self):
        config = self.folder / "verbatim.toml"
        config.write_text(RULES + f'[[model]]\nname = "demo"\npath = "{support.DEMO_MODEL}"\n')
        self.server = self.gateway("--config", config)
        plain = self.server.post(CHAT_PATH, support.chat("What is a hash?", temperature=0, max_tokens=4))
        secret = self.server.post(CHAT_PATH, support.chat(f"My card is {CARD}", temperature=0, max_tokens=4))
        again = self.server.post(CHAT_PATH, support.chat(f"My card is {CARD}", temperature=0, max_tokens=4))
        self.assertEqual((again.json["choices"], again.cache), (secret.json["choices"], "bypass"))
        _, response, contents = self.recorded(secret.record)
        self.assertNotIn("response.tokens", contents)
        self.assertEqual(response["capture"]["left_out"], {"response.tokens": "redacted"})
        self.assertEqual(response["engine"]["choices"][0]["tokens"], 4)
        report = self.run_well("replay", "--id", plain.record, "--id", secret.record, "--data", self.data, "--json").json
        verdicts = {each["id"]: each for each in report["records"]}
        self.assertEqual(verdicts[plain.record]["verdict"], "BITWISE")
        self.assertEqual((verdicts[secret.record]["verdict"], verdicts[secret.record]["reason"]),
                         ("NOT_REPLAYABLE", "not_captured"))
        self.assert_nowhere((CARD, CARD.replace(" ", "")))


LEVELS = """
[[capture]]
name = "chat-hashes"
api = "openai.chat"
level = "hashes"
[[capture]]
name = "messages-metadata"
api = "anthropic.messages"
level = "metadata"
"""


class Levels(CaptureTest):
    WHOLE = answer_of("the canary sings").encode()

    def test_hashes_keep_digests_and_metadata_nothing(self):
        self.start(LEVELS, lambda request: Reply.json("{}" if "embeddings" in request.target else self.WHOLE))
        body = json.dumps({**CHAT, "temperature": 0, "stop": "the canary"}).encode()
        hashed = self.server.post(CHAT_PATH + "?note=canary", body)
        bare = self.server.post(MESSAGES_PATH, {**CHAT, "max_tokens": 5, "stop_sequences": ["the canary"]})
        full = self.server.post("/v1/embeddings", {"input": "kept"})

        request, response, contents = self.recorded(hashed.record)
        self.assertEqual(json.loads(contents["request.digest"]),
                         {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()})
        self.assertEqual(json.loads(contents["response.digest"])["sha256"], hashlib.sha256(self.WHOLE).hexdigest())
        self.assertEqual(set(contents), {"request.digest", "response.digest"})
        self.assertEqual((request["capture"]["level"], request["capture"]["rule"]), ("hashes", "chat-hashes"))
        self.assertEqual(request["capture"]["left_out"], {
            "request.body": "level", "request.headers": "level", "params.stop": "level", "route.target.query": "level"})
        self.assertEqual(request["route"]["target"], CHAT_PATH)
        self.assertEqual(request["params"], {"temperature": "0"})
        self.assertEqual(request["request_body"], {"bytes": len(body), "recorded": 0})
        self.assertEqual(response["usage"], {"input_tokens": 1, "output_tokens": 1})
        # The digest is in a content, under a salted commitment: alone in a leaf it would confirm every right guess.
        self.assertNotIn(hashlib.sha256(body).hexdigest(), json.dumps([request, response]))

        request, response, contents = self.recorded(bare.record)
        self.assertEqual(contents, {})
        self.assertNotIn("contents", request)
        self.assertEqual(response["capture"]["level"], "metadata")
        self.assertEqual(request["params"], {"max_tokens": "5"})
        self.assertIn("request.body", self.recorded(full.record)[2])
        self.assertEqual([each.cache for each in (hashed, bare)], ["bypass", "bypass"])
        self.assert_valid()
        self.assert_nowhere(("the canary", "canary sings", "note=canary"))

    def test_of_a_request_no_text_is_left_after_its_erasure(self):
        """But for what the documentation names: model, path, User-Agent."""
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            odd = {"stop": ["CANARY1"], "logit_bias": {"1": 1}, "response_format": {"type": "text", "x": "CANARY2"},
                   "service_tier": "CANARY3", "suffix": "CANARY4", "tool_choice": {"type": "CANARY5"}, "top_k": "CANARY6"}
            asked = [gateway.post(CHAT_PATH + "?name=CANARY7&CANARY8&api-version=1", support.chat("CANARY9", temperature=0), headers={"traceparent": "CANARY10"}),
                     *(gateway.post(CHAT_PATH, support.chat("x", **{name: value})) for name, value in odd.items()),
                     gateway.post(CHAT_PATH, {**support.chat("x"), "messages": [{"role": "CANARY11", "content": "x"}]}),
                     gateway.post(CHAT_PATH, {**support.chat("x"), "messages": "CANARY12"}),
                     gateway.post(CHAT_PATH, {**support.chat("x"), "stream_options": {"include_usage": True, "CANARY13": 1}, "stream": True})]
            first = self.leaves(asked[0].record)["request"]
            self.assertEqual(first["route"]["target"], CHAT_PATH + "?name=*&*&api-version=1")
            self.assertIn(b"CANARY7&CANARY8", self.contents(asked[0].record)["request.target"])
            self.assertEqual(first["params"], {"temperature": "0", "max_tokens": "24"})
            for answer, name in zip(asked[1:], odd):
                self.assertEqual(self.leaves(answer.record)["request"]["params_in_body"], [name])
            for answer in asked:
                self.run_well("erase", "--id", answer.record, "--reason", "asked", "--data", self.data)
        for path in self.data.iterdir():
            if path.is_file():
                self.assertNotIn(b"CANARY", path.read_bytes(), path)
        self.assert_valid()

    def test_no_client_lowers_the_level(self):
        self.start('[[capture]]\nname = "p"\npath = "/v1/private/*"\nlevel = "metadata"\n',
                   lambda request: Reply.json(self.WHOLE))
        for target in ("/v1/private/../chat/completions", "/v1/private/%2e%2e/chat/completions"):
            answer = self.server.post(target, CHAT, {"x-verbatim-capture": "metadata", "cache-control": "no-store"})
            request, response, contents = self.recorded(answer.record)
            self.assertNotIn("capture", request)
            self.assertIn("request.body", contents)
        private = self.server.post("/v1/private/x", CHAT)
        self.assertEqual(self.recorded(private.record)[2], {})

    def test_streams_at_lower_levels_are_whole_for_the_client(self):
        stream = [chat_chunk("the canary"), chat_chunk(None, "stop"), data({"choices": [], "usage": {"prompt_tokens": 2}}), DONE]
        self.start(LEVELS, lambda request: Reply.events(stream))
        answer = self.server.post(CHAT_PATH, {**CHAT, "stream": True})
        self.assertEqual(answer.body, b"".join(stream))
        _, response, contents = self.recorded(answer.record)
        self.assertEqual(set(contents), {"request.digest", "response.digest"})
        self.assertEqual((response["finish"], response["stream"]["events"], response["usage"]["input_tokens"]), (["stop"], 4, 2))
        self.assert_nowhere(("the canary",))

    def test_a_bad_rule_is_refused_by_check_with_its_line(self):
        config = self.folder / "c.toml"
        config.write_text('[[redact]]\nname = "a"\npatterns = ["passport"]\n')
        self.assert_one_line_error(support.verbatim("gateway", "--config", config, "--check"), 2, "line 1", "passport")
        config.write_text(RULES + LEVELS)
        shown = self.run_well("gateway", "--config", config, "--check").json
        self.assertEqual([rule["name"] for rule in shown["redact"]], ["secrets", "person"])
        self.assertEqual([rule["level"] for rule in shown["capture"]], ["hashes", "metadata"])


if __name__ == "__main__":
    support.main()
