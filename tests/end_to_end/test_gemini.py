"""Google's Gemini API through the gateway: bytes pass, every form of an answer is read, no key is recorded, no model hides."""
import gzip
import http.client
import json
import re

import support
from mock_upstream import CLOSE, RESET, MockUpstream, Reply

ASK = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"temperature": 0, "topP": 0.50}}
MODEL = "/v1beta/models/g"
KEY = "AIzaCANARY-0123456789-0123456789-012345"


def part(text=None, finish=None, index=0, **more):
    candidate = {"index": index}
    if text is not None:
        candidate["content"] = {"role": "model", "parts": [{"text": text}]}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "g-001", "responseId": "r1", **more}


def usage(output, total, **more):
    return {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": output, "totalTokenCount": total, **more}}


def event(value):
    return f"data: {json.dumps(value)}\r\n\r\n".encode()


PARTS = [part("hel", **usage(1, 4)), part("lo", "STOP", **usage(2, 7, thoughtsTokenCount=2))]
WHOLE = json.dumps(part("hello", "STOP", **usage(2, 5)), indent=2)
ERROR = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}


def array(parts, end="\n]\n"):
    """As the API streams without alt=sse."""
    pieces = [(b"[" if i == 0 else b"\n,\r\n") + json.dumps(each, indent=2).encode() for i, each in enumerate(parts)]
    return [*pieces, end.encode()]


def chunked(steps, kind="application/json; charset=UTF-8", more=()):
    return Reply("200 OK", [("content-type", kind), *more], list(steps), "chunked")


class GeminiTest(support.ProgramTest):
    toml = ""

    def start(self, answer, toml="", **more):
        self.upstream = MockUpstream(answer)
        self.addCleanup(self.upstream.close)
        config = self.folder / "verbatim.toml"
        config.write_text(f'[[upstream]]\nname = "gemini"\nurl = "{self.upstream.url}"\n{toml}')
        self.server = self.gateway("--config", config, **more)

    def ended(self, record):
        with support.eventually() as wait:
            return wait(lambda: self.leaves(record).get("response"), f"a response leaf of {record}")


