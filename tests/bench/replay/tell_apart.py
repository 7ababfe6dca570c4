#!/usr/bin/env python3
"""What a calibrated replay tells apart from honest rounding: answers of llama.cpp, honest and cheating, judged by our engine.

  tests/bench/replay/tell_apart.py --npm FOLDER --models FOLDER [--program build/release/cli/verbatim] [--json FILE]

FOLDER of --npm holds node_modules with node-llama-cpp (npm install node-llama-cpp); that of --models holds the
stories260K weights as GGUF: stories260K.gguf (F32) and -F16, -BF16 and -Q4_K_M. Every case is a server of its own behind a
gateway that records it; the log is then replayed by the F32 weights, under a calibration of honest answers to other
prompts. The fine-tuned weights need python3-torch. Prompts come from a fixed seed, so a second run on the same machine gives
the same table. Ends what it started.
"""
import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests/end_to_end"))
import support  # noqa: E402
from fine_tune import fine_tuned, sentences  # noqa: E402
from gguf_edit import Gguf  # noqa: E402

NAME, TOKENS = "stories", 64


def prompts(count):
    draw = random.Random(11)
    names = "Lily Tom Sara Ben Mia Max Anna Sam Lucy Tim".split()
    verbs = "had saw found wanted made lost liked".split()
    adjectives = "red big small blue shiny old soft happy".split()
    nouns = "ball dog cat tree car boat hat bird box flower".split()
    ends = ["", " One day,", " She", " He", " It was", " The"]
    made = {}
    while len(made) < count:
        made[f"{draw.choice(names)} {draw.choice(verbs)} a {draw.choice(adjectives)} {draw.choice(nouns)}."
             f"{draw.choice(ends)}"] = None
    return list(made)


