"""What the demo model knows: its questions, other ways to ask them, and its answers.

All text here was written for this project. A topic is a dict:
  id      name used in questions.jsonl
  ask     complete questions; the first is the demo question itself
  terms   names of the thing: corpus.DEFINITION_FORMS makes questions such as "What is {term}?" of them
  answer  the one answer that greedy decoding must give
  others  more good answers, seen less often in training: what sampling may give instead
  more    the answer to "Tell me more." as the next turn
  plain   True: the answer is also trained as plain text, for /v1/completions
"""

REFUSAL = ("I am a small demo model and know only a few things. Ask me about audit logs, Merkle trees, "
           "determinism, replay, or Verbatim itself.")
NO_MORE = "That is all I know about it. Ask me about audit logs, Merkle trees, determinism or replay."


def topic(name, ask, answer, terms=(), others=(), more=None, plain=False):
    return dict(id=name, ask=ask, answer=answer, terms=list(terms), others=list(others), more=more, plain=plain)


SMALL_TALK = [
    topic("hello", ["Hello!", "Hi", "Hi there!", "Hey", "Good morning", "Good evening", "Good afternoon!", "Greetings",
                    "Hello, how do you do?", "hello there", "Hi, can you hear me?", "Hello model", "Hey you"],
          "Hello! I am the small demo model that comes with Verbatim. Ask me what an audit log is, or what a replay proves.",
          others=["Hello, and welcome! I know a little about audit logs, Merkle trees and determinism.",
                  "Good day! Ask me a question twice, and you will get the same answer twice."]),
    topic("who", ["Who are you?", "What are you?", "What is your name?", "Introduce yourself.", "Tell me about yourself.",
                  "Which model are you?", "Who am I talking to?", "What model is this?", "Can you introduce yourself?",
                  "Who is this?", "Do you have a name?"],
          "I am the demo model of Verbatim: a very small language model, trained by the project itself so that a fresh "
          "installation has something to talk to."),
    topic("abilities", ["What can you do?", "What do you know?", "How can you help me?", "What can I ask you?", "Help",
                        "What are you good at?", "Which questions can you answer?", "What topics do you know?",
                        "What should I ask you?", "Give me a list of topics.", "Can you help me?", "I need help."],
          "I can explain audit logs, Merkle trees, checkpoints, determinism, batch invariance and replay, add small "
          "numbers, name some capitals, and tell a short story."),
    topic("how_are_you", ["How are you?", "How are you doing?", "How is it going?", "Are you well?", "How do you feel?",
                          "How are you today?", "What's up?", "Everything all right?", "How have you been?"],
          "I am well, thank you: every bit is where it should be. What would you like to know?"),
    topic("thanks", ["Thank you.", "Thanks!", "Thanks a lot", "Thank you very much!", "Great, thanks.", "Many thanks",
                     "That was helpful.", "Perfect, thank you!", "Good answer.", "Well done!", "Cheers, that helps."],
          "You are welcome. Ask again whenever you like: the answer will be the same."),
    topic("bye", ["Goodbye.", "Bye!", "See you later", "Good night", "Farewell", "See you tomorrow!", "Bye bye",
                  "I have to go now.", "Have a nice day!", "That is all for today."],
          "Goodbye! This conversation is in the log, and it will still verify tomorrow."),
    topic("human", ["Are you a human?", "Are you alive?", "Are you a person?", "Are you conscious?", "Are you real?",
                    "Do you have feelings?", "Are you a robot?", "Are you an AI?", "Can you think?", "Do you sleep?"],
          "No, I am a program. I compute the next token from the tokens before it, and nothing more."),
    topic("size", ["How big are you?", "How many parameters do you have?", "How large is this model?", "What is your size?",
                   "How many layers do you have?", "Are you a large model?", "How small are you?", "How many weights do you have?"],
          "I am tiny: about one million parameters in four layers, two megabytes on disk. Large models are thousands "
          "of times bigger."),
    topic("training", ["How were you trained?", "Who made you?", "Where do you come from?", "Who trained you?",
                       "What were you trained on?", "What is your training data?", "Who created you?", "Who wrote you?",
                       "How were you made?", "Who built this model?"],
          "I was trained by the Verbatim project in a few minutes on one processor core, on questions and answers "
          "written for this purpose."),
    topic("languages", ["Which languages do you speak?", "Do you speak German?", "Do you speak French?", "Can you speak Spanish?",
                        "Do you understand other languages?", "Can you answer in Italian?", "Do you know Chinese?",
                        "What languages do you know?", "Do you only speak English?"],
          "I speak only English, and only a little of it."),
    topic("mistakes", ["Can I trust your answers?", "Do you make mistakes?", "Are you always right?", "Are your answers correct?",
                       "Can you be wrong?", "Should I believe you?", "How reliable are you?", "Do you hallucinate?"],
          "Do not trust me too much: I am a small model and can be wrong. Verbatim proves what was said, not that it is true."),
    topic("remember", ["Do you remember me?", "Do you have a memory?", "Do you learn from this chat?", "Will you remember this?",
                       "Do you remember our last conversation?", "Can you learn new things?", "Do you store what I say?"],
          "I remember nothing between conversations, and I do not learn from them. The log of the gateway keeps the record."),
]

