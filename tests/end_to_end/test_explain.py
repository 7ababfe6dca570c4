"""Below the logits: digests of layers and fingerprints of activations, written, recorded, compared, and told in a report."""
import json
import shutil
import struct

import support
from support import chat


def changed(model, folder, tensor):
    """A copy of a model of which one bfloat16 tensor has one bit of each mantissa flipped."""
    shutil.copytree(model, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    header = struct.unpack("<Q", data[:8])[0]
    about = json.loads(data[8:8 + header])[tensor]
    assert about["dtype"] == "BF16"
    begin, end = (8 + header + at for at in about["data_offsets"])
    for at in range(begin, end, 2):
        data[at] ^= 0x20
    path.write_bytes(data)
    return folder


class EngineTest(support.ProgramTest):
    """The engine by itself: files."""

    def files_of(self, model, name, *flags):
        """Digests of the layers while one answer is scored."""
        path = self.folder / name
        self.run_well("engine", "score", "--model", model, "--prompt-ids", "300,301,302,303", "--output-ids", "304,305,306,307",
                      "--layer-digests", path, *flags, "--json")
        return path

    def compare(self, a, b, code=0):
        return self.run_well("engine", "compare", a, b, "--json", code=code).json

    def test_a_changed_tensor_of_each_kind_is_found_by_its_layer_and_operator(self):
        honest = {detail: self.files_of(support.DEMO_MODEL, f"honest-{detail}", "--layer-detail", detail)
                  for detail in ("residual", "operators")}
        attention, network = "attention_residual", "feed_forward_residual"
        for name, operator, half in (("input_layernorm", "attention_norm", attention), ("self_attn.q_proj", "q", attention),
                                     ("self_attn.k_proj", "k", attention), ("self_attn.v_proj", "v", attention),
                                     ("self_attn.o_proj", "attention_output", attention),
                                     ("post_attention_layernorm", "feed_forward_norm", network),
                                     ("mlp.gate_proj", "gate", network), ("mlp.up_proj", "up", network),
                                     ("mlp.down_proj", "down", network)):
            model = changed(support.DEMO_MODEL, self.folder / f"model-{name}", f"model.layers.2.{name}.weight")
            for detail, expected in (("residual", half), ("operators", operator)):
                found = self.compare(honest[detail], self.files_of(model, "other", "--layer-detail", detail), code=1)
                self.assertEqual((found["first"]["layer"], found["first"]["operator"]), (2, expected), name)
                self.assertEqual(len(found["causes"]), 1, name)
                self.assertFalse(found["same"])
        for tensor, operator in (("model.embed_tokens.weight", "embedding"), ("model.norm.weight", "final_norm")):
            model = changed(support.DEMO_MODEL, self.folder / tensor, tensor)
            found = self.compare(honest["residual"], self.files_of(model, "other"), code=1)
            self.assertEqual((found["first"]["operator"], "layer" in found["first"]), (operator, False))

    def test_backends_threads_and_chunks_show_no_difference(self):
        honest = self.files_of(support.DEMO_MODEL, "honest", "--layer-detail", "operators")
        for flags in (["--backend", "scalar"], ["--threads", 1], ["--prefill-chunk", 3]):
            found = self.compare(honest, self.files_of(support.DEMO_MODEL, "other", "--layer-detail", "operators", *flags))
            self.assertEqual((found["same"], found["positions"], found["first"], found["causes"]), (True, 7, None, []))
        self.assertIn("no difference", self.run_well("engine", "compare", honest, self.folder / "other").out)

    def test_generating_and_scoring_give_the_same_file_and_the_same_answer_as_without(self):
        ids = "300,301,302"
        plain = self.run_well("engine", "generate", "--prompt-ids", ids, "--max-tokens", 40, "--ignore-eos", "--json").json
        made, print_ = self.folder / "made", self.folder / "fingerprint"
        watched = self.run_well("engine", "generate", "--prompt-ids", ids, "--max-tokens", 40, "--ignore-eos", "--layer-digests",
                                made, "--fingerprint", print_, "--json").json
        plain.pop("timing"), watched.pop("timing")
        self.assertEqual(plain, watched)
        again = self.folder / "again"
        scored = self.run_well("engine", "score", "--prompt-ids", ids, "--output-ids", ",".join(map(str, plain["token_ids"])),
                               "--layer-digests", again, "--check-fingerprint", print_, "--json").json
        self.assertEqual(json.loads(made.read_text()), json.loads(again.read_text()))
        self.assertEqual(print_.stat().st_size, 2 * 258)  # of 40 tokens, 128 wide
        self.assertEqual((scored["fingerprint"]["chunks"], scored["fingerprint"]["exact"]), (2, 2))

    def test_what_only_one_of_two_files_has_is_said(self):
        less, more = self.files_of(support.DEMO_MODEL, "less"), self.files_of(support.DEMO_MODEL, "more", "--layer-detail", "operators")
        found = self.compare(less, more)
        self.assertEqual((found["same"], found["stages"]), (True, found["a"]["stages"]))
        self.assertGreater(found["b"]["stages"], found["a"]["stages"])
        text = self.run_well("engine", "compare", less, more).out
        self.assertIn(f"not compared, since the other has them not: {found['b']['stages'] - found['stages']} stages and 0", text)

    def test_other_tokens_are_said_and_what_comes_before_them_is_compared(self):
        a = self.files_of(support.DEMO_MODEL, "a")
        b = self.folder / "b"
        self.run_well("engine", "score", "--prompt-ids", "300,301,302,303", "--output-ids", "304,309,306,307", "--layer-digests", b)
        found = self.compare(a, b, code=1)
        self.assertEqual((found["tokens_differ_at"], found["positions"], found["first"]), (5, 5, None))

    def test_files_that_nobody_wrote_are_refused(self):
        good = self.files_of(support.DEMO_MODEL, "good")
        bad = self.folder / "bad"
        cases = [b"", b"[]", b"{}", b"\xff\xfe", good.read_bytes()[:-40]]
        for change in ({"v": 2}, {"prompt_ids": [-1]}, {"output_ids": "x"}, {"prompt_ids": []}, {"digests": 3},
                       {"digests": {"detail": "residual", "positions": 7, "block": 0, "stages": []}}):
            cases.append(json.dumps({**json.loads(good.read_text()), **change}).encode())
        for content in cases:
            bad.write_bytes(content)
            self.assert_one_line_error(support.verbatim("engine", "compare", good, bad), 2, "bad")
        for content, said in ((b"", "nothing is in this file"), (b"x" * 257, "bad): it must be"), (b"\xff" * 258, "bad): it must be")):
            bad.write_bytes(content)
            self.assert_one_line_error(support.verbatim("engine", "score", "--prompt-ids", "300,301", "--output-ids", "302",
                                                        "--check-fingerprint", bad), 2, said)


class RecordTest(support.ProgramTest):
    """A gateway whose model keeps both, and replays of what it recorded."""

    def setUp(self):
        super().setUp()
        self.config = self.folder / "verbatim.toml"
        self.config.write_text(f'[[model]]\nname = "demo"\npath = "{support.DEMO_MODEL}"\nlayer_digest_bytes = 65536\n'
                               "activation_fingerprints = true\n")

    def replay(self, *args, code=0):
        return self.run_well("replay", "--data", self.data, "--all", *args, "--json", code=code).json["records"]

    def test_what_is_kept_is_committed_to_and_checked_in_replays(self):
        with self.gateway("--config", self.config) as gateway:
            one = gateway.post("/v1/completions", {"model": "demo", "prompt": "The log", "temperature": 0, "max_tokens": 96,
                                                   "ignore_eos": True})
            gateway.post("/v1/chat/completions", chat("Tell me a story.", temperature=1, seed=3, n=2, stream=True))
        response = self.leaves(one.record)["response"]
        self.assertEqual(response["engine"]["fingerprint"], {"hidden": 128})
        sizes = {c["field"]: c["bytes"] for c in response["contents"]}
        self.assertEqual(sizes["response.fingerprint"], 96 // 32 * 258)
        layers = json.loads(self.contents(one.record)["response.layers"])
        self.assertEqual((layers["choices"][0]["block"], len(layers["choices"][0]["stages"])), (1, 11))
        for record in self.replay():
            self.assertEqual(record["verdict"], "BITWISE")
            self.assertEqual(record["fingerprint"]["exact"], record["fingerprint"]["chunks"])
            self.assertEqual(record["fingerprint"]["mantissa_mean"], "0")
            self.assertNotIn("explanations", record)
        self.assert_valid()

    def test_weights_that_changed_are_named_by_layer_and_measured(self):
        with self.gateway("--config", self.config) as gateway:
            gateway.post("/v1/chat/completions", chat("What is a log?", temperature=0))
        other = changed(support.DEMO_MODEL, self.folder / "other", "model.layers.1.mlp.down_proj.weight")
        report = self.folder / "report.html"
        record, = self.replay("--explain", "--engine", f"demo={other}", "--report", report)
        self.assertEqual((record["verdict"], record["reason"]), ("NOT_REPLAYABLE", "weights_differ"))
        self.assertNotIn("--explain", record["detail"])
        plain, = self.replay("--engine", f"demo={other}")
        self.assertIn("--explain names the first that differs", plain["detail"])
        found, = record["explanations"]
        self.assertEqual((found["against"], found["first"]["layer"], found["first"]["operator"]),
                         ("record", 1, "feed_forward_residual"))
        self.assertEqual(record["fingerprint"]["exact"], 0)
        self.assertIn("layer 1, feed_forward_residual", report.read_text())
        self.assertIn("chunks within TOPLOC", report.read_text())
        text = self.run_well("replay", "--data", self.data, "--all", "--explain", "--engine", f"demo={other}").out
        self.assertIn("the first difference from the digests that the record keeps is in layer 1", text)
        self.assert_valid()

    def test_another_model_and_another_backend_are_compared_on_demand(self):
        with self.gateway() as gateway:
            gateway.post("/v1/chat/completions", chat("What is a log?", temperature=0))
        record, = self.replay("--against-backend", "scalar")
        self.assertEqual((record["verdict"], record["explanations"][0]["same"]), ("BITWISE", True))
        other = changed(support.DEMO_MODEL, self.folder / "other", "model.layers.3.self_attn.v_proj.weight")
        record, = self.replay("--against", other)
        first = record["explanations"][0]["first"]
        self.assertEqual((record["verdict"], first["layer"], first["operator"]), ("BITWISE", 3, "v"))
        # What was found is in the verdict's leaf, and comes back from it.
        again, = self.replay("--resume")
        self.assertEqual((again["resumed"], again["explanations"]), (True, record["explanations"]))

    def test_a_run_with_explain_looks_at_what_an_earlier_one_did_not(self):
        with self.gateway("--config", self.config) as gateway:
            gateway.post("/v1/chat/completions", chat("What is a log?", temperature=0))
        self.replay("--against-backend", "scalar")
        self.assertTrue(self.replay("--resume")[0]["resumed"])
        for resumed in (False, True):
            record, = self.replay("--resume", "--explain")
            self.assertEqual((record.get("resumed", False), record["explanations"][-1]["against"], record["explanations"][-1]["same"]),
                             (resumed, "record", True))

    def test_a_fingerprint_that_a_bundle_leaves_out_is_said_not_to_have_been_looked_at(self):
        with self.gateway("--config", self.config) as gateway:
            answer = gateway.post("/v1/chat/completions", chat("What is a log?", temperature=0))
        enough = ("--contents", "selected", "--disclose", "response.tokens", "request.body", "response.body")
        for name, flags, missing in (("all", (), None), ("some", enough, ["response.fingerprint"])):
            bundle, statements, report = (self.folder / f"{name}-{kind}" for kind in ("bundle", "statements", "report.html"))
            self.run_well("export", "--data", self.data, "--out", bundle, *flags)
            judge = ("replay", "--bundle", bundle, "--all", "--engine", f"demo={support.DEMO_MODEL}")
            record, = self.run_well(*judge, "--statements", statements, "--report", report, "--json").json["records"]
            statement = json.loads((statements / f"{answer.record}.json").read_text())["predicate"]["verbatim"]
            self.assertEqual(record["verdict"], "BITWISE")
            self.assertEqual((record.get("not_looked_at"), statement.get("not_looked_at")), (missing, missing))
            self.assertEqual("not looked at, since it is not disclosed: response.fingerprint" in self.run_well(*judge).out, missing is not None)
            self.assertEqual("response.fingerprint is not disclosed" in report.read_text(), missing is not None)

    def test_what_a_rule_takes_out_takes_these_with_it(self):
        self.config.write_text(self.config.read_text() + '[[redact]]\nname = "word"\npatterns = ["email"]\n')
        with self.gateway("--config", self.config) as gateway:
            answer = gateway.post("/v1/chat/completions", chat("Write to lily@example.com.", temperature=0))
        response = self.leaves(answer.record)["response"]
        self.assertFalse({"response.tokens", "response.layers", "response.fingerprint"} & set(self.contents(answer.record)))
        self.assertEqual({name for name, why in response["capture"]["left_out"].items() if why == "redacted"},
                         {"response.tokens", "response.layers", "response.fingerprint"})


if __name__ == "__main__":
    support.main()
