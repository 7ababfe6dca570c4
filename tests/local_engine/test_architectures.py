"""Every architecture, as safetensors and as GGUF, against float64_model.py: log-probabilities of the whole vocabulary at every
position. The model is random and tiny, the reference is plain Python.

The bound: a chain of K f32 products of size s has an error near sqrt(K) s 2^-24; logits here are of size 1 to 4 and K is at
most 48, and inverse frequencies are f32 in the profile, so an angle at position 70 is off by up to 70 * 2^-24. Together some
1e-6 to 1e-5; 3e-5 says that an equation differs."""
import json
import math
import os
import random
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import float64_model
import tiny_files

BOUND = 3e-5
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0, 4.0, 1.25, 3.0], "attention_factor": 1.19,
            "original_max_position_embeddings": 512}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
GEMMA = {"tie_word_embeddings": True, "hidden_act": None, "hidden_activation": "gelu_pytorch_tanh", "head_dim": 12}
GEMMA2 = {**GEMMA, "query_pre_attn_scalar": 20, "sliding_window": 16, "attn_logit_softcapping": 2.0,
          "final_logit_softcapping": 1.5, "num_hidden_layers": 3}
GEMMA3 = {**GEMMA, "query_pre_attn_scalar": 12, "sliding_window": 16, "sliding_window_pattern": 3, "num_hidden_layers": 4,
          "rope_theta": 1e6, "rope_local_base_freq": 10000.0}


class ArchitecturesTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="verbatim-architectures-"))
        self.addCleanup(shutil.rmtree, self.folder)
        chance = random.Random(5)
        self.ids = [chance.randrange(3, 64) for _ in range(70)]

    def run_engine(self, path):
        done = subprocess.run([os.environ["VERBATIM"], "engine", "score", "--model", path, "--prompt-ids", str(self.ids[0]),
                               "--output-ids", ",".join(map(str, self.ids[1:])), "--logprobs", "64", "--json"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def compare(self, result, logits):
        worst = 0
        for token, row in zip(result["tokens"], logits):
            top = max(row)
            norm = top + math.log(sum(math.exp(v - top) for v in row))
            self.assertEqual(len(token["top"]), len(row))
            worst = max([worst] + [abs(logprob - (row[i] - norm)) for i, logprob in token["top"]])
        self.assertLess(worst, BOUND)
        self.assertGreater(worst, 0)  # f32 is not f64: nothing would have been compared
        return worst

    def check(self, architecture, gguf=True, **more):
        """Both files of a model against the reference; returns the engine's result on the folder."""
        config = tiny_files.config_of(architecture + "ForCausalLM", **more)
        tensors = tiny_files.tensors_of(config)
        logits = float64_model.Float64Model(config, tensors).logits(self.ids)
        name = self.folder / f"{architecture}{len(list(self.folder.iterdir()))}"
        tiny_files.write_folder(name, config, tensors)
        result = self.run_engine(name)
        worst = self.compare(result, logits)
        print(f"{architecture}: worst error {worst:.2e}")
        if gguf:
            tiny_files.write_gguf(name.with_suffix(".gguf"), config, tensors)
            other = self.run_engine(name.with_suffix(".gguf"))
            self.compare(other, logits)
            if gguf == "same bits":
                self.assertEqual(other["logits_digest"], result["logits_digest"])
        return result

    # eps 2^-16 and a theta of whole numbers are the same in f32 and f64: then both files mean the same model.
    SAME = {"gguf": "same bits", "rms_norm_eps": 2.0 ** -16}

    def test_llama(self):
        self.check("Llama", **self.SAME)
        self.check("Llama", gguf=False, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)

    def test_llama_rope_kinds(self):
        digests = [self.check("Llama", **self.SAME)["logits_digest"]]
        for scaling in ({"rope_type": "linear", "factor": 4.0},
                        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
                        {"rope_type": "yarn", "factor": 2.0}):
            digests.append(self.check("Llama", **self.SAME, rope_scaling=scaling)["logits_digest"])
        for scaling in (LLAMA3, {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 32, "beta_fast": 8.0,
                                 "beta_slow": 2.0, "truncate": False, "attention_factor": 1.25}):
            digests.append(self.check("Llama", gguf=False, rope_scaling=scaling)["logits_digest"])
        self.assertEqual(len(set(digests)), len(digests), "every kind must change the result")

    def test_rope_freqs_of_a_gguf(self):
        config = tiny_files.config_of("LlamaForCausalLM")
        tensors = tiny_files.tensors_of(config)
        factors = [1.0, 1.0, 2.5, 7.0, 8.0, 8.0]
        path = self.folder / "model.gguf"
        original = tiny_files.gguf_tensors
        self.addCleanup(setattr, tiny_files, "gguf_tensors", original)
        tiny_files.gguf_tensors = lambda *args: {**original(*args), "rope_freqs.weight": factors}
        tiny_files.write_gguf(path, config, tensors)
        with_factors = self.run_engine(path)
        config["rope_scaling"] = {"rope_type": "factors", "factors": factors}
        self.compare(with_factors, float64_model.Float64Model(config, tensors).logits(self.ids))

    def test_mistral(self):
        self.check("Mistral", **self.SAME, sliding_window=16)

    def test_qwen2(self):
        self.check("Qwen2", **self.SAME)

    def test_qwen3(self):
        self.check("Qwen3", **self.SAME, tie_word_embeddings=True)

    def test_mixtral(self):
        self.check("Mixtral", **self.SAME, num_local_experts=4, num_experts_per_tok=2)

    def test_qwen3_moe(self):
        experts = {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
        self.check("Qwen3Moe", **self.SAME, **experts, norm_topk_prob=True)
        self.check("Qwen3Moe", gguf=False, **experts, norm_topk_prob=False)

    def test_olmoe(self):
        experts = {"num_experts": 6, "num_experts_per_tok": 2}
        plain = self.check("Olmoe", **self.SAME, **experts)
        other = self.check("Olmoe", gguf=False, rms_norm_eps=2.0 ** -16, **experts, norm_topk_prob=True)
        self.assertNotEqual(plain["logits_digest"], other["logits_digest"])

    def test_phi3(self):
        self.check("Phi3", **self.SAME, sliding_window=20)
        self.check("Phi3", gguf=False, rope_scaling=LONGROPE)
        self.check("Phi3", **self.SAME, head_dim=16, partial_rotary_factor=0.75)

    def test_gemma(self):
        self.check("Gemma", **self.SAME, **GEMMA)
        # The embedding's scale is rounded to the model's own type: sqrt(40) = 6.3246 is 6.3125 in bfloat16.
        self.check("Gemma", gguf=False, **GEMMA, hidden_size=40, torch_dtype="bfloat16")

    def test_gemma2(self):
        capped = self.check("Gemma2", gguf=False, rms_norm_eps=2.0 ** -16, **GEMMA2)
        # A GGUF holds no query_pre_attn_scalar: with the head's own size both files mean the same model.
        self.check("Gemma2", **self.SAME, **{**GEMMA2, "query_pre_attn_scalar": 12})
        for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
            config = {**GEMMA2, cap: 30.0}
            other = self.check("Gemma2", gguf=False, rms_norm_eps=2.0 ** -16, **config)
            self.assertNotEqual(other["logits_digest"], capped["logits_digest"], cap)

    def test_gemma3(self):
        self.check("Gemma3", gguf=False, **GEMMA3)
        self.check("Gemma3", gguf=False, **{**GEMMA3, "sliding_window_pattern": None, "num_hidden_layers": 3},
                   layer_types=["full_attention", "sliding_attention", "full_attention"])
        six = {**GEMMA3, "sliding_window_pattern": 6, "num_hidden_layers": 7}
        self.check("Gemma3", **self.SAME, **six)
        self.check("Gemma3", **self.SAME, **six, rope_scaling={"rope_type": "linear", "factor": 8.0})


if __name__ == "__main__":
    unittest.main()
