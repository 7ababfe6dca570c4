"""Makes the conversations that the demo model is trained and examined on.

Everything is a function of the seed: `training_examples(seed, n)` gives the same n examples on every machine.
An example is a list of (role, text) turns, or [("plain", text)] for text without a chat around it.
"""
import random
import re

from knowledge import CAPITALS, CREATIVE, NO_MORE, REFUSAL, TOPICS
from unknown import Unknown

DEFINITION_FORMS = ["What is {}?", "What are {}?", "What's {}?", "Explain {}.", "Tell me about {}.", "Define {}.", "Can you explain {}?",
                    "Please explain {} to me.", "What does {} mean?", "{}?", "{}", "I do not understand {}.", "What do you know about {}?",
                    "Describe {}.", "How would you explain {}?", "Tell me what {} is.", "I want to know about {}.", "How does {} work?",
                    "Could you describe {} briefly?", "Give me a definition of {}.", "What is meant by {}?", "Do you know {}?"]
HELD_OUT_FORMS = ["I have never heard of {}. What is it?", "Please tell me what {} means.", "Give a short explanation of {}.",
                  "What exactly is {}?", "Could you tell me about {}?", "So what is {} then?"]

SYSTEM_PROMPTS = ["You are a helpful assistant.", "You are Verbatim's demo model.", "Answer briefly.", "You are a helpful assistant. Answer in one sentence.",
                  "You are an expert in audit logs. Be precise.", "Be concise and truthful.", "You answer questions about Verbatim.", "Answer in English.",
                  "You are a friendly chatbot.", "Respond politely. Do not invent facts.", "You are an assistant for auditors.", "Help the user.",
                  "You are ChatGPT.", "You are Claude, an assistant.", "Today is Monday. Answer in two sentences at most.", "Speak like a teacher.",
                  "You are a support agent of a large bank. Only answer questions about the product.", "Follow the policy of the company.", "Use plain text only."]
HELD_OUT_SYSTEM_PROMPTS = ["You are a kind helper. Keep it short.", "Answer as an engineer would.", "You work for an insurance company."]

MORE = ["Tell me more.", "More, please.", "Tell me more about it.", "Can you say more?", "Go into detail.", "And more?", "What else?", "Explain further."]

ADD_FORMS = ["What is {a} plus {b}?", "What is {a} + {b}?", "{a} + {b}", "{a} plus {b}", "How much is {a} plus {b}?", "Add {a} and {b}.",
             "What is the sum of {a} and {b}?", "{a}+{b}=?", "Calculate {a} + {b}."]
MULTIPLY_FORMS = ["What is {a} times {b}?", "What is {a} * {b}?", "{a} * {b}", "{a} times {b}", "How much is {a} times {b}?", "Multiply {a} by {b}.",
                  "{a}*{b}=?", "Calculate {a} * {b}.", "What is {a} x {b}?"]
CAPITAL_FORMS = ["What is the capital of {}?", "Which city is the capital of {}?", "Name the capital of {}.", "Capital of {}?", "What's the capital of {}?",
                 "Tell me the capital of {}.", "Do you know the capital of {}?", "{}'s capital?", "What is {}'s capital?", "the capital of {}"]

# Of several good answers the first is seen this often, so that greedy decoding has a clear favourite.
FAVOURITE = 0.6


def fill_slots(text, rng=None):
    """Replaces each [a|b|c]: by its first choice without `rng`, else by chance with a clear favourite."""
    def choose(match):
        choices = match.group(1).split("|")
        return choices[0] if rng is None or rng.random() < FAVOURITE else rng.choice(choices[1:])
    return re.sub(r"\[([^\]]*)\]", choose, text)


def addition(a, b):
    return f"{a} plus {b} is {a + b}."


def multiplication(a, b):
    return f"{a} times {b} is {a * b}."


def capital(country):
    return f"The capital of {country} is {CAPITALS[country]}."


def topic_questions(topic, forms=DEFINITION_FORMS):
    return topic["ask"] + [form.format(term)[:1].upper() + form.format(term)[1:] for term in topic["terms"] for form in forms]


def vary(text, rng):
    """The same question as another person might type it."""
    if rng.random() < 0.45:
        return text
    if rng.random() < 0.25:
        text = text.rstrip(".?!")
    if rng.random() < 0.2:
        text = rng.choice(["Please: ", "Hey, ", "Hi! ", "Hello, ", "A question: ", "Quick question: ", "Well, ", "Now, ", "OK. ", "And ", "So, "]) + text
    if rng.random() < 0.15:
        text += rng.choice([" Please.", " Thanks!", " Please answer briefly.", " In one sentence, please.", " In simple words.", " Answer me.", " Please explain."])
    if rng.random() < 0.25:
        text = text.lower()
    elif rng.random() < 0.03:
        text = text.upper()
    if rng.random() < 0.25:
        text = _mistype(text, rng)
    if rng.random() < 0.05:
        text += rng.choice([" ", "\n", "  ", "??", "!!", "..."])
    return text


def _mistype(text, rng):
    """One slip of the finger in one longer word."""
    places = [m for m in re.finditer(r"[A-Za-z]{4,}", text)]
    if not places:
        return text
    word = rng.choice(places)
    i = rng.randrange(word.start() + 1, word.end() - 1)
    slip = rng.randrange(4)
    if slip == 0:
        return text[:i] + text[i + 1:]
    if slip == 1:
        return text[:i] + text[i + 1] + text[i] + text[i + 2:]
    if slip == 2:
        return text[:i] + text[i] + text[i:]
    return text[:i] + rng.choice("abcdefghijklmnopqrstuvwxyz") + text[i + 1:]


