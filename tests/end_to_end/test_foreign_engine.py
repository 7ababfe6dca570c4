"""Answers that llama.cpp really gave, replayed by our engine with the same weights. tests/bench/replay/tell_apart.py recorded
them (--honest 199 --answers 40 --keep; of some cases the first 12 are llamacpp_answers.jsonl); here they come from a server that
says them again."""
import json
import os
import re
from collections import defaultdict
from pathlib import Path

import support
from mock_upstream import MockUpstream, Reply

ANSWERS = Path(__file__).parent / "llamacpp_answers.jsonl"


def weights():
    shared = Path(os.environ.get("VERBATIM_SHARED", support.SOURCE / ".." / "shared"))
    path = shared / "data/models/stories260K/stories260K.gguf"
    if not path.exists():
        reason = f"no shared data at {path}; set VERBATIM_SHARED"
        print(f"SKIPPED: {reason}", flush=True)
        raise support.unittest.SkipTest(reason)
    return path


def pieces(folder):
    """The bytes of each token of a byte-fallback vocabulary."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    byte = re.compile(r"<0x([0-9A-F]{2})>")
    return {token: bytes.fromhex(byte.fullmatch(piece)[1]) if byte.fullmatch(piece) else piece.replace("\u2581", " ").encode()
            for piece, token in vocabulary.items()}


class ForeignEngineTest(support.ProgramTest):
    def test_other_precisions_part_from_ours_where_they_part_from_llama_cpps_own_f32(self):
        gguf = weights()
        said = [json.loads(line) for line in (gguf.parent / "expected-llamacpp.jsonl").read_text().splitlines()]
        said = [each for each in said if each["prompt"]]  # the API asks for a prompt
        text_of = pieces(gguf.parent.parent / "stories260K-hf")
        asked = {}  # record: what was said, and where it forks

        answer = None
        with MockUpstream(lambda request: answer) as upstream, self.gateway("--upstream", f"llama={upstream.url}") as gateway:
            for each in said:
                text = b"".join(text_of[token] for token in each["greedy_ids"]).decode()
                answer = Reply.json(json.dumps({"object": "text_completion", "choices": [
                    {"index": 0, "text": text, "finish_reason": "length"}]}))
                asked[gateway.post("/v1/completions", {"model": "stories", "prompt": each["prompt"], "temperature": 0,
                                                       "max_tokens": len(each["greedy_ids"])},
                                   headers={"Cache-Control": "no-store"}).record] = each
        run = self.run_well("replay", "--data", self.data, "--all", "--engine", f"stories={gguf}", "--json", code=1).json
        found = {record["id"]: (record["verdict"], record["position"]) for record in run["records"]}
        self.assertEqual(found, {record: ("TOKEN_EXACT", None) if each["fork_from_f32_at"] is None
                                 else ("DIVERGED", each["fork_from_f32_at"]) for record, each in asked.items()})
        self.assertEqual((len(asked), run["summary"]["DIVERGED"]), (25, 10))

    def test_our_own_completions_are_llama_cpps_to_the_byte_with_their_first_space(self):
        gguf = weights()
        said = [json.loads(line) for line in (gguf.parent / "expected-llamacpp.jsonl").read_text().splitlines()]
        said = [each for each in said if each["prompt"] and (each["file"], each["kv_cache"]) == (gguf.name, "f32")]
        text_of = pieces(gguf.parent.parent / "stories260K-hf")
        begun = set()
        with self.gateway("--model", f"stories={gguf}") as gateway:
            for each in said:
                text = b"".join(text_of[token] for token in each["greedy_ids"]).decode()
                body = {"model": "stories", "prompt": each["prompt"], "temperature": 0, "max_tokens": len(each["greedy_ids"])}
                self.assertEqual(gateway.post("/v1/completions", body).json["choices"][0]["text"], text)
                echoed = gateway.post("/v1/completions", {**body, "echo": True}).json["choices"][0]["text"]
                self.assertEqual(echoed, each["prompt"] + text)
                begun.add(text[0])
        self.assertIn(" ", begun)
        run = self.run_well("replay", "--data", self.data, "--all", "--json").json
        self.assertEqual(run["summary"]["BITWISE"], 2 * len(said))

    def test_honest_answers_are_calibrated_and_other_weights_prompts_and_words_told_apart(self):
        engine = f"stories={weights()}"
        answers = defaultdict(dict)
        for line in ANSWERS.read_text().splitlines():
            answer = json.loads(line)
            answers[answer["case"]][answer["prompt"]] = answer

        def record(case):
            def say(request):
                answer = answers[case][json.loads(request.body)["prompt"]]
                return Reply.json(json.dumps({"object": "text_completion", "choices": [
                    {"index": 0, "text": answer["text"], "finish_reason": answer["finish_reason"]}]}))

            data = self.folder / case.replace(" ", "-")
            with MockUpstream(say) as upstream, self.gateway("--upstream", f"llama={upstream.url}", data=data) as gateway:
                for prompt in answers[case]:
                    gateway.post("/v1/completions", {"model": "stories", "prompt": prompt, "temperature": 0,
                                                     "max_tokens": 64})
            return data

        calibration = self.folder / "calibration.json"
        made = self.run_well("replay", "calibrate", "--data", record("calibration"), "--model", "stories", "--engine", engine,
                             "--rate", 0.01, "--out", calibration, "--json").json["calibration"]
        self.assertEqual(made["records"], 199)
        # llama.cpp keeps its keys and values as F16, so near ties go the other way, and only those.
        self.assertEqual(made["differing"], 6)
        self.assertLess(float(made["threshold"]), 0.01)

        def judged(case, code):
            run = self.run_well("replay", "--data", record(case), "--all", "--engine", engine, "--calibration", calibration,
                                "--json", code=code).json
            self.assertEqual(run["summary"]["NOT_REPLAYABLE"], 0, run["records"])
            return run

        def diverged(case, code):
            run = judged(case, code)
            return run["summary"]["DIVERGED"] / len(run["records"])

        self.assertEqual(diverged("honest, as calibrated", 0), 0)
        penalised = judged("honest, Ollama's penalty unasked", 0)
        self.assertEqual(penalised["summary"]["DIVERGED"], 0)
        self.assertGreater(sum(record.get("defaults", "").endswith("Ollama's default") for record in penalised["records"]), 6)
        self.assertGreater(diverged("fine-tuned by 1 step", 1), 0.25)
        for case in ("Q4_K_M weights", "two layers swapped", "a hidden sentence before the prompt",
                     "sampled at temperature 0.7", "one word of the answer edited"):
            self.assertGreater(diverged(case, 1), 0.5, case)


if __name__ == "__main__":
    support.main()
