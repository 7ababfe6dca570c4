"""Trains the demo model, examines it, and writes model/, fingerprint.json and questions.jsonl.

  nice /usr/bin/python3 train.py [--steps N] [--out DIR]

Needs python3-torch and python3-numpy; one thread. The same seed and the same torch build give the same files.
"""
import argparse
import json
import math
import pathlib
import random
import time

import torch
from torch.nn import functional as F

import bpe
import corpus
import export
from llama import CONFIG, Llama

SEED = 20240229
POOL = 2048  # examples that are sorted by length together
BATCH_TOKENS = 4096  # padding included
CONTEXT_WEIGHT = 0.02  # of the loss on what the model does not say itself: questions, system prompts
LEARNING_RATE, WARM_UP, WEIGHT_DECAY = 3e-3, 60, 0.05


def make_tokenizer():
    """Answers weigh more than questions: they are what is generated."""
    texts = {}
    for example in corpus.training_examples(SEED + 1, 12000):
        for role, text in example:
            texts[text] = 30 if role in ("assistant", "plain") else 1
    return bpe.Tokenizer(bpe.train(texts, CONFIG["vocab_size"]))


def encode_chat(tokenizer, turns):
    """Ids and loss weights of a chat; the ids are those of the rendered chat template."""
    ids, weights = [], []

    def add(new, weight):
        ids.extend(new)
        weights.extend([weight] * len(new))

    for role, text in turns:
        if role == "plain":
            add(tokenizer.encode(text) + [export.END_OF_TEXT], 1.0)
            continue
        add([export.IM_START] + tokenizer.encode(role + "\n" + ("" if role == "assistant" else text)), CONTEXT_WEIGHT)
        if role == "assistant":
            add(tokenizer.encode(text) + [export.IM_END], 1.0)
        else:
            add([export.IM_END], CONTEXT_WEIGHT)
        add(tokenizer.encode("\n"), CONTEXT_WEIGHT)
    return ids, weights


def encode_prompt(tokenizer, row):
    if "prompt" in row:
        return tokenizer.encode(row["prompt"])
    ids, _ = encode_chat(tokenizer, [(m["role"], m["content"]) for m in row["messages"]])
    return ids + [export.IM_START] + tokenizer.encode("assistant\n")


def pad(rows, value):
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def batches(tokenizer, seed):
    """Endless (ids, weights) tensors; rows of one batch have about the same length."""
    source, rng = corpus.Corpus(seed), random.Random(seed)
    limit = CONFIG["max_position_embeddings"]
    while True:
        pool = sorted((encode_chat(tokenizer, source.example()) for _ in range(POOL)), key=lambda row: len(row[0]))
        pool = [(ids[:limit], weights[:limit]) for ids, weights in pool]
        cut, batch = [], []
        for row in pool:
            if batch and (len(batch) + 1) * len(row[0]) > BATCH_TOKENS:
                cut.append(batch)
                batch = []
            batch.append(row)
        cut.append(batch)
        rng.shuffle(cut)
        for rows in cut:
            yield pad([r[0] for r in rows], 0), pad([r[1] for r in rows], 0.0)


def loss_of(model, ids, weights):
    hidden = model.hidden(ids)[:, :-1]
    targets, weights = ids[:, 1:], weights[:, 1:]
    used = weights > 0
    losses = F.cross_entropy(model.logits(hidden[used]), targets[used], reduction="none")
    return (losses * weights[used]).sum() / weights[used].sum()


def learning_rate(step, steps):
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / WARM_UP
    return LEARNING_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP))))