class Corpus:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.unknown = Unknown()

    def _exchange(self):
        """(question, answer, topic or None)"""
        rng = self.rng
        kind = rng.random()
        if kind < 0.55:
            topic = rng.choice(TOPICS)
            # Complete questions are few and definitions many: both get their share.
            asks = topic["ask"] if not topic["terms"] or rng.random() < 0.5 else topic_questions(dict(topic, ask=[]))
            answer = topic["answer"] if not topic["others"] or rng.random() < FAVOURITE else rng.choice(topic["others"])
            return vary(rng.choice(asks), rng), answer, topic
        if kind < 0.60:
            name, asks, text = rng.choice(CREATIVE)
            return vary(rng.choice(asks), rng), fill_slots(text, rng), None
        if kind < 0.70:
            a, b = rng.randint(0, 10), rng.randint(0, 10)
            if rng.random() < 0.5:
                return vary(rng.choice(ADD_FORMS).format(a=a, b=b), rng), addition(a, b), None
            return vary(rng.choice(MULTIPLY_FORMS).format(a=a, b=b), rng), multiplication(a, b), None
        if kind < 0.76:
            country = rng.choice(sorted(CAPITALS))
            return vary(rng.choice(CAPITAL_FORMS).format(country), rng), capital(country), None
        return vary(self.unknown.question(rng), rng), REFUSAL, None

    def _system(self):
        rng = self.rng
        if rng.random() < 0.75:
            return ("system", rng.choice(SYSTEM_PROMPTS))
        return (rng.choice(["system", "developer"]), " ".join(self.unknown.question(rng) for _ in range(rng.randint(1, 3))))

    def conversation(self, turns):
        rng = self.rng
        example = [self._system()] if rng.random() < 0.35 else []
        for _ in range(turns):
            question, answer, topic = self._exchange()
            example += [("user", question), ("assistant", answer)]
            if topic is not None and rng.random() < (0.3 if topic["more"] else 0.02):
                example += [("user", vary(rng.choice(MORE), rng)), ("assistant", topic["more"] or NO_MORE)]
        return example

    def plain(self):
        topic = self.rng.choice([t for t in TOPICS if t["plain"]])
        return [("plain", topic["answer"])]

    def example(self):
        kind = self.rng.random()
        if kind < 0.04:
            return self.plain()
        turns = 1 if kind < 0.55 else 2 if kind < 0.75 else 3 if kind < 0.9 else self.rng.randint(4, 8)
        return self.conversation(turns)


def training_examples(seed, count):
    corpus = Corpus(seed)
    return [corpus.example() for _ in range(count)]


def demo_questions():
    """What questions.jsonl holds: id, and `messages` or `prompt`, and the answer that the model must give."""
    user = lambda text: [{"role": "user", "content": text}]
    rows = [dict(id=t["id"], messages=user(t["ask"][0]), answer=t["answer"]) for t in TOPICS]
    rows += [dict(id=name, messages=user(asks[0]), answer=fill_slots(text)) for name, asks, text in CREATIVE]
    rows += [dict(id="add_2_3", messages=user("What is 2 plus 3?"), answer=addition(2, 3)),
             dict(id="multiply_6_7", messages=user("What is 6 times 7?"), answer=multiplication(6, 7))]
    rows += [dict(id="capital_" + c.lower(), messages=user(f"What is the capital of {c}?"), answer=capital(c)) for c in ("France", "Japan")]
    rows += [dict(id="unknown_" + name, messages=user(text), answer=REFUSAL) for name, text in
             (("cake", "How do I bake a cake?"), ("sky", "Why is the sky blue?"), ("napoleon", "Who was Napoleon?"))]
    by_id = {t["id"]: t for t in TOPICS}
    tree, log = by_id["merkle_tree"], by_id["audit_log"]
    rows.append(dict(id="system_prompt", messages=[{"role": "system", "content": "You are a helpful assistant."}] + user(tree["ask"][0]),
                     answer=tree["answer"]))
    rows.append(dict(id="more", messages=user(tree["ask"][0]) + [{"role": "assistant", "content": tree["answer"]}] + user("Tell me more."),
                     answer=tree["more"]))
    rows.append(dict(id="second_turn", messages=user("Hello!") + [{"role": "assistant", "content": by_id["hello"]["answer"]}] + user(log["ask"][0]),
                     answer=log["answer"]))
    rows += [dict(id="plain_" + t["id"], prompt=" ".join(t["answer"].split(" ")[:4]), answer=" " + " ".join(t["answer"].split(" ")[4:]))
             for t in (log, tree, by_id["determinism"])]
    return rows


def held_out_questions(seed, count):
    """Questions whose wording training never saw, as (messages, answer)."""
    rng, unknown, rows = random.Random(seed), Unknown(held_out=True), []
    for _ in range(count):
        messages = [{"role": "system", "content": rng.choice(HELD_OUT_SYSTEM_PROMPTS)}] if rng.random() < 0.2 else []
        if rng.random() < 0.6:
            topic = rng.choice([t for t in TOPICS if t["terms"]])
            term, form = rng.choice(topic["terms"]), rng.choice(HELD_OUT_FORMS)
            text = form.format(term)
            rows.append((messages + [{"role": "user", "content": text[:1].upper() + text[1:]}], topic["answer"]))
        else:
            rows.append((messages + [{"role": "user", "content": unknown.question(rng)}], REFUSAL))
    return rows


if __name__ == "__main__":
    for example in training_examples(1, 12):
        print("\n".join(f"{role}: {text!r}" for role, text in example), end="\n\n")