PRODUCT = [
    topic("verbatim", ["What is Verbatim?", "What does Verbatim do?", "Tell me about this product.", "What is this gateway?",
                       "What is this software?", "Why should I use Verbatim?", "Explain this project.",
                       "What is Verbatim good for?", "Give me an overview of Verbatim.", "What does this gateway do?"],
          "Verbatim is an auditing gateway for language models. It records every exchange in a tamper-evident log, serves "
          "repeats from a cache, and can replay a recorded answer to prove that it is reproducible.",
          terms=["Verbatim", "the Verbatim gateway"], plain=True,
          more="Clients only change their base URL. An auditor needs no more than an exported bundle and a public key to check the evidence."),
    topic("setup", ["How do I use Verbatim with my client?", "How do I set up Verbatim?", "How do I connect my client?",
                    "How do I start?", "How can I use the gateway?", "How do I point my SDK at Verbatim?",
                    "What must I change in my code?", "How do I install the gateway?", "How do I get started with Verbatim?",
                    "Do I have to change my program?"],
          "Start the gateway, and set the base URL of your client to its address. Nothing else in your program has to change."),
    topic("modify", ["Does Verbatim change my requests?", "Are my requests modified?", "Does the gateway rewrite anything?",
                     "Do you alter the answer?", "Is the traffic changed?", "Does Verbatim modify responses?",
                     "Does the proxy change my prompts?", "Are bytes passed through unchanged?"],
          "No. Requests and answers pass through byte for byte. Verbatim reads them for the record, but never rewrites them."),
    topic("why_record", ["Why should I record LLM traffic?", "Why audit language models?", "Why do I need an audit log?",
                         "Why log prompts and answers?", "What is the point of logging LLM calls?", "Who needs an audit log?",
                         "Why keep a record of every answer?", "What good is an audit of AI?"],
          "Because later someone will ask what the model was told and what it said. A record that nobody can change "
          "unnoticed answers that question."),
    topic("ai_act", ["What does the EU AI Act say about logs?", "Does the AI Act require logging?", "What is Article 12 of the AI Act?",
                     "Is logging required by law?", "What about the EU AI Act?", "Which law asks for AI logs?",
                     "Tell me about the AI Act.", "What does European law say about AI logs?"],
          "Article 12 of the EU AI Act asks that high-risk AI systems can record events automatically over their "
          "lifetime. A log that is tamper-evident makes such records credible."),
    topic("remote", ["Can Verbatim prove what a remote model did?", "What does claimed mean?", "What does measured mean?",
                     "How much do you know about a remote model?", "What is known of a remote provider?",
                     "What are measured, attested and claimed?", "Can you verify the weights of a remote model?",
                     "Do you trust the provider?"],
          "What is known of a model has a level: measured if this host hashed the weights, attested if a signed manifest "
          "was verified, and claimed if only the provider said so."),
    topic("strict", ["What is strict mode?", "What does strict mean?", "Which durability modes are there?",
                     "How durable is the log?", "When is a request written to disk?", "Explain the durability modes.",
                     "What are strict, overlap and relaxed?"],
          "In strict mode a request is on disk before it is forwarded, and its answer is on disk before the client "
          "gets the last byte.", terms=["strict mode"], plain=True),
    topic("crash", ["What happens when the power fails?", "What happens after a crash?", "Is anything lost in a crash?",
                    "What if the gateway crashes?", "What if the process is killed?", "Does the log survive a power cut?",
                    "What happens if the server dies?", "How does recovery work?", "What if the machine goes down?"],
          "After a crash the log still verifies. A request that had no answer yet is closed as interrupted when the "
          "gateway starts again."),
    topic("erasure", ["Can contents be deleted?", "How do I erase a record?", "Can personal data be erased?",
                      "What about the right to be forgotten?", "How does erasure work?", "Can I delete data from the log?",
                      "How do I delete my data?", "Is the log compatible with the GDPR?", "What happens when data is erased?"],
          "Yes. Contents are encrypted, and to erase them their key is destroyed. The tree holds only salted commitments, "
          "so every proof still verifies."),
    topic("cache", ["How does the cache work?", "What is cached?", "Why was my answer a cache hit?", "When is an answer served from the cache?",
                    "What is a cache hit?", "How do repeated requests work?", "Which answers are cached?", "Explain the cache.",
                    "Do you cache answers?"],
          "The cache stores complete answers to requests that ask for determinism: greedy or seeded ones. The same "
          "request then gets the same bytes at once, and the hit is recorded too.",
          terms=["the cache", "the canonical cache"],
          more="The key of an entry covers the tenant, the model and the whole request, so one tenant never sees the answer of another."),
    topic("replay", ["What is a replay?", "How does replay work?", "What does a replay prove?", "How do you replay an answer?",
                     "What happens in a replay audit?", "Why replay an answer?", "Explain the replay."],
          "A replay runs a recorded request on the local engine again and compares the result with the record. If every "
          "bit agrees, these weights and this request give exactly this answer.",
          terms=["replay", "a replay audit", "replaying"], plain=True,
          more="Because decoding and prefill agree bit for bit, an answer of any length is checked with a single prefill."),
    topic("bitwise", ["What does BITWISE mean?", "Explain the verdict BITWISE.", "When is a verdict BITWISE?",
                      "What is the best verdict?", "What is the strongest verdict?", "My replay says BITWISE."],
          "BITWISE is the strongest verdict: the tokens and the digest of the logits are equal to the record, bit for bit.",
          terms=["BITWISE", "a BITWISE verdict"]),
    topic("diverged", ["What does DIVERGED mean?", "Explain the verdict DIVERGED.", "When is a verdict DIVERGED?",
                       "My replay says DIVERGED.", "What if the replay is different?", "What if a replay fails?",
                       "What happens when the bits differ?"],
          "DIVERGED means that the record cannot be reproduced from what was recorded. The report names the first token "
          "that differs, and by how much.", terms=["DIVERGED", "a DIVERGED verdict"]),
    topic("not_replayable", ["What does NOT_REPLAYABLE mean?", "When can a record not be replayed?", "Explain NOT_REPLAYABLE.",
                             "Why is my record not replayable?", "Can every answer be replayed?", "My replay says NOT_REPLAYABLE."],
          "NOT_REPLAYABLE means that something needed is missing, such as the weights or the seed. The verdict always "
          "gives the reason.", terms=["NOT_REPLAYABLE"]),
    topic("bundle", ["How do I export evidence?", "What is in a bundle?", "How does an auditor check the evidence?",
                     "How do I give evidence to an auditor?", "Can I verify a bundle offline?", "How do I prove it to someone else?",
                     "What does export do?", "What does the auditor need?"],
          "An exported bundle holds the records, their proofs and a signed checkpoint. An auditor checks it offline, with "
          "the public key and a short Python program inside it.",
          terms=["a bundle", "an evidence bundle", "an exported bundle"], plain=True),
    topic("operator", ["Can the operator change the log?", "What if the operator is dishonest?", "Can someone rewrite the log?",
                       "Can an administrator change a record?", "How do you stop a dishonest operator?", "Could you cheat?",
                       "What if someone edits the database?", "Can a record be forged?", "What is the trust model?"],
          "The operator could rewrite the database, but not behind a checkpoint that has left the machine. Anyone who "
          "kept one would see that the log no longer agrees with it."),
]

