"""`verbatim probe`: against the gateway with the demo model, and against an endpoint whose answers a test chooses."""
import base64
import gzip
import hashlib
import html
import json
import re
import threading
import time
import urllib.parse
from html.parser import HTMLParser

import support
from mock_upstream import CLOSE, RESET, MockUpstream, Reply, make_certificate

KEY = "sk-test-4711-do-not-show"


def completion(text, **more):
    return Reply.json(json.dumps({"model": "mock", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}]}))


def in_turn(*replies):
    """An endpoint that gives these replies one after another, for ever."""
    lock, count = threading.Lock(), [0]

    def answer(_):
        with lock:
            count[0] += 1
            return replies[(count[0] - 1) % len(replies)]

    return answer


class PlainText(HTMLParser):
    """The text of a page, and the names of its elements."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags = "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


class ProbeTest(support.ProgramTest):
    def probe(self, url, *args, code=0, env=None):
        question = [] if "--request" in args else ["--prompt", "What is a log?"]
        return self.run_well("probe", "--url", url, "--model", "demo", *question, *args, "--json", code=code, env=env).json

    def test_the_demo_model_gives_one_answer_alone_and_under_load(self):
        with self.gateway() as gateway:
            found = self.probe(gateway.url, "-n", 12, "--concurrency", "1,4", "--neighbours", 3, "--max-tokens", 24)
            messages = self.probe(gateway.url + "/v1", "-n", 3, "--api", "anthropic", "--max-tokens", 24)
        self.assertEqual((found["n"], found["answered"], found["distinct"], found["errors"]), (48, 48, 1, 0))
        self.assertEqual(found["forks"], [])
        self.assertEqual(found["cache_hits"], 0, "a cached answer proves nothing")
        self.assertEqual([(p["concurrency"], p["neighbours"], p["distinct"]) for p in found["phases"]],
                         [(1, 0, 1), (4, 0, 1), (1, 3, 1), (4, 3, 1)])
        self.assertEqual([p["p_value"] for p in found["phases"]], [None, 1, 1, 1])
        self.assertFalse(found["load"]["differs"])
        self.assertTrue(all(p["neighbours_failed"] == 0 for p in found["phases"]), found["phases"])
        cluster = found["clusters"][0]
        self.assertEqual(cluster["sha256"], hashlib.sha256(cluster["text"].encode()).hexdigest())
        self.assertIsNone(cluster["first_fork_char"])
        self.assertEqual(found["identical"]["share"], 1)
        self.assertAlmostEqual(found["identical"]["low"], 0.025 ** (1 / 47), places=9)  # p^48 = 0.025 p
        self.assertEqual(messages["clusters"][0]["text"], cluster["text"])

    def test_forks_are_found_where_they_are(self):
        texts = ["Grüße aus Köln", "Grüße aus Kassel", "Grüße an alle", "Grüße aus Köln"]
        with MockUpstream(in_turn(*[completion(t) for t in texts])) as mock:
            found = self.probe(mock.url, "-n", 8, code=1)
        self.assertEqual((found["n"], found["distinct"]), (8, 3))
        self.assertEqual([(c["text"], c["count"], c["first_fork_char"]) for c in found["clusters"]],
                         [("Grüße aus Köln", 4, None), ("Grüße aus Kassel", 2, 11), ("Grüße an alle", 2, 7)])
        self.assertEqual([f["char"] for f in found["forks"]], [7, 11])
        self.assertEqual([(b["text"], b["count"]) for b in found["forks"][0]["branches"]], [("us K", 6), ("n alle", 2)])
        self.assertEqual(found["identical"]["count"], 4)

    def test_answers_that_depend_on_the_load_are_found_and_others_are_not(self):
        lock, inside = threading.Lock(), [0]

        def depends(_):
            with lock:
                inside[0] += 1
            time.sleep(0.02)  # long enough for others to come in
            with lock:
                others = inside[0] - 1
                inside[0] -= 1
            return completion("alone" if others == 0 else "in company")

        with MockUpstream(depends) as mock:
            found = self.probe(mock.url, "-n", 30, "--concurrency", "1,6", code=1)
        self.assertIsNone(found["phases"][0]["p_value"])
        self.assertLess(found["phases"][1]["p_value"], 0.001)
        self.assertEqual((found["load"]["compared"], found["load"]["differs"]), (1, True))
        # As varied alone as in company.
        with MockUpstream(in_turn(completion("one"), completion("two"))) as mock:
            found = self.probe(mock.url, "-n", 30, "--concurrency", "1,2,4", code=1)
        self.assertEqual(found["load"], {"compared": 2, "false_positive_rate": 0.01, "p_value_limit": 0.005, "differs": False,
                                         "undecided": False})
        self.assertGreater(min(p["p_value"] for p in found["phases"][1:]), 0.005)

    def test_a_difference_that_so_few_answers_can_never_show_is_left_open(self):
        report = self.folder / "report.html"
        with MockUpstream(in_turn(*[completion("first")] * 4 + [completion("then")] * 4)) as mock:
            found = self.probe(mock.url, "-n", 4, "--concurrency", "1,2", code=1)
            self.assertEqual((found["load"]["differs"], found["load"]["undecided"]), (False, True))
            said = self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 4, "--concurrency", "1,2",
                                 "--report", report, "--quiet", code=1)
            self.assertIn("too few answers to say whether the load changes them", said.out)
            self.assertIn("Too few answers to say whether the load changes them", PlainText(report.read_text()).text)
        with MockUpstream(in_turn(*[completion("first")] * 6 + [completion("then")] * 6)) as mock:
            found = self.probe(mock.url, "-n", 6, "--concurrency", "1,2", code=1)
            self.assertEqual((found["load"]["differs"], found["load"]["undecided"]), (True, False))

    def test_alternatives_are_given_where_the_endpoint_tells_them(self):
        def tokens(second, other):
            return {"logprobs": {"content": [
                {"token": "A", "logprob": -0.1, "bytes": [65], "top_logprobs": []},
                {"token": second, "logprob": -0.69, "bytes": list(second.encode()), "top_logprobs": [
                    {"token": second, "logprob": -0.69}, {"token": other, "logprob": -0.70}]}]}}

        with MockUpstream(in_turn(completion("A cat", **tokens(" cat", " cow")),
                                  completion("A cow", **tokens(" cow", " cat")))) as mock:
            found = self.probe(mock.url, "-n", 2, "--logprobs", 2, code=1)
            self.assertEqual(json.loads(mock.requests[0].body)["top_logprobs"], 2)
        branches = found["forks"][0]["branches"]
        self.assertEqual(found["forks"][0]["char"], 3)
        self.assertEqual([b["token"]["index"] for b in branches], [1, 1])
        self.assertEqual([t["text"] for t in branches[0]["token"]["top"]], [" cat", " cow"])

    def test_what_is_sent_is_one_greedy_request_with_the_key_in_its_place(self):
        env = {"PROBE_KEY": KEY}
        with MockUpstream(in_turn(completion("x"))) as mock:
            self.probe(mock.url, "-n", 2, "--api-key-env", "PROBE_KEY", env=env)
            first, second = mock.requests
        self.assertEqual(first.body, second.body)
        self.assertEqual(first.target, "/v1/chat/completions")
        self.assertEqual(json.loads(first.body), {"model": "demo", "messages": [
            {"role": "user", "content": "What is a log?"}], "max_tokens": 256, "temperature": 0})
        self.assertEqual(first.header("authorization"), "Bearer " + KEY)
        self.assertEqual(first.header("cache-control"), "no-store")
        message = Reply.json('{"content":[{"type":"text","text":"x"}],"model":"mock"}')
        with MockUpstream(in_turn(message)) as mock:
            self.probe(mock.url, "-n", 1, "--api", "anthropic", "--api-key-env", "PROBE_KEY", env=env)
            self.assertEqual(mock.requests[0].target, "/v1/messages")
            self.assertEqual(mock.requests[0].header("x-api-key"), KEY)
            self.assertIsNone(mock.requests[0].header("authorization"))

    def test_a_request_of_ones_own_is_sent_as_it_is(self):
        own = self.folder / "request.json"
        own.write_text('{"prompt":"Once","seed":7,"model":"other","stream":true,"temperature":0.5}')
        with MockUpstream(in_turn(Reply.json('{"choices":[{"text":" upon"}]}'))) as mock:
            found = self.probe(mock.url, "-n", 1, "--request", own)
            self.assertEqual(mock.requests[0].target, "/v1/completions")
            self.assertEqual(mock.requests[0].body, b'{"prompt":"Once","seed":7,"model":"demo","temperature":0.5}')
        self.assertEqual(found["clusters"][0]["text"], " upon")

    def test_the_key_is_never_shown(self):
        report = self.folder / "report.html"
        echo = Reply.json(json.dumps({"error": {"message": "Incorrect API key provided: " + KEY}}), "401 Unauthorized")
        with MockUpstream(in_turn(completion("ok"), echo, completion("your key is " + KEY))) as mock:
            run = self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 3, "--api-key-env",
                                "PROBE_KEY", "--report", report, "--json", env={"PROBE_KEY": KEY}, code=3)
        self.assertEqual(run.json["errors_by_kind"][0]["kind"], "key_echoed")
        self.assertEqual(run.json["errors_by_kind"][0]["count"], 2)
        for where in (run.out, run.err, report.read_text()):
            self.assertNotIn(KEY, where)

    def test_the_key_is_never_shown_in_whatever_form_it_comes_back(self):
        key = "sk-live/ab+cd/ef0123456789SECRET=="
        parts = [{"type": "text", "text": key[:9]}, {"type": "text", "text": key[9:]}]
        logprobs = {"content": [{"token": piece, "logprob": 0, "top_logprobs": []} for piece in (key[:9], key[9:])]}
        said = completion("You are " + key)
        body = said.body().decode()
        bearer = base64.b64encode(b"Bearer " + key.encode()).decode()

        def error(message, status="401 Unauthorized"):
            return Reply.json(json.dumps({"error": {"message": message}}).replace("/", "\\/"), status)

        replies = [
            Reply.json(body.replace("/", "\\/")),
            Reply.json(body.replace("sk-", "\\u0073k\\u002d")),
            Reply.json(body.replace("/", "\\/").replace("model", "\\u006dodel")),
            Reply("200 OK", [("content-type", "application/json"), ("content-encoding", "gzip")],
                  [gzip.compress(body.replace("/", "\\/").encode())]),
            completion(urllib.parse.quote(key, safe="")), completion(html.escape(key).replace("/", "&#47;")),
            completion(bearer), completion(bearer.replace("+", "-").replace("/", "_")), completion(key.encode().hex()),
            completion(parts), completion("hello", logprobs=logprobs), completion("x", finish_reason=key),
            Reply.json(json.dumps({**json.loads(body.replace(key, "")), "system_fingerprint": key}).replace("/", "\\/")),
            Reply.json(json.dumps({**json.loads(body.replace(key, "")), "model": key}).replace("/", "\\/")),
            error("Incorrect API key provided: " + key), error("-" * 190 + key, "500 Oops"),
            Reply.json(json.dumps({"error": key}).replace("/", "\\/"), "403 No"),
            Reply("200 OK", [("content-encoding", key)], [b"x"]),
        ]
        forms = [key, key.replace("/", "\\/"), "\\u0073k\\u002d", urllib.parse.quote(key, safe=""), html.escape(key), bearer,
                 bearer.replace("+", "-").replace("/", "_"), key.encode().hex(), key[9:], key.replace("/", "&#47;")]
        for number, reply in enumerate(replies):
            folder = self.folder / str(number)
            folder.mkdir()
            with MockUpstream(in_turn(reply)) as mock:
                base = ["probe", "--url", mock.url, "--model", "m", "--prompt", "x", "--quiet", "--api-key-env", "PROBE_KEY",
                        "--logprobs", 1]
                runs = [support.verbatim(*base, "-n", 2, "--report", folder / "r.html", "--csv", folder / "r.csv", *extra,
                                         env={"PROBE_KEY": key}) for extra in ([], ["--json"])]
                with self.subTest(reply=number):
                    self.assertEqual([e["count"] for e in runs[1].json["errors_by_kind"]], [2])
                    self.assertIn(runs[1].json["errors_by_kind"][0]["kind"], ("key_echoed", "coding"))
            with MockUpstream(in_turn(completion("fine"))) as mock:
                base[2] = mock.url
                self.run_well(*base, "-n", 6, "--series", folder / "s", env={"PROBE_KEY": key})
                mock.answer = in_turn(reply, *[completion("fine")] * 5)
                runs.append(support.verbatim(*base, "-n", 6, "--series", folder / "s", "--report", folder / "s.html", "--metrics",
                                             folder / "s.prom", "--json", env={"PROBE_KEY": key}))
                self.assertEqual(runs[-1].json["answered"], 5)
            outputs = [run.out + run.err for run in runs] + [p.read_text() for p in folder.rglob("*") if p.is_file()]
            for form in forms:
                for output in outputs:
                    self.assertNotIn(form, output, f"reply {number}")

    def test_a_key_in_a_header_alone_goes_nowhere(self):
        reply = completion("fine")
        reply.headers.append(("x-your-key", KEY))
        with MockUpstream(in_turn(reply, Reply.raw(f"HTTP/1.1 200 {KEY}\r\nbad header {KEY}\r\n\r\n".encode()))) as mock:
            run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 2, "--json", "--api-key-env",
                                   "PROBE_KEY", env={"PROBE_KEY": KEY})
        self.assertEqual((run.code, run.json["answered"], run.json["errors"]), (3, 1, 1))
        self.assertNotIn(KEY, run.out + run.err)

    def test_answers_that_tell_of_other_models_and_ends_are_counted(self):
        report = self.folder / "report.html"

        def reply(model, finish):
            return Reply.json(json.dumps({"model": model, "system_fingerprint": "fp_" + finish, "choices": [
                {"message": {"content": "yes"}, "finish_reason": finish}]}))

        with MockUpstream(in_turn(reply("m-1", "stop"), reply("m-2\x1b[2J", "length"), reply("m-1", "stop"))) as mock:
            found = self.probe(mock.url, "-n", 6, "--report", report)
            said = self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 6, "--quiet")
        self.assertEqual((found["distinct"], found["identical"]["count"]), (1, 6))
        self.assertEqual(found["models"], [{"model": "m-1", "count": 4}, {"model": "m-2\x1b[2J", "count": 2}])
        self.assertEqual(found["finish_reasons"], [{"finish_reason": "length", "count": 2}, {"finish_reason": "stop", "count": 4}])
        self.assertIn("2 different models: 4 x m-1, 2 x m-2?[2J\n2 different finish reasons: 2 x length, 4 x stop\n"
                      "2 different system_fingerprints: 2 x fp_length, 4 x fp_stop\n", said.out)
        plain = PlainText(report.read_text()).text
        self.assertIn("m-1 (4 answers)", plain)
        self.assertIn("length (2 answers)", plain)
        with MockUpstream(in_turn(reply("m-1", "stop"))) as mock:
            said = self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 2, "--quiet")
        self.assertNotIn("different", said.out)

    def test_every_failure_has_its_kind(self):
        limit = Reply.json('{"error":{"message":"slow down"}}', "429 Too Many Requests")
        cut = Reply("200 OK", [], [b'{"choices"', CLOSE], "chunked")
        replies = [completion("fine"), limit, Reply.json("<html>"), Reply.json("[]"), Reply.json('{"choices":[]}'), cut,
                   Reply("200 OK", [("content-encoding", "gzip")], [b"no gzip"])]
        with MockUpstream(in_turn(*replies)) as mock:
            found = self.probe(mock.url, "-n", 7, code=3)
        self.assertEqual({e["kind"]: e["count"] for e in found["errors_by_kind"]},
                         {"http_429": 1, "not_json": 1, "no_answer": 2, "truncated": 1, "coding": 1})
        self.assertEqual((found["errors"], found["answered"], found["distinct"]), (6, 1, 1))
        self.assertIn("slow down", [e["message"] for e in found["errors_by_kind"]])

    def test_every_kind_is_documented(self):
        replies = [Reply.raw(CLOSE), Reply.raw(RESET)]
        with MockUpstream(in_turn(*replies)) as mock:
            run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 2, "--json")
        self.assertEqual([(e["kind"], e["count"]) for e in run.json["errors_by_kind"]], [("closed", 2)])
        documented = (support.SOURCE / "docs/replay.md").read_text().split("counted\nby kind: ")[1].split("After five")[0]
        sources = "".join((support.SOURCE / "gateway" / name).read_text() for name in (
            "endpoint_client.cpp", "remote_upstream.cpp", "upstream_connection.cpp"))
        kinds = re.findall(r'Failure\{"(\w+)"|failed\("(\w+)"|50[24], "(\w+)"|error_kind = "(\w+)"|"(write)" : "(closed)"', sources)
        kinds = {kind for found in kinds for kind in found if kind} - {"proxy"}  # a probe knows no proxy
        self.assertLessEqual({"connect", "resolve", "tls", "truncated", "closed", "write", "coding"}, kinds)
        for kind in sorted(kinds):
            self.assertIn(f"`{kind}`", documented)

    def test_answers_whose_parts_differ_are_different(self):
        def message(**parts):
            return lambda i: json.dumps({"choices": [{"index": 0, "message": {k: json.loads(v.replace("%d", str(i))) for k, v in parts.items()}}]})

        def blocks(text):
            return lambda i: '{"content":%s}' % (text % i)

        for api, body in [
            ("openai", message(content='[{"type":"text","text":"answer %d"}]')),
            ("openai", message(content='"4"', reasoning_content='"thought %d"')),
            ("openai", message(function_call='{"name":"f","arguments":"%d"}')),
            ("openai", message(tool_calls='[{"id":"r","function":{"name":"f","arguments":"%d"}}]')),
            ("openai", message(refusal='"no %d"')),
            ("openai", lambda i: '{"choices":[{"index":1,"message":{"content":"b%d"}},{"index":0,"message":{"content":"a"}}]}' % i),
            ("anthropic", blocks('[{"type":"thinking","thinking":"%d","signature":"s"},{"type":"text","text":"x"}]')),
            ("anthropic", blocks('[{"type":"tool_use","id":"t","name":"f","input":{"a":%d}}]')),
        ]:
            with MockUpstream(in_turn(*[Reply.json(body(i)) for i in range(3)])) as mock:
                found = self.probe(mock.url, "-n", 6, "--api", api, code=1)
            self.assertEqual((found["answered"], found["distinct"], found["identical"]["count"]), (6, 3, 2), body(0))

    def test_an_answer_with_nothing_in_it_is_none(self):
        for api, body in [("openai", '{"choices":[{"message":{}}]}'), ("anthropic", '{"content":[]}')]:
            with MockUpstream(in_turn(Reply.json(body))) as mock:
                run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 2, "--api", api, "--json")
            self.assertEqual(run.code, 3)
            self.assertEqual([(e["kind"], e["count"]) for e in run.json["errors_by_kind"]], [("no_answer", 2)])

    def test_what_an_endpoint_says_does_not_steer_the_terminal(self):
        hostile = "\u009b31mred\u202egnp\u2028\x1b[2J\x7f\ttwo\nlines"
        error = Reply.json(json.dumps({"error": {"message": hostile}}), "503 Service Unavailable")
        with MockUpstream(in_turn(completion(hostile), error, completion("日本" * 60))) as mock:
            run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 6, "--quiet")
        self.assertEqual(run.code, 1)
        self.assertIn("?31mred?gnp??[2J? two lines", run.out)
        self.assertIn("日本日本", run.out, "the beginning of a long text")
        self.assertNotRegex(run.out, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]")
        with MockUpstream(in_turn(error)) as mock:
            run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 1, "--quiet")
        self.assert_one_line_error(run, 3, "?31mred?gnp")

    def test_no_more_are_at_once_than_there_are(self):
        report = self.folder / "report.html"
        with MockUpstream(in_turn(completion("x"))) as mock:
            run = self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 4, "--concurrency", "1,300",
                                "--report", report, "--quiet")
        self.assertIn("  4 at once: 4 answered", run.out)
        self.assertNotIn("300 at once", run.out)
        self.assertNotIn("300", re.sub(r"<style>.*?</style>", "", report.read_text(), flags=re.S))

    def test_nothing_is_written_into_the_log(self):
        data = self.folder / "data"
        data.mkdir()
        for option in ("--report", "--csv", "--metrics"):
            self.assert_one_line_error(support.verbatim("probe", "--url", "http://127.0.0.1:9", "--model", "m", "--prompt", "x",
                                                        "--data", data, option, self.folder / "data/../data/out"),
                                       2, "folder of the log")
        self.assertEqual(list(data.iterdir()), [])

    def test_garbage_that_is_no_http_ends_the_question_not_the_probe(self):
        def answer(_):
            return Reply("abc def", [], [b"x"])

        with MockUpstream(answer) as mock:
            run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 2, "--json")
        self.assertEqual(run.code, 3)
        self.assertEqual(run.json["errors_by_kind"][0]["kind"], "malformed_response")
        self.assertEqual(run.json["errors"], 2)

    def test_an_endpoint_that_is_slow_is_a_timeout(self):
        slow = Reply("200 OK", [], [b"{", 30.0, b"}"], "chunked")
        with MockUpstream(in_turn(slow)) as mock:
            run = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 2, "--concurrency", 2,
                                   "--timeout", 1, "--json")
        self.assertEqual(run.code, 3)
        self.assertEqual([(e["kind"], e["count"]) for e in run.json["errors_by_kind"]], [("timeout", 2)])

    def test_an_endpoint_that_is_not_there_is_given_up(self):
        with MockUpstream(in_turn()) as mock:
            url = mock.url
        run = support.verbatim("probe", "--url", url, "--model", "m", "--prompt", "x", "-n", 30, "--json")
        self.assert_one_line_error(run, 3, "no answer came: connect")
        self.assertEqual((run.json["n"], run.json["errors"]), (5, 5))

    def test_certificates_are_verified(self):
        context, certificate = make_certificate(self.folder)
        with MockUpstream(in_turn(completion("x")), context) as mock:
            refused = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 1, "--json")
            self.assertEqual(refused.code, 3)
            self.assertEqual(refused.json["errors_by_kind"][0]["kind"], "tls")
            self.assertEqual(self.probe(mock.url, "-n", 1, "--ca-file", certificate)["distinct"], 1)

    def test_neighbours_are_other_requests_and_the_same_for_the_same_seed(self):
        def prompts():
            with MockUpstream(in_turn(completion("x"))) as mock:
                self.probe(mock.url, "-n", 40, "--neighbours", 1, "--seed", 5)
                return [r.body for r in mock.requests if b"Continue:" in r.body]

        first, second = prompts(), prompts()
        shared = min(len(first), len(second))
        self.assertGreater(shared, 1)
        self.assertEqual(first[:shared], second[:shared])
        self.assertGreater(len({len(body) for body in first}), 1, "of other lengths")

    def test_mistakes_in_the_command_are_named(self):
        for args, words in [
            (["--prompt", "x"], ["--url"]),
            (["--url", "http://127.0.0.1:9", "--model", "m"], ["--prompt"]),
            (["--url", "ftp://x", "--model", "m", "--prompt", "x"], ["http"]),
            (["--url", "http://127.0.0.1:9", "--prompt", "x"], ["--model"]),
            (["--url", "http://127.0.0.1:9", "--model", "m", "--prompt", "x", "--api", "smtp"], ["smtp"]),
            (["--url", "http://127.0.0.1:9", "--model", "m", "--prompt", "x", "--api-key-env", "NOT_SET_HERE"],
             ["NOT_SET_HERE"]),
        ]:
            self.assert_one_line_error(support.verbatim("probe", *args), 2, *words)

    def test_the_report_holds_the_figures_and_hostile_text_as_text(self):
        report, csv = self.folder / "report.html", self.folder / "answers.csv"
        hostile = "A</script><script>alert(1)</script>\u202egnp.exe\u202c <img src=x onerror=alert(1)>"
        with MockUpstream(in_turn(completion(hostile), completion("A plain answer"))) as mock:
            found = self.probe(mock.url, "-n", 6, "--report", report, "--csv", csv, code=1)
        page = report.read_text()
        plain = PlainText(page)
        self.assertNotIn("script", plain.tags)
        self.assertNotIn("img", plain.tags)
        self.assertNotIn("\u202e", page)
        self.assertIn("U+202E", plain.text)
        self.assertIn("</script><script>alert(1)</script>", plain.text)
        self.assertIn("2 different answers to one question, asked 6 times", plain.text)
        self.assertIn("3 of 6 answers were identical (50.0 %", plain.text)
        self.assertEqual(re.findall(r'(?:src|href)="', page), [])
        rows = [line.split(",") for line in csv.read_text().splitlines()]
        self.assertEqual(len(rows), 7)
        self.assertEqual([r[2] for r in rows[1:]], ["0", "1"] * 3)
        self.assertEqual({r[3] for r in rows[1:]}, {c["sha256"] for c in found["clusters"]})


if __name__ == "__main__":
    support.main()
