"""Answers that llama.cpp really gave, replayed by our engine with the same weights. tests/bench/replay/tell_apart.py recorded
them (--honest 199 --answers 40 --keep; of some cases the first 12 are llamacpp_answers.jsonl); here they come from a server that
says them again."""
import json
import os
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


class ForeignEngineTest(support.ProgramTest):
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

        def diverged(case, code):
            run = self.run_well("replay", "--data", record(case), "--all", "--engine", engine, "--calibration", calibration,
                                "--json", code=code).json
            self.assertEqual(run["summary"]["NOT_REPLAYABLE"], 0, run["records"])
            return run["summary"]["DIVERGED"] / len(run["records"])

        self.assertEqual(diverged("honest, as calibrated", 0), 0)
        for case in ("Q4_K_M weights", "two layers swapped", "a hidden sentence before the prompt",
                     "sampled at temperature 0.7", "one word of the answer edited"):
            self.assertGreater(diverged(case, 1), 0.5, case)


if __name__ == "__main__":
    support.main()