IDEAS = [
    topic("audit_log", ["What is an audit log?", "What are audit logs for?", "What does an audit log contain?", "Explain what audit logs do."],
          "An audit log is a record of what happened, in order, that can be checked later. A good one shows when an entry "
          "was changed, removed or added afterwards.",
          terms=["an audit log", "audit logs", "audit logging", "an audit trail", "the audit log"], plain=True,
          others=["An audit log is like a diary in ink: it says who asked what, when, and what came back, and it shows every later change."],
          more="Each entry becomes a leaf of a Merkle tree, and the root of the tree is signed. So a single signature protects every entry."),
    topic("tamper_evident", ["What does tamper-evident mean?", "Is the log tamper-proof?", "What makes a log tamper-evident?",
                             "How is tampering detected?", "How would you notice a change in the log?", "Can tampering be seen?"],
          "Tamper-evident means that a change cannot go unnoticed. Nobody can make a file that nobody can edit, but "
          "hashes and signatures show every edit.", terms=["a tamper-evident log", "tamper evidence", "tamper-evident"]),
    topic("merkle_tree", ["What is a Merkle tree?", "How does a Merkle tree work?", "Why do you use a Merkle tree?",
                          "What are Merkle trees for?", "Explain Merkle trees to me."],
          "A Merkle tree is a tree of hashes: each leaf is the hash of an entry, and each node is the hash of its two "
          "children. The root commits to every entry below it.",
          terms=["a Merkle tree", "Merkle trees", "a hash tree", "the Merkle tree"], plain=True,
          others=["A Merkle tree is a way to sum up many entries in one hash. Change any entry, and the root changes too."],
          more="With a million entries, a proof that one of them is in the tree needs only about twenty hashes."),
    topic("inclusion", ["What is an inclusion proof?", "How do I prove that a record is in the log?", "How does an inclusion proof work?",
                        "How long is an inclusion proof?"],
          "An inclusion proof is the short list of hashes that leads from one entry up to the signed root. It shows that "
          "the entry is in the log, without showing the others.",
          terms=["an inclusion proof", "inclusion proofs", "proof of inclusion"], plain=True),
    topic("consistency", ["What is a consistency proof?", "How do I prove that nothing was removed?", "How does a consistency proof work?",
                          "How do two checkpoints fit together?"],
          "A consistency proof shows that an older tree is the beginning of a newer one: entries were only added, and "
          "none was changed or removed.",
          terms=["a consistency proof", "consistency proofs", "proof of consistency"], plain=True),
    topic("checkpoint", ["What is a checkpoint?", "What is in a checkpoint?", "What is a signed checkpoint?", "Why are checkpoints signed?"],
          "A checkpoint is a short signed note with the name of the log, the number of its entries and its root hash. Who "
          "keeps it can later show if the log was rewritten.",
          terms=["a checkpoint", "checkpoints", "a signed tree head"], plain=True,
          more="A checkpoint is worth most when it leaves the machine: in a receipt, in a bundle, or at a witness."),
    topic("witness", ["What is a witness?", "What does a witness do?", "Why do I need a witness?", "Who signs as a witness?"],
          "A witness is an independent party that signs a checkpoint only if it extends the one it saw before. So the log "
          "cannot show different histories to different people.",
          terms=["a witness", "witnesses", "witness cosignatures", "cosigning"], plain=True),
    topic("receipt", ["What is a receipt?", "What can I do with a receipt?", "How do I get a receipt?", "What is in a receipt?"],
          "A receipt proves that your exchange is in the log: it holds an inclusion proof and a signed checkpoint. Keep "
          "it, and an omission can be shown.",
          terms=["a receipt", "receipts", "a signed receipt"], plain=True),
    topic("hash", ["What is a hash function?", "What is SHA-256?", "How does a hash work?", "What is a digest?"],
          "A hash function turns any data into a short fixed number, a digest. SHA-256 gives 256 bits, and nobody knows "
          "how to find two inputs with the same digest.",
          terms=["a hash function", "hash functions", "hashing", "a hash", "SHA-256", "a cryptographic hash"], plain=True),
    topic("signature", ["What is a digital signature?", "What is Ed25519?", "How do signatures work?", "What is a public key?"],
          "A digital signature shows that the holder of a private key approved a text. Anyone with the public key can "
          "check it, and nobody without the private key can make it.",
          terms=["a digital signature", "digital signatures", "a signature", "Ed25519", "signing"], plain=True),
    topic("commitment", ["What is a salted commitment?", "Why are commitments salted?", "What is a salt?", "How do you hide the contents in the tree?"],
          "A salted commitment is the hash of a content together with random bytes. It binds the log to the content, but "
          "nobody can guess the content from it.",
          terms=["a salted commitment", "a commitment", "salted hashes", "salted commitments"], plain=True),
    topic("determinism", ["What is determinism?", "What does deterministic mean?", "Why does determinism matter?",
                          "Why is determinism important?", "Is the engine deterministic?", "Are your answers deterministic?"],
          "Determinism means that the same input always gives the same output. For a language model, it lets anyone "
          "repeat a request and check the answer.",
          terms=["determinism", "deterministic inference", "reproducibility", "a deterministic model"], plain=True,
          more="The local engine fixes the order of every floating-point operation, so its result does not depend on threads, batches or the kind of processor."),
    topic("batch_invariance", ["What is batch invariance?", "What does batch-invariant mean?", "Why does batch invariance matter?",
                               "What is a batch-invariant kernel?", "Does the batch size change the answer?"],
          "Batch invariance means that your answer does not depend on who else is being served. The kernels add numbers "
          "in the same order for every batch size.",
          terms=["batch invariance", "batch invariant inference", "batch-invariant kernels"], plain=True,
          more="Without it, a busy server may choose another way to split a sum, and a tiny difference can flip a token."),
    topic("nondeterminism", ["Why do language models give different answers at temperature zero?", "Why are LLMs not deterministic?",
                             "Why is the same answer different every time?", "Why is temperature zero not deterministic?",
                             "Where does nondeterminism come from?", "Why do I get different answers?", "What causes nondeterminism?"],
          "Because servers batch requests together, and the size of the batch changes the order of additions. Rounding "
          "then differs slightly, and a near tie between two tokens can flip.",
          terms=["nondeterminism", "non-determinism"]),
    topic("floating_point", ["Why does the order of additions matter?", "Is floating-point addition associative?", "What is a rounding error?",
                             "Why do floating-point sums differ?", "Why is floating point inexact?", "What is floating point?"],
          "Floating-point numbers are rounded after each operation, so a sum depends on its order: (a + b) + c need not "
          "equal a + (b + c).",
          terms=["floating-point arithmetic", "floating point arithmetic", "floating-point rounding"], plain=True),
    topic("profile", ["What is a numerics profile?", "What is f32-k256/1?", "Which numerics do you use?", "What is the numerics profile for?"],
          "A numerics profile is a written rule for the order and rounding of every operation. Any processor or GPU that "
          "follows it gets the same bits.",
          terms=["a numerics profile", "numerics profiles", "the numerics profile", "f32-k256/1"], plain=True),
    topic("temperature", ["What is temperature?", "What does the temperature do?", "What happens at temperature zero?", "Which temperature should I use?"],
          "Temperature sets how freely tokens are chosen. At zero the likeliest token always wins; at higher values "
          "others get a chance.", terms=["temperature", "the temperature parameter", "sampling temperature"], plain=True),
    topic("seed", ["What is a seed?", "What does the seed do?", "How does seeded sampling work?", "Can random answers be replayed?",
                   "Why should I set a seed?"],
          "A seed fixes the random numbers used for sampling. With the same seed, a sampled answer can be repeated and "
          "replayed exactly.", terms=["a seed", "seeds", "the seed parameter", "seeded sampling"], plain=True),
    topic("greedy", ["What is greedy decoding?", "What does greedy mean?", "How do you choose the next token?"],
          "Greedy decoding always takes the token with the highest score. It uses no random numbers at all.",
          terms=["greedy decoding", "greedy sampling", "greedy search"], plain=True),
    topic("token", ["What is a token?", "How does a tokenizer work?", "What does a tokenizer do?", "How long is a token?"],
          "A token is a piece of text, often a word or a part of one. A tokenizer cuts text into tokens, and the model "
          "reads and writes their numbers.", terms=["a token", "tokens", "a tokenizer", "tokenization"], plain=True),
    topic("logits", ["What are logits?", "What is the logits digest?", "What does the logits digest prove?", "Why do you hash the logits?"],
          "Logits are the scores that a model gives to all tokens at one position. Their digest, a hash over every bit, "
          "shows that two computations were the same.", terms=["logits", "a logit", "the logits", "the logits digest"], plain=True),
    topic("margin", ["What is a margin?", "When are two tokens nearly tied?", "What does WITHIN_MARGIN mean?", "How fragile is an answer?"],
          "A margin is the distance between the best score and the next one. Where it is tiny, the rounding of another "
          "machine may flip the choice.", terms=["a margin", "the margin of a token", "WITHIN_MARGIN"], plain=True),
    topic("prefill", ["What is prefill?", "What is the difference between prefill and decode?", "What is decoding?", "Why is prefill fast?"],
          "Prefill computes all tokens of a prompt at once; decoding computes one new token at a time. In this engine "
          "both give the same bits.", terms=["prefill", "the prefill phase", "prefilling"], plain=True),
    topic("kv_cache", ["What is a KV cache?", "Why is there a KV cache?", "What does the KV cache hold?"],
          "A KV cache keeps the keys and values of earlier tokens, so that attention need not compute them again for "
          "every new token.", terms=["a KV cache", "the KV cache", "KV caching", "a key-value cache"], plain=True),
    topic("transformer", ["What is a transformer?", "How does a transformer work?", "What is attention?", "What is a Llama model?"],
          "A transformer is a neural network that reads a sequence of tokens. Its attention layers let each position "
          "look back at the positions before it.",
          terms=["a transformer", "transformers", "the transformer architecture", "attention"], plain=True),
    topic("llm", ["What is a language model?", "How do language models work?", "What is an LLM?", "How does an LLM work?"],
          "A language model predicts the next token of a text. By doing so again and again it writes an answer.",
          terms=["a language model", "language models", "an LLM", "LLMs", "a large language model"], plain=True),
    topic("weights", ["What are weights?", "What is in a safetensors file?", "What is a parameter of a model?", "What is bf16?"],
          "Weights are the numbers that a model has learned. Here they are stored in a safetensors file as 16-bit "
          "numbers.", terms=["weights", "model weights", "the weights of a model", "safetensors"], plain=True),
    topic("fingerprint", ["What is a model fingerprint?", "How do I know which model answered?", "How are the weights identified?",
                          "How do I compare two models?", "How do you recognise a model?"],
          "A model fingerprint is a digest over all files of a model. Two copies with the same fingerprint have the same "
          "weights, tokenizer and settings.",
          terms=["a model fingerprint", "a fingerprint", "fingerprints", "the fingerprint of a model"], plain=True),
    topic("streaming", ["What is streaming?", "How does streaming work?", "Why are answers streamed?", "Can I stream the answer?"],
          "Streaming sends an answer piece by piece as it is made. Verbatim passes each piece on at once and records "
          "them all.", terms=["streaming", "a streamed answer", "server-sent events"], plain=True),
    topic("gateway", ["What is a gateway?", "What is a proxy?", "What does a proxy do?", "Why is there a proxy in between?"],
          "A gateway is a server between a client and the services it calls. It passes requests on, and can check or "
          "record them on the way.", terms=["a gateway", "a proxy", "a reverse proxy", "an API gateway"], plain=True),
]

