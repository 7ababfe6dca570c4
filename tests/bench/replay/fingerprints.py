#!/usr/bin/env python3
"""What a fingerprint of activations tells apart: answers of a model, scored again as they were, and with other weights, other
prompts, other tokens.

  tests/bench/replay/fingerprints.py [--model stories260K.gguf] [--program build/release/cli/verbatim] [--json FILE]

--model is a GGUF with float32 weights and a tokenizer; without it a random model alone is measured, which this script makes.
Everything comes from fixed seeds, so a second run gives the same table on every machine.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/local_engine"), str(Path(__file__).resolve().parent)]
import tiny_files  # noqa: E402
from gguf_edit import Gguf  # noqa: E402

TOKENS = 64
OPENINGS = ("Once upon a time", "Sara had a red ball.", "Tom and Lily went to the park.", "The old boat", "One day, a big dog",
            "Ben was sad because", "It was a sunny day", "Mia liked to sing.", "The cat and the bird", "Max found a box.")


def run(program, *args):
    finished = subprocess.run([program, "engine", *map(str, args), "--json"], capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))}: {finished.stderr}")
    return json.loads(finished.stdout)


def joined(ids):
    return ",".join(map(str, ids))


class Experiment:
    """Answers of one model, each with its fingerprint."""

    def __init__(self, program, folder, model, answers):
        self.program, self.folder, self.model, self.answers = program, folder, model, []
        folder.mkdir()
        for number in range(answers):
            file = folder / f"{number}.fingerprint"
            answer = run(program, "generate", "--model", model, *self.prompt(number), "--max-tokens", TOKENS, "--temperature", 1,
                         "--seed", number, "--ignore-eos", "--fingerprint", file)
            self.answers.append((answer["prompt_token_ids"], answer["token_ids"], file))

    def prompt(self, number):
        opening = OPENINGS[number % len(OPENINGS)]
        return ["--prompt", opening + " And" * (number // len(OPENINGS))]

    def score(self, name, model=None, prompt=lambda ids: ids, output=lambda ids: ids, flags=()):
        """How the answers, scored that way, agree with their fingerprints."""
        print(f"{name} ...", file=sys.stderr, flush=True)
        found = [run(self.program, "score", "--model", model or self.model, "--prompt-ids", joined(prompt(ids)), "--output-ids",
                     joined(output(out)), "--check-fingerprint", file, *flags)["fingerprint"] for ids, out, file in self.answers]

        def middle(name):
            return statistics.median(float(f[name]) for f in found)

        return {"case": name, "chunks": sum(f["chunks"] for f in found), "exact": sum(f["exact"] for f in found),
                "accepted": sum(f["accepted"] for f in found), "exponents": middle("exponent_mismatches"),
                "mantissa_mean": middle("mantissa_mean"), "mantissa_median": middle("mantissa_median")}

    def cases(self):
        made = self.folder / "changed.gguf"

        def changed():
            return Gguf(self.model)

        yield self.score("the same, scalar backend", flags=("--backend", "scalar"))
        yield self.score("the same, in chunks of 3", flags=("--prefill-chunk", 3))
        yield self.score("F16 weights", changed().round_to("F16").write(made))
        yield self.score("BF16 weights", changed().round_to("BF16").write(made))
        for sigma in (0.001, 0.01, 0.05):
            yield self.score(f"weights perturbed by {100 * sigma:g} %", changed().perturb(sigma).write(made))
        yield self.score("one matrix perturbed by 5 %", changed().perturb(0.05, only="blk.1.ffn_up").write(made))
        yield self.score("two layers swapped", changed().swap_layers(1, 2).write(made))
        yield self.score("first token of the prompt changed", prompt=lambda ids: [ids[0] ^ 2, *ids[1:]])
        yield self.score("last token of the prompt changed", prompt=lambda ids: [*ids[:-1], ids[-1] ^ 2])
        yield self.score("a token before the prompt", prompt=lambda ids: [9, *ids])
        yield self.score("one token of the answer changed", output=lambda ids: [*ids[:9], ids[9] ^ 2, *ids[10:]])


class RandomIds(Experiment):
    """A model without a tokenizer."""

    def prompt(self, number):
        draw = random.Random(number)
        return ["--prompt-ids", joined(draw.randrange(3, 500) for _ in range(8 + number))]


def made_model(folder):
    """256 wide, so that a chunk has many more values than are kept."""
    config = tiny_files.config_of("LlamaForCausalLM", hidden_size=256, intermediate_size=384, num_hidden_layers=4,
                                  num_attention_heads=8, num_key_value_heads=4, head_dim=32, vocab_size=512)
    path = folder / "made.gguf"
    tiny_files.write_gguf(path, config, tiny_files.tensors_of(config))
    return path


def markdown(rows):
    lines = ["| scored by | chunks | exact | within the limits | exponents that differ | mantissas: mean | median |",
             "|---|---|---|---|---|---|---|"]
    lines += [f"| {r['case']} | {r['chunks']} | {r['exact']} | {r['accepted']} | {r['exponents']:.3g} of 128 | "
              f"{r['mantissa_mean']:.2g} | {r['mantissa_median']:.2g} |" for r in rows]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/cli/verbatim")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(prefix="verbatim-fingerprints-") as folder:
        folder = Path(folder)
        experiments = [RandomIds(args.program, folder / "made", made_model(folder), args.answers)]
        if args.model:
            experiments.append(Experiment(args.program, folder / "given", args.model.resolve(), args.answers))
        for experiment in experiments:
            rows = list(experiment.cases())
            results[experiment.model.name] = rows
            print(f"{experiment.model.name}:\n\n{markdown(rows)}\n", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