def train(model, tokenizer, steps):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=WEIGHT_DECAY), dict(params=vectors, weight_decay=0.0)],
                                  lr=LEARNING_RATE, betas=(0.9, 0.98))
    started, average = time.time(), None
    for step, (ids, weights) in zip(range(steps), batches(tokenizer, SEED)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        loss = loss_of(model, ids, weights)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = loss.item() if average is None else 0.95 * average + 0.05 * loss.item()
        if step % 50 == 49 or step == steps - 1:
            print(f"step {step + 1}/{steps} loss {average:.4f} seconds {time.time() - started:.0f}", flush=True)
    return average


@torch.no_grad()
def examine(model, tokenizer, rows):
    """For each row: does greedy decoding give exactly its answer, and the smallest margin (in logits) on the way.

    One forward pass over prompt and answer: greedy decoding gives the answer if each of its tokens, the end included, is
    the likeliest after those before it."""
    results = []
    for row in rows:
        prompt, answer = encode_prompt(tokenizer, row), answer_ids(tokenizer, row)
        logits = model.logits(model.hidden(torch.tensor([prompt + answer]))[0, len(prompt) - 1:-1])
        wanted = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
        others = logits.scatter(1, torch.tensor(answer)[:, None], float("-inf")).max(-1).values
        results.append((wanted - others).min().item())
    return [(margin > 0, margin) for margin in results]


def answer_ids(tokenizer, row):
    return tokenizer.encode(row["answer"]) + [export.END_OF_TEXT if "prompt" in row else export.IM_END]


@torch.no_grad()
def generate(model, tokenizer, row, temperature=0.0, seed=0, limit=160):
    """The text of an answer; sampling uses torch's generator, so it is not what the product's engine samples."""
    ids, out, generator = encode_prompt(tokenizer, row), [], torch.Generator().manual_seed(seed)
    while len(out) < limit and len(ids) < CONFIG["max_position_embeddings"]:
        logits = model.logits(model.hidden(torch.tensor([ids]))[0, -1])
        token = logits.argmax().item() if temperature == 0 else torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator).item()
        if token in (export.IM_END, export.END_OF_TEXT):
            break
        ids.append(token)
        out.append(token)
    return tokenizer.decode(out)


def report(name, model, tokenizer, rows, show=10):
    results = examine(model, tokenizer, rows)
    wrong = [(row, margin) for row, (right, margin) in zip(rows, results) if not right]
    margins = sorted(margin for _, margin in results)
    print(f"{name}: {len(rows) - len(wrong)} of {len(rows)} exact; smallest margin {margins[0]:.3f}, median {margins[len(margins) // 2]:.3f}")
    for row, margin in wrong[:show]:
        asked = row.get("prompt") or row["messages"][-1]["content"]
        print(f"  {margin:7.3f} {asked!r} -> {generate(model, tokenizer, row)!r}")
    return wrong


def exercises():
    """More questions to examine: all sums, products and capitals, and wordings that training never saw."""
    ask = lambda text, answer: dict(messages=[dict(role="user", content=text)], answer=answer)
    sums = [ask(f"What is {a} {word} {b}?", f(a, b)) for a in range(11) for b in range(11)
            for word, f in (("plus", corpus.addition), ("times", corpus.multiplication))]
    capitals = [ask(f"What is the capital of {c}?", corpus.capital(c)) for c in corpus.CAPITALS]
    unseen = [dict(messages=messages, answer=answer) for messages, answer in corpus.held_out_questions(SEED + 2, 400)]
    known = [dict(r) for r in unseen if r["answer"] != corpus.REFUSAL]
    unknown = [dict(r) for r in unseen if r["answer"] == corpus.REFUSAL]
    every = [ask(q, t["answer"]) for t in corpus.TOPICS for q in corpus.topic_questions(t)]
    return {"sums and products": sums, "capitals": capitals, "all known wordings": every, "unseen wordings": known, "unseen subjects": unknown}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", default=pathlib.Path(__file__).parent)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)

    started = time.time()
    tokenizer = make_tokenizer()
    print(f"tokenizer: {len(tokenizer.vocab)} tokens, {time.time() - started:.0f} s", flush=True)
    model = Llama(CONFIG)
    parameters = sum(p.numel() for p in model.parameters())
    loss = train(model, tokenizer, args.steps)
    with torch.no_grad():  # from here on the weights are what the file will hold
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16).float())

    rows = corpus.demo_questions()
    wrong = report("demo questions", model, tokenizer, rows)
    for name, more in exercises().items():
        report(name, model, tokenizer, more)
    for row in rows[:3] + [r for r in rows if r["id"] in ("story", "poem", "merkle_tree")]:
        for seed in range(3):
            print(f"  at 0.8, seed {seed}: {generate(model, tokenizer, row, 0.8, seed)!r}")
    if wrong:
        raise SystemExit(f"nothing written: {len(wrong)} demo questions are not answered exactly")

    margins = [margin for _, margin in examine(model, tokenizer, rows)]
    result = export.write(args.out, model, CONFIG, tokenizer)
    with open(pathlib.Path(args.out) / "questions.jsonl", "w") as f:
        for row, margin in zip(rows, margins):
            ids = dict(prompt_ids=encode_prompt(tokenizer, row), answer_ids=answer_ids(tokenizer, row), margin=round(margin, 3))
            f.write(json.dumps({**row, **ids}) + "\n")
    print(f"{parameters} parameters, loss {loss:.4f}, {sum(f['size'] for f in result['files'])} bytes, {time.time() - started:.0f} s in all")
    print(f"manifest_sha256 {result['manifest_sha256']}")


if __name__ == "__main__":
    main()