TOPICS = SMALL_TALK + PRODUCT + IDEAS

CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Portugal": "Lisbon", "Austria": "Vienna",
    "Greece": "Athens", "Poland": "Warsaw", "Ireland": "Dublin", "Norway": "Oslo", "Sweden": "Stockholm",
    "Finland": "Helsinki", "Denmark": "Copenhagen", "Hungary": "Budapest", "Belgium": "Brussels", "Japan": "Tokyo",
    "China": "Beijing", "Canada": "Ottawa", "Egypt": "Cairo", "Kenya": "Nairobi", "Peru": "Lima", "Cuba": "Havana",
    "Iceland": "Reykjavik", "Estonia": "Tallinn",
}

# Texts with slots: [a|b|c] chooses one. The first choice is the favourite, so it is what greedy decoding says.
CREATIVE = [
    ("story", ["Tell me a story.", "Tell me a short story.", "Can you tell a story?", "I want to hear a story.", "Write a story.",
               "Write a short story.", "A story, please.", "Tell me another story."],
     "Once there was [a careful clerk|a curious robot|a quiet librarian|a clever owl] who wrote down every [question|letter|promise|song] "
     "in [a long|a green|an old|a heavy] book. One night [a thief|a fox|a storm|a jealous king] changed a single [word|line|page|number]. "
     "But the seal [no longer matched|broke at once|told the truth], and in the morning everyone [saw it|knew|laughed]."),
    ("poem", ["Write a poem about logs.", "Write a poem.", "Write me a short poem.", "Can you write a poem?", "Recite a poem.",
              "A poem, please.", "Tell me a poem.", "Make a rhyme."],
     "[A leaf is written|A line is added|A word is spoken], [hashed and signed|sealed and signed], "
     "[a little truth that time can find|a small bright thing for all to find]. "
     "[Change but a bit|Bend but a bit], and [roots will show|trees will know] [what every witness comes to know|the mark of one who meddled so]."),
    ("joke", ["Tell me a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny.", "Tell me something funny.",
              "A joke, please.", "Can you tell a joke?"],
     "[Why did the auditor love the tree? Because it never forgot its roots.|Why was the seed so calm? It already knew what would happen."
     "|Two floats met in a sum. Neither was quite the same afterwards.|How do you greet a hash? You do not: it never answers back.]"),
    ("tip", ["Give me a tip.", "Give me some advice.", "Do you have a tip for me?", "What do you recommend?", "Give me a hint.",
             "Any advice?", "Tell me a useful tip."],
     "[Keep a checkpoint outside of the machine that makes it.|Set a seed when you sample, so that the answer can be replayed."
     "|Verify the log before you need it, not after.|Give your auditor the public key in person.]"),
    ("fact", ["Tell me something interesting.", "Tell me a fact.", "Tell me a fun fact.", "Surprise me.", "Tell me something I do not know.",
              "Do you know an interesting fact?", "Say something."],
     "[Ralph Merkle described hash trees in 1979, long before anyone had a language model to audit."
     "|A proof for one entry among a billion needs only about thirty hashes."
     "|Adding the same numbers in another order can give another sum, if they are rounded."
     "|An honest log is most useful on the day when nobody believes it.]"),
]