class PassThrough(GeminiTest):
    def test_whole_answers_pass_byte_for_byte_and_are_read(self):
        self.start(lambda request: Reply.json(WHOLE))
        for path in (MODEL, "/v1/models/g", "/v1/projects/p/locations/l/publishers/google/models/g", "/v1beta/models/%67"):
            answer = self.server.post(f"{path}:generateContent", ASK, {"x-goog-api-key": KEY})
            self.assertEqual((answer.status, answer.body, answer.cache), (200, WHOLE.encode(), "bypass"))
            self.assertEqual(self.upstream.requests[-1].target, f"{path}:generateContent")
            leaves = self.leaves(answer.record)
            request, response = leaves["request"], leaves["response"]
            self.assertEqual(request["route"]["api"], "gemini.generate_content")
            self.assertEqual(request["model"], {"level": "claimed", "requested": "g"})
            self.assertEqual(request["params"], {"temperature": "0", "top_p": "0.5"})
            self.assertEqual(request["determinism"], "greedy")
            self.assertEqual(response["status"], "complete")
            self.assertEqual(response["finish"], ["STOP"])
            self.assertEqual(response["usage"], {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5})
            self.assertEqual({name: response["upstream"][name] for name in ("model", "response_id")},
                             {"model": "g-001", "response_id": "r1"})
        self.assertEqual(len(self.records("--model", "g")), 4)
        shown = self.run_well("log", "show", answer.record, "--data", self.data, "--json").json
        self.assertEqual(shown["opentelemetry"]["name"], "generate_content g")
        self.assertEqual(shown["opentelemetry"]["attributes"]["gen_ai.provider.name"], "gcp.gen_ai")
        self.assert_valid()

    def test_streams_pass_in_both_forms_and_their_last_usage_counts(self):
        forms = {"?alt=sse": [event(each) for each in PARTS], "": array(PARTS)}
        self.start(lambda request: chunked(forms["?alt=sse"], "text/event-stream") if "sse" in request.target
                   else chunked(forms[""]))
        for query, steps in forms.items():
            with self.subTest(query):
                answer = self.server.post(f"{MODEL}:streamGenerateContent{query}", ASK)
                self.assertEqual(answer.body, b"".join(steps))
                self.assertTrue(answer.complete)
                leaves = self.leaves(answer.record)
                self.assertEqual(leaves["request"]["params"]["stream"], "true")
                response = leaves["response"]
                self.assertEqual((response["status"], response["finish"]), ("complete", ["STOP"]))
                self.assertEqual(response["usage"], {"input_tokens": 3, "output_tokens": 2, "total_tokens": 7,
                                                     "reasoning_tokens": 2})
                self.assertEqual(response["stream"]["events"], 2)
                self.assertEqual(self.contents(answer.record)["response.body"], b"".join(steps))

    def test_how_an_answer_ends_is_recorded(self):
        blocked = {"promptFeedback": {"blockReason": "SAFETY"}, **usage(0, 3)}
        gzipped = gzip.compress(b"".join(array(PARTS)))
        sse, json_type = "text/event-stream", "application/json"
        cases = {
            "every candidate has finished": ([event(part("a", "STOP")), event(part("b", "STOP", 1))], sse, "complete"),
            "one candidate has not": ([event(part("a", index=1)), event(part("b", "STOP"))], sse, "upstream_truncated"),
            "no reason to finish": ([event(part("a"))], sse, "upstream_truncated"),
            "cut": ([event(PARTS[0]), 0.1, CLOSE], sse, "upstream_truncated"),
            "reset after the reason to finish": ([event(PARTS[1]), 0.1, RESET], sse, "upstream_truncated"),
            "an error in the stream": ([event(PARTS[0]), event(ERROR)], sse, "upstream_error"),
            "the prompt was blocked": ([event(blocked)], sse, "complete"),
            "an array": (array(PARTS), json_type, "complete"),
            "an array without its end": (array(PARTS, ""), json_type, "upstream_truncated"),
            "an array that is cut": (array(PARTS)[:1] + [0.1, CLOSE], json_type, "upstream_truncated"),
            "an error in an array": (array([PARTS[0], ERROR]), json_type, "upstream_error"),
            "an array, compressed": ([gzipped], json_type, "complete"),
        }
        names = list(cases)

        def reply(request):
            name = names[int(request.header("x-case"))]
            steps, kind, _ = cases[name]
            return chunked(steps, kind, [("content-encoding", "gzip")] if "compressed" in name else [])

        self.start(reply)
        for number, name in enumerate(names):
            with self.subTest(name):
                answer = self.server.post(f"{MODEL}:streamGenerateContent?alt=sse", ASK, {"x-case": str(number)})
                leaf = self.ended(answer.record)
                self.assertEqual(leaf["status"], cases[name][2], leaf)
                if cases[name][2] == "upstream_truncated":
                    self.assertFalse(answer.status == 200 and answer.complete, "a cut answer looks whole")
        self.assert_valid()

    def test_counts_and_embeddings_are_read(self):
        told = {"countTokens": '{"totalTokens":31}', "embedContent": '{"embedding":{"values":[0.5]}}',
                "batchEmbedContents": '{"embeddings":[{"values":[0.5]}],"usageMetadata":{"promptTokenCount":2}}',
                "embeddings": '{"object":"list","data":[],"model":"e-1","usage":{"prompt_tokens":8,"total_tokens":8}}',
                "count_tokens": '{"input_tokens":14}'}
        self.start(lambda request: Reply.json(told[re.split("[/:]", request.target)[-1]]))
        for path, body, api, used in (
                (MODEL + ":countTokens", ASK, "gemini.count_tokens", {"counted_tokens": 31}),
                (MODEL + ":embedContent", {"content": {}, "outputDimensionality": 2}, "gemini.embed_content", None),
                (MODEL + ":batchEmbedContents", {"requests": [{"model": "models/g"}]}, "gemini.embed_content",
                 {"input_tokens": 2}),
                ("/v1/embeddings", {"model": "g", "input": "x", "dimensions": 2}, "openai.embeddings",
                 {"input_tokens": 8, "total_tokens": 8}),
                ("/v1/messages/count_tokens", {"model": "g", "messages": []}, "anthropic.count_tokens",
                 {"counted_tokens": 14})):
            answer = self.server.post(path, body)
            leaves = self.leaves(answer.record)
            self.assertEqual(leaves["request"]["route"]["api"], api)
            self.assertEqual(leaves["request"]["model"]["requested"], "g")
            self.assertNotIn("determinism", leaves["request"])
            self.assertEqual(leaves["response"].get("usage"), used)
        address = re.search(r"metrics on http://([0-9.]+):(\d+)", self.server.output.read_text())
        connection = http.client.HTTPConnection(address[1], int(address[2]), timeout=10)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        connection.close()
        for api, count in (("gemini.count_tokens", 1), ("gemini.embed_content", 2), ("openai.embeddings", 1)):
            self.assertIn(f'api="{api}",status="complete",cache="bypass"}} {count}', metrics)

    def test_a_model_served_here_says_no_in_googles_shape(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as server:
            refused = server.post("/v1beta/models/demo:generateContent", ASK)
        self.assertEqual((refused.status, refused.json["error"]["status"]), (404, "NOT_FOUND"))
        self.assertEqual(self.leaves(refused.record)["response"]["status"], "rejected")

    def test_the_dialect_decides_between_upstreams(self):
        with MockUpstream(lambda request: Reply.json('{"openai":1}')) as openai:
            self.start(lambda request: Reply.json(WHOLE), f'[[upstream]]\nname = "openai"\nurl = "{openai.url}"\n')
            for path in (MODEL + ":generateContent", "/v1/models/g:countTokens", "/v1beta/files"):
                self.server.post(path, ASK)
            self.server.post("/v1/files", ASK, {"x-goog-api-key": KEY})
            self.assertEqual(len(self.upstream.requests), 4)
            self.assertEqual(openai.requests, [])
            self.server.post("/v1/chat/completions", {"model": "g", "messages": []})
            self.assertEqual(len(openai.requests), 1)


class Credentials(GeminiTest):
    def stored(self):
        for file in self.data.rglob("*"):
            if file.is_file() and not file.is_socket():
                yield file, file.read_bytes()
        yield "output", self.server.output.read_bytes()

    def assert_nowhere(self, *canaries):
        texts = list(self.stored())
        for record in self.records():
            shown = self.run_well("log", "show", record["id"], "--contents", "--data", self.data, "--json").out
            texts.append((record["id"], shown.encode()))
        for where, text in texts:
            for canary in canaries:
                self.assertNotIn(canary.encode(), text, where)

    def test_a_providers_key_passes_in_either_form_and_is_in_no_record(self):
        upload = [("x-goog-upload-url", f"https://h/upload/v1beta/files?key={KEY}&upload_id=1")]
        self.start(lambda request: Reply.json(WHOLE, headers=upload))
        subjects = set()
        for query, headers in (("", {"x-goog-api-key": KEY}), (f"?key={KEY}&alt=json", {}), (f"?x=1&k%65y={KEY}", {})):
            answer = self.server.post(f"{MODEL}:generateContent{query}", ASK, headers)
            sent = self.upstream.requests[-1]
            self.assertEqual(sent.target, f"{MODEL}:generateContent{query}")
            self.assertEqual(sent.header("x-goog-api-key"), headers.get("x-goog-api-key"))
            self.assertEqual(answer.header("x-goog-upload-url"), upload[0][1])
            subjects.add(self.leaves(answer.record)["request"]["subject"])
        self.assertEqual(len(subjects), 1, "one key is one subject")
        # Also where the gateway answers itself.
        self.upstream.close()
        self.upstream.close_connections()
        failed = self.server.post(f"{MODEL}:generateContent?key={KEY}", ASK)
        self.assertEqual(failed.status, 502)
        self.assertNotIn(KEY.encode(), failed.body)
        self.assert_nowhere(KEY)

    def test_the_gateways_key_stays_here_and_the_configured_one_goes_on(self):
        keys = {name: self.run_well("gateway", "--new-key", name, "--json").json for name in ("one", "all")}
        toml = 'credential_env = "PROVIDER_KEY"\n'
        for name, models in (("one", '["g", "tunedModels/*"]'), ("all", "[]")):
            toml += f'[[key]]\nname = "{name}"\nhash = "{keys[name]["hash"]}"\nmodels = {models}\n'
        self.start(lambda request: Reply.json(WHOLE), toml, env={"PROVIDER_KEY": "AIza-PROVIDER"})
        one = keys["one"]["key"]
        for query, headers in (("", {"x-goog-api-key": one}), (f"?key={one}&alt=json", {}), (f"?key=other&k%65y={one}",
                               {"x-goog-api-key": one})):
            answer = self.server.post(f"{MODEL}:generateContent{query}", ASK, headers)
            self.assertEqual(answer.status, 200, answer.body)
            sent = self.upstream.requests[-1]
            self.assertEqual(sent.header("x-goog-api-key"), "AIza-PROVIDER")
            self.assertNotIn(b"vb-", sent.head)
            self.assertNotIn("key=", sent.target)
            self.assertEqual(self.leaves(answer.record)["request"]["key"], "one")
        bearer = self.server.post(f"{MODEL}:generateContent", ASK, {"authorization": f"Bearer {one}"})
        self.assertEqual(bearer.status, 200)
        self.assertEqual(self.upstream.requests[-1].header("authorization"), "Bearer AIza-PROVIDER")
        self.assert_nowhere(one[12:], "AIza-PROVIDER")

        asked = len(self.upstream.requests)
        for path in ("/v1beta/models/h:generateContent", "/v1beta/models/h%3AgenerateContent", "/v1/models/h%253AgenerateContent",
                     "/v1beta/models/g%2F..%2Fh:generateContent", "/v1beta/models/g:generateContent/../h:generateContent",
                     "/v1beta//models/h:streamGenerateContent", "/v1beta/%6Dodels%2fh:countTokens", "/v1beta/models/h:predict",
                     "/v1/projects/p/locations/l/publishers/meta/models/g:generateContent"):
            for body in (ASK, {**ASK, "model": "g"}, b"no JSON"):
                refused = self.server.post(path, body, {"x-goog-api-key": one})
                self.assertEqual(refused.status, 403, path)
                self.assertEqual(refused.json["error"]["details"][0]["reason"], "MODEL_NOT_ALLOWED", path)
        for body in ({"requests": [{"model": "models/h"}]}, {"model": "h"}, {"generateContentRequest": {"model": "models/h"}}):
            self.assertEqual(self.server.post(f"{MODEL}:batchEmbedContents", body, {"x-goog-api-key": one}).status, 403)
        override = self.server.request("GET", "/v1/models/h:generateContent", json.dumps(ASK).encode(),
                                       {"x-goog-api-key": one, "x-http-method-override": "POST"})
        self.assertEqual(override.status, 400)
        self.assertEqual(len(self.upstream.requests), asked)
        for path in ("/v1beta/tunedModels/x:generateContent", f"{MODEL}:batchEmbedContents"):
            self.assertEqual(self.server.post(path, {"requests": [{"model": "models/g"}]} if "batch" in path else ASK,
                                              {"x-goog-api-key": one}).status, 200)
        self.assertEqual(self.server.post("/v1beta/models/h:generateContent", ASK,
                                          {"x-goog-api-key": keys["all"]["key"]}).status, 200)
        missing = self.server.post(f"{MODEL}:generateContent", ASK)
        self.assertEqual((missing.status, missing.json["error"]["status"]), (401, "UNAUTHENTICATED"))
        self.assertEqual(missing.json["error"]["details"][1]["requestId"], missing.record)


class Redaction(GeminiTest):
    def test_secrets_that_are_cut_in_pieces_are_found_in_every_form(self):
        card = ["4111 11", "11 1111", " 1111"]
        parts = [part(f"card {card[0]}"), part(card[1]), part(f"{card[2]} ok", "STOP", avgLogprobs=-0.25)]
        del parts[1]["candidates"][0]["index"]  # 0 may be left out
        whole = json.dumps({"candidates": [{"content": {"parts": [{"text": each} for each in card]},
                                            "finishReason": "STOP"}]})
        forms = {"sse": (":streamGenerateContent?alt=sse", chunked(map(event, parts), "text/event-stream")),
                 "array": (":streamGenerateContent", chunked(array(parts))),
                 "whole": (":generateContent", Reply.json(whole))}
        toml = ('[[redact]]\nname = "secrets"\npatterns = ["card_number"]\n'
                '[[redact]]\nname = "person"\npointers = ["/contents/*/parts/*/text"]\n'
                'answer_pointers = ["/candidates/*/content/parts/*/functionCall"]\n')
        self.start(lambda request: forms[request.header("x-form")][1], toml)
        for form, (method, reply) in forms.items():
            with self.subTest(form):
                ask = {"contents": [{"parts": [{"text": "Canary Roe"}]}]}
                answer = self.server.post(MODEL + method, ask, {"x-form": form})
                self.assertEqual(answer.body, reply.body())
                contents = self.contents(answer.record)
                self.assertNotIn(b"Canary", contents["request.body"])
                kept = contents["response.body"]
                self.assertNotIn(b"11", kept.replace(b"REDACTED", b""))
                self.assertIn(b"REDACTED", kept)
                self.assertNotIn(b"0.25", kept)
                self.assertEqual(self.leaves(answer.record)["response"]["finish"], ["STOP"])


class Sdk(GeminiTest):
    def test_googles_sdk_notices_nothing(self):
        support.node_or_skip()

        def answer(request):
            model = re.search(r"models/(\w+):", request.target)[1]
            if model == "stream":
                return chunked(map(event, PARTS), "text/event-stream")
            if model == "count":
                return Reply.json('{"totalTokens":31}')
            if model == "embed":
                return Reply.json('{"embeddings":[{"values":[0.5,-1]},{"values":[0.25,2]}]}')
            if model == "bad":
                return Reply.json(json.dumps({"error": {"code": 400, "message": "odd", "status": "INVALID_ARGUMENT"}}),
                                  "400 Bad Request")
            if model == "closed":
                return Reply.raw(CLOSE)
            if model == "reset":
                return chunked([event(PARTS[0]), 0.1, RESET], "text/event-stream")
            if model == "event":
                return chunked([event(PARTS[0]), event(ERROR)], "text/event-stream")
            return Reply.json(WHOLE)

        self.start(answer)
        told = {each["name"]: each["record"] for each in support.run_node("sdk_gemini.mjs", self.server.url)}
        with support.eventually() as wait:
            wait(lambda: all(record["status"] for record in self.records()))
        status = {record["model"]: record["status"] for record in self.records()}
        self.assertEqual(status, {"whole": "complete", "stream": "complete", "count": "complete", "embed": "complete",
                                  "bad": "upstream_error", "closed": "upstream_error", "reset": "upstream_truncated",
                                  "event": "upstream_error"})
        self.assertEqual({self.leaves(record)["response"]["status"] for record in told.values()},
                         {"complete", "upstream_error"})
        request = self.leaves(told["whole"])["request"]
        self.assertEqual(request["params"], {"temperature": "0", "top_p": "0.5", "seed": "7", "max_output_tokens": "8"})
        self.assertEqual(request["params_in_body"], ["stop_sequences"])
        self.assertEqual(self.server.stop(), 0)
        self.assert_valid()
        replayed = self.run_well("replay", "--all", "--data", self.data, "--json").json
        self.assertEqual({record["verdict"] for record in replayed["records"]}, {"NOT_REPLAYABLE"})


if __name__ == "__main__":
    support.main()
