"""The CUDA backend, asked for on whatever machine this is: it serves, or says in one line why it cannot; and by configuration
the processor serves in its place, with the same bits. What it computes is a matter of the kernels' own tests."""
import support
from support import chat

ASK = ("engine", "generate", "--model", support.DEMO_MODEL, "--prompt-ids", "5,6,7", "--max-tokens", "5", "--json")
REASONS = ("no CUDA device: ", "this build has no CUDA kernels", "compute capability")


class CudaBackend(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.right = self.run_well(*ASK).json
        self.asked = support.verbatim(*ASK, "--backend", "cuda")

    def need_no_device(self):
        if self.asked.code == 0:
            self.skipTest("there is a CUDA device here")

    def test_it_serves_or_says_why_not_in_one_line(self):
        if self.asked.code == 0:
            self.assertEqual(self.asked.json["backend"], "cuda")
            self.assertEqual(self.asked.json["logits_digest"], self.right["logits_digest"])
            return
        code = 3 if "no CUDA device" in self.asked.err else 2
        self.assert_one_line_error(self.asked, code)
        self.assertTrue(any(reason in self.asked.err for reason in REASONS), self.asked.err)

    def test_a_selfcheck_with_the_device_needs_one(self):
        self.need_no_device()
        checked = support.verbatim("engine", "selfcheck", "--model", support.DEMO_MODEL, "--seconds", "0", "--cuda")
        self.assert_one_line_error(checked, self.asked.code)

    def test_the_processor_takes_its_place_with_the_same_bits(self):
        self.need_no_device()
        done = self.run_well(*ASK, "--backend", "cuda", "--cuda-fallback", "cpu")
        self.assertEqual(done.json["token_ids"], self.right["token_ids"])
        self.assertEqual(done.json["logits_digest"], self.right["logits_digest"])
        self.assertEqual(done.json["backend"], self.right["backend"])
        self.assertIn("verbatim: the processor computes in place of the device: ", done.err)
        self.assert_one_line_error(support.verbatim(*ASK, "--backend", "cuda", "--cuda-fallback", "gpu"), 2)

    def test_a_gateway_refuses_to_start_or_records_who_served(self):
        self.need_no_device()
        config = self.folder / "verbatim.toml"
        asked = f'[engine]\nbackend = "cuda"\n[[model]]\nname = "demo"\npath = "{support.DEMO_MODEL}"\n'
        config.write_text(asked)
        for flags in ((), ("--check",)):
            refused = support.verbatim("gateway", "--listen", "127.0.0.1:0", "--data", self.data, "--config", config, *flags)
            self.assertTrue(any(reason in refused.err for reason in REASONS), refused.err)
            self.assertIn(refused.code, (2, 3))
        config.write_text(asked.replace('"cuda"\n', '"cuda"\ncuda_fallback = "cpu"\n'))
        with self.gateway("--config", config) as served:
            answer = served.post("/v1/chat/completions", chat("Who are you?", temperature=0, max_tokens=4))
            self.assertEqual(answer.status, 200, answer.body)
        engine = self.leaves(answer.record)["response"]["engine"]
        self.assertEqual(engine["backend"], self.right["backend"])
        self.assert_valid()


if __name__ == "__main__":
    support.main()