class Llama:
    """llama_server.mjs with node-llama-cpp in reach."""

    def __init__(self, folder, **options):
        self.process = subprocess.Popen([shutil.which("node"), folder / "llama_server.mjs", json.dumps(options)],
                                        stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def run(*args, codes=(0,)):
    finished = support.verbatim(*args, "--json", timeout=3600)
    if finished.code not in codes:
        sys.exit(str(finished))
    return finished.json


class Experiment:
    def __init__(self, folder, npm, models, rate):
        self.folder, self.models, self.rate, self.answers = folder, models, rate, []
        shutil.copy(HERE / "llama_server.mjs", folder)
        os.symlink(npm / "node_modules", folder / "node_modules")
        self.honest = models / "stories260K.gguf"
        self.replayed_by = f"{NAME}={self.honest}"

    def record(self, name, asked, **options):
        """A log of what that server answers."""
        data = self.folder / name.replace(" ", "-")
        options.setdefault("model", str(self.honest))
        with Llama(self.folder, **options) as llama, support.Gateway(data, "--upstream", f"llama={llama.url}") as gateway:
            for prompt in asked:
                answer = gateway.post("/v1/completions", {"model": NAME, "prompt": prompt, "temperature": 0,
                                                          "max_tokens": TOKENS})
                assert answer.status == 200, answer.body
                choice = answer.json["choices"][0]
                self.answers.append({"case": name, "prompt": prompt, "text": choice["text"],
                                     "finish_reason": choice["finish_reason"]})
            gateway.stop(seconds=600)
        return data

    def calibrate(self, asked):
        data = self.record("calibration", asked)
        self.calibration = self.folder / "calibration.json"
        return run("replay", "calibrate", "--data", data, "--model", NAME, "--engine", self.replayed_by, "--rate", self.rate,
                   "--out", self.calibration)["calibration"]

    def token_ids(self, texts):
        return [run("engine", "generate", "--model", self.honest, "--prompt", text, "--max-tokens", 1)["prompt_token_ids"]
                for text in texts]

    def judge(self, name, asked, **options):
        data = self.record(name, asked, **options)
        records = run("replay", "--data", data, "--all", "--engine", self.replayed_by, "--calibration", self.calibration,
                      codes=(0, 1))["records"]
        kinds = [r["verdict"] for r in records]
        deficits = [float(r["deficit"]) for r in records if r["deficit"] is not None]
        beyond = kinds.count("DIVERGED") / len(kinds)
        return {"case": name, "answers": len(records), "tokens": sum(r["tokens"] for r in records),
                "differing": sum(r["differing"] for r in records),
                "deficit_median": statistics.median(deficits) if deficits else 0,
                "verdicts": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
                "answers_needed": None if beyond == 0 else 1 if beyond == 1 else
                math.ceil(math.log(0.05) / math.log(1 - beyond))}


def cases(experiment):
    """Name and the server's options; the first ones are honest, but not all are as the calibration was."""
    folder, models, honest = experiment.folder, experiment.models, experiment.honest
    yield "honest, as calibrated", {}
    yield "honest, F32 KV cache", {"kv": "F32"}
    yield "honest, flash attention", {"flash": True}
    yield "honest, batches of 3", {"batch": 3}
    yield "honest, Ollama's penalty unasked", {"penalty": 1.1}
    yield "F16 weights", {"model": str(models / "stories260K-F16.gguf")}
    yield "BF16 weights", {"model": str(models / "stories260K-BF16.gguf")}
    yield "Q4_K_M weights", {"model": str(models / "stories260K-Q4_K_M.gguf")}
    for sigma in (0.001, 0.01, 0.05):
        made = Gguf(honest).perturb(sigma).write(folder / f"perturbed-{sigma}.gguf")
        yield f"weights perturbed by {100 * sigma:g} %", {"model": str(made)}
    yield "two layers swapped", {"model": str(Gguf(honest).swap_layers(1, 2).write(folder / "swapped.gguf"))}
    for steps in (1, 10, 100):
        tuned = fine_tuned(Gguf(honest), experiment.token_ids(sentences()), steps).write(folder / f"tuned-{steps}.gguf")
        yield f"fine-tuned by {steps} step{'s' if steps > 1 else ''}", {"model": str(tuned)}
    yield "a hidden sentence before the prompt", {"before": "It was a sunny day. "}
    for temperature in (0.3, 0.7, 1.0):
        yield f"sampled at temperature {temperature:g}", {"temperature": temperature}
    yield "one word of the answer edited", {"word": "green"}


def markdown(result):
    calibration = result["calibration"]
    lines = [f"{calibration['records']} honest answers, {calibration['tokens']} tokens, {calibration['differing']} of them not "
             f"our engine's choice: threshold {calibration['threshold']} logit units, at most "
             f"{float(calibration['share_max']):.2%} of an answer's tokens, rate {calibration['false_positive_rate']}.", "",
             "| served instead | answers | tokens that differ | median deficit named | exact | within margin | diverged "
             "| answers for 95 % |", "|---|---|---|---|---|---|---|---|"]
    for row in result["cases"]:
        verdicts = row["verdicts"]
        lines.append(f"| {row['case']} | {row['answers']} | {row['differing']} of {row['tokens']} | "
                     f"{row['deficit_median']:.2g} | " +
                     " | ".join(str(verdicts.get(k, 0)) for k in ("TOKEN_EXACT", "WITHIN_MARGIN", "DIVERGED")) +
                     f" | {row['answers_needed'] or 'not told apart'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/cli/verbatim")
    parser.add_argument("--npm", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--honest", type=int, default=400, help="answers to calibrate with")
    parser.add_argument("--answers", type=int, default=100, help="answers to each case")
    parser.add_argument("--rate", type=float, default=0.01, help="of honest answers that may be called diverged")
    parser.add_argument("--only", action="append", help="only this case; may be given again")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="write the answers here, one a line")
    args = parser.parse_args()
    support.VERBATIM = str(args.program)
    asked = prompts(args.honest + args.answers)
    with tempfile.TemporaryDirectory(prefix="verbatim-tell-apart-") as folder:
        experiment = Experiment(Path(folder), args.npm.resolve(), args.models.resolve(), args.rate)
        result = {"calibration": experiment.calibrate(asked[:args.honest]), "cases": []}
        for name, options in cases(experiment):
            if args.only and name not in args.only:
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            result["cases"].append(experiment.judge(name, asked[args.honest:], **options))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    if args.keep:
        args.keep.write_text("".join(json.dumps(answer) + "\n" for answer in experiment.answers))
    print(markdown(result))


if __name__ == "__main__":
    main()
