"""The cache's observe mode: a share of hits goes upstream all the same, and the answer is compared with the canonical one."""
import gzip
import hashlib
import http.client
import json
import re

import support
from faults import CHAT, CHAT_PATH, DONE, chat_chunk
from mock_upstream import MockUpstream, Reply

GREEDY = {**CHAT, "temperature": 0}


class Observe(support.ProgramTest):
    def start(self, percent, answer, more=""):
        self.upstream = MockUpstream(answer)
        self.addCleanup(self.upstream.close)
        config = self.folder / "c.toml"
        config.write_text(f"[cache]\nobserve_percent = {percent}\n{more}"
                          f'[[upstream]]\nname = "openai"\nurl = "{self.upstream.url}"\n')
        self.server = self.gateway("--config", config)

    def metrics(self, family="cache_observed_total"):
        address = re.search(r"metrics on http://([0-9.]+):(\d+)", self.server.output.read_text())
        connection = http.client.HTTPConnection(address[1], int(address[2]), timeout=10)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return {found[0]: int(found[1]) for found in
                re.findall(r'verbatim_' + family + r'\{model="m",result="(\w+)"\} (\d+)', text)}

    @staticmethod
    def whole(text, number, **more):
        return json.dumps({"id": f"c{number}", "created": number, "object": "chat.completion", "model": "m", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": number}, "system_fingerprint": f"fp{number}", **more})

    def test_each_answer_is_compared_and_counted_and_the_canonical_one_stays(self):
        texts = ["hi", "hi", "ho", "hi", "broken", "hi"]

        def answer(request):
            number = len(self.upstream.requests)
            text = texts[number - 1]
            if text == "broken":
                return Reply.json("no JSON")
            if b'"stream": true' in request.body:
                return Reply.events([chat_chunk("h", delta={"role": "assistant"}), chat_chunk("i"), chat_chunk(None, "stop"), DONE])
            if number == 6:
                return Reply.json(gzip.compress(self.whole(text, number).encode()), headers=[("content-encoding", "gzip")])
            return Reply.json(self.whole(text, number))

        self.start(100, answer)
        first = self.server.post(CHAT_PATH, GREEDY)
        self.assertEqual(first.cache, "miss")
        expected = ["same", "different", "same", "incomparable", "same"]
        for number, result in enumerate(expected):
            body = {**GREEDY, "stream": True} if number == 2 else GREEDY
            observed = self.server.post(CHAT_PATH, body)
            self.assertEqual((observed.status, observed.cache), (200, "bypass"))
            leaf = self.leaves(observed.record)["response"]
            self.assertEqual(leaf["observed"], {"origin": first.record, "result": result})
            self.assertNotIn("canonical", leaf)
        self.assertEqual(self.metrics(), {"same": 3, "different": 1, "incomparable": 1})
        self.assertEqual(len(self.upstream.requests), 6)
        self.assert_valid()

    def digests(self, record):
        return json.loads(self.contents(record)["response.observed"])

    def test_a_normal_form_is_compared_beside_the_texts_as_they_are(self):
        texts = ["Caf\u00e9 (1)", "Cafe\u0301\u3000\uff08\uff11\uff09\n", "Cafe (1)", "Caf\u00e9 (1)"]
        self.start(100, lambda request: Reply.json(self.whole(texts[len(self.upstream.requests) - 1], 1)),
                   'compare_as = ["nfc", "whitespace", "width", "nfc"]\n')
        first = self.server.post(CHAT_PATH, GREEDY)
        digests = []
        for raw, normal in (("different", "same"), ("different", "different"), ("same", "same")):
            observed = self.server.post(CHAT_PATH, GREEDY)
            self.assertEqual(self.leaves(observed.record)["response"]["observed"],
                             {"origin": first.record, "result": raw, "form": ["width", "nfc", "whitespace"],
                              "normal_result": normal})
            digests.append(self.digests(observed.record))
            for member, result in (("sha256", raw), ("normal_sha256", normal)):
                same = digests[-1]["canonical"][member] == digests[-1]["answer"][member]
                self.assertEqual(same, result == "same", (raw, normal, member))
        # Anybody can make them again.
        said = {"choices": [{"finish_reason": "stop", "index": 0,
                             "message": {"content": texts[1], "role": "assistant"}}], "model": "m", "object": "chat.completion"}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.assertEqual(digests[0]["answer"]["sha256"], hashlib.sha256(text.encode()).hexdigest())
        self.assertEqual(digests[0]["answer"]["normal_sha256"], digests[0]["canonical"]["sha256"])
        self.assertEqual(self.metrics(), {"same": 1, "different": 2, "incomparable": 0})
        self.assertEqual(self.metrics("cache_observed_normal_total"), {"same": 2, "different": 1, "incomparable": 0})
        self.assert_valid()

    def test_no_digest_is_kept_of_an_answer_from_which_something_was_taken_out(self):
        texts = ["hi", "mail a@b.example"]
        self.start(100, lambda request: Reply.json(self.whole(texts[len(self.upstream.requests) - 1], 1)),
                   'compare_as = ["nfc"]\n[[redact]]\nname = "r"\npatterns = ["email"]\n')
        self.server.post(CHAT_PATH, GREEDY)
        leaf = self.leaves(self.server.post(CHAT_PATH, GREEDY).record)["response"]
        self.assertEqual((leaf["observed"]["result"], leaf["observed"]["normal_result"]), ("different", "different"))
        self.assertEqual(leaf["capture"]["left_out"]["response.observed"], "redacted")
        self.assertNotIn("response.observed", [content["field"] for content in leaf["contents"]])

    def test_the_share_is_as_configured_and_evenly_spread(self):
        self.start(25, lambda request: Reply.json(self.whole("hi", 1)))
        answers = [self.server.post(CHAT_PATH, GREEDY).cache for _ in range(13)]
        self.assertEqual(answers, ["miss"] + ["hit", "hit", "hit", "bypass"] * 3)
        self.assertEqual(len(self.upstream.requests), 4)

    def test_an_upstream_that_fails_is_no_comparison(self):
        def answer(request):
            return Reply.json(self.whole("hi", 1)) if len(self.upstream.requests) == 1 else Reply.json("{}", "500 No")

        self.start(100, answer)
        self.server.post(CHAT_PATH, GREEDY)
        failed = self.server.post(CHAT_PATH, GREEDY)
        self.assertEqual(failed.status, 500)
        self.assertNotIn("result", self.leaves(failed.record)["response"]["observed"])
        self.assertEqual(self.metrics(), {})

    def test_it_is_off_by_default_and_bounded_in_the_configuration(self):
        config = self.folder / "c.toml"
        config.write_text("[cache]\nobserve_percent = 101\n")
        self.assert_one_line_error(support.verbatim("gateway", "--config", config, "--check"), 2, "from 0 to 100")
        config.write_text('[cache]\ncompare_as = ["nfkc"]\n')
        self.assert_one_line_error(support.verbatim("gateway", "--config", config, "--check"), 2, "nfc, whitespace, width")
        config.write_text("# as it is without one\n")
        cache = self.run_well("gateway", "--config", config, "--check").json["cache"]
        self.assertEqual((cache["observe_percent"], cache["compare_as"]), (0, []))


if __name__ == "__main__":
    support.main()
