"""A decoder's logits in f64, in plain Python, from the published equations and a Hugging Face configuration: the yardstick of
the engine's architectures. Written for clarity, for models of a few thousand weights."""
import math
import struct
from operator import mul


def dot(a, b):
    return sum(map(mul, a, b))


def product(matrix, x, bias=None):
    y = [dot(row, x) for row in matrix]
    return y if bias is None else [a + b for a, b in zip(y, bias)]


def softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    total = sum(e)
    return [v / total for v in e]


def to_bf16(x):
    """The nearest bfloat16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits += 0x7fff + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xffff0000))[0]


class Float64Model:
    def __init__(self, config, tensors):
        """`tensors`: name -> list of rows, or a list of numbers for a vector."""
        self.c, self.t = config, tensors
        self.kind = config["architectures"][0].removesuffix("ForCausalLM")
        self.gemma = self.kind.startswith("Gemma")
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.d = config["head_dim"]
        self.rotated = int(self.d * config.get("partial_rotary_factor", 1))
        self.angles = {}

    def logits(self, ids):
        """Logits after each of `ids`."""
        rows = [list(self.t["model.embed_tokens.weight"][i]) for i in ids]
        if self.gemma:
            scale = math.sqrt(self.c["hidden_size"])
            if self.c.get("torch_dtype") == "bfloat16":
                scale = to_bf16(scale)
            rows = [[v * scale for v in x] for x in rows]
        for layer in range(self.c["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            after = "post_feedforward_layernorm" in " ".join(n for n in self.t if n.startswith(name))
            branch = self.attention(layer, [self.norm(x, name + "input_layernorm.weight") for x in rows])
            if after:
                branch = [self.norm(x, name + "post_attention_layernorm.weight") for x in branch]
            rows = [[a + b for a, b in zip(x, y)] for x, y in zip(rows, branch)]
            before = "pre_feedforward_layernorm" if after else "post_attention_layernorm"
            branch = [self.feed_forward(name, self.norm(x, name + before + ".weight")) for x in rows]
            if after:
                branch = [self.norm(x, name + "post_feedforward_layernorm.weight") for x in branch]
            rows = [[a + b for a, b in zip(x, y)] for x, y in zip(rows, branch)]
        head = self.t.get("lm_head.weight", self.t["model.embed_tokens.weight"])
        out = [product(head, self.norm(x, "model.norm.weight")) for x in rows]
        cap = self.c.get("final_logit_softcapping")
        return [[cap * math.tanh(v / cap) for v in x] for x in out] if cap else out

    def norm(self, x, name):
        w = self.t[name]
        scale = 1 / math.sqrt(dot(x, x) / len(x) + self.c["rms_norm_eps"])
        return [v * scale * ((1 + a) if self.gemma else a) for v, a in zip(x, w)]

    def window(self, layer):
        """How many keys a query of the layer sees, or None for all."""
        types = self.c.get("layer_types")
        size = self.c.get("sliding_window")
        if types:
            return size if types[layer] == "sliding_attention" else None
        if self.kind == "Gemma2":
            return size if layer % 2 == 0 else None
        if self.kind == "Gemma3":
            return None if (layer + 1) % self.c["sliding_window_pattern"] == 0 else size
        if self.kind in ("Mistral", "Mixtral", "Phi3"):
            return size
        return None

    def rope(self, layer):
        """(inverse frequencies, attention factor) of a layer."""
        local = self.kind == "Gemma3" and self.window(layer) is not None
        theta = self.c["rope_local_base_freq"] if local else self.c["rope_theta"]
        scaling = None if local else self.c.get("rope_scaling")
        n = self.rotated
        inverse = [theta ** (-2 * i / n) for i in range(n // 2)]
        if not scaling:
            return inverse, 1
        return getattr(self, "rope_" + scaling["rope_type"])(inverse, theta, scaling)

    def rope_linear(self, inverse, theta, s):
        return [f / s["factor"] for f in inverse], 1

    def rope_llama3(self, inverse, theta, s):
        original, out = s["original_max_position_embeddings"], []
        for f in inverse:
            wavelength = 2 * math.pi / f
            if wavelength > original / s["low_freq_factor"]:
                out.append(f / s["factor"])
            elif wavelength < original / s["high_freq_factor"]:
                out.append(f)
            else:
                smooth = (original / wavelength - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
                out.append((1 - smooth) * f / s["factor"] + smooth * f)
        return out, 1

    def rope_longrope(self, inverse, theta, s):
        return [f / by for f, by in zip(inverse, s["short_factor"])], s.get("attention_factor", 1)

    def rope_factors(self, inverse, theta, s):
        return [f / by for f, by in zip(inverse, s["factors"])], 1

    def rope_yarn(self, inverse, theta, s):
        n, original = self.rotated, s.get("original_max_position_embeddings", self.c["max_position_embeddings"])

        def dimension(rotations):
            return n * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))
        low, high = dimension(s.get("beta_fast", 32)), dimension(s.get("beta_slow", 1))
        if s.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, n - 1)
        if low == high:
            high += 0.001
        out = []
        for i, f in enumerate(inverse):
            stay = 1 - min(max((i - low) / (high - low), 0), 1)
            out.append(f / s["factor"] * (1 - stay) + f * stay)
        return out, s.get("attention_factor", 0.1 * math.log(s["factor"]) + 1)

    def rotate(self, head, position, rope):
        inverse, factor = rope
        half = len(inverse)
        out = list(head)
        for i, f in enumerate(inverse):
            c, s = math.cos(position * f) * factor, math.sin(position * f) * factor
            out[i] = head[i] * c - head[i + half] * s
            out[i + half] = head[i + half] * c + head[i] * s
        return out

    def projections(self, name, x):
        """q, k and v of one position."""
        q, kv = self.heads * self.d, self.kv_heads * self.d
        if self.kind == "Phi3":
            all_of = product(self.t[name + "qkv_proj.weight"], x)
            return all_of[:q], all_of[q:q + kv], all_of[q + kv:]
        return [product(self.t[f"{name}{p}_proj.weight"], x, self.t.get(f"{name}{p}_proj.bias")) for p in "qkv"]

    def heads_of(self, name, which, x, position, rope):
        norm = f"{name}{which}_norm.weight"
        if norm in self.t and len(self.t[norm]) == len(x):
            x = self.norm(x, norm)
        out = [x[i:i + self.d] for i in range(0, len(x), self.d)]
        if norm in self.t and len(self.t[norm]) != len(x):
            out = [self.norm(head, norm) for head in out]
        return [self.rotate(head, position, rope) for head in out]

    def attention(self, layer, rows):
        name = f"model.layers.{layer}.self_attn."
        rope, window = self.rope(layer), self.window(layer)
        scale = self.c.get("query_pre_attn_scalar", self.d) ** -0.5
        cap = self.c.get("attn_logit_softcapping")
        keys, values, out = [], [], []
        for p, x in enumerate(rows):
            q, k, v = self.projections(name, x)
            queries = self.heads_of(name, "q", q, p, rope)
            keys.append(self.heads_of(name, "k", k, p, rope))
            values.append([v[i:i + self.d] for i in range(0, len(v), self.d)])
            first = max(0, p - window + 1) if window else 0
            mixed = []
            for h, query in enumerate(queries):
                g = h // (self.heads // self.kv_heads)
                scores = [dot(query, keys[j][g]) * scale for j in range(first, p + 1)]
                if cap:
                    scores = [cap * math.tanh(s / cap) for s in scores]
                weights = softmax(scores)
                seen = [values[j][g] for j in range(first, p + 1)]
                mixed += [dot(weights, column) for column in zip(*seen)]
            out.append(product(self.t[name + "o_proj.weight"], mixed, self.t.get(name + "o_proj.bias")))
        return out

    def gate(self, v):
        if self.gemma:
            return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))
        return v / (1 + math.exp(-v))

    def gated(self, x, gate, up, down, bias=lambda matrix: None):
        g, u = product(self.t[gate], x, bias(gate)), product(self.t[up], x, bias(up))
        return product(self.t[down], [self.gate(a) * b for a, b in zip(g, u)], bias(down))

    def feed_forward(self, layer, x):
        mixtral = self.kind == "Mixtral"
        name = layer + ("block_sparse_moe." if mixtral else "mlp.")
        if name + "gate.weight" in self.t:
            return self.experts(name, mixtral, x)
        if self.kind == "Phi3":
            both = product(self.t[name + "gate_up_proj.weight"], x)
            half = len(both) // 2
            return product(self.t[name + "down_proj.weight"], [self.gate(a) * b for a, b in zip(both[:half], both[half:])])
        return self.gated(x, *(f"{name}{p}_proj.weight" for p in ("gate", "up", "down")),
                          bias=lambda matrix: self.t.get(matrix.replace(".weight", ".bias")))

    def experts(self, name, mixtral, x):
        weights = softmax(product(self.t[name + "gate.weight"], x))
        chosen = sorted(range(len(weights)), key=lambda e: (-weights[e], e))[:self.c["num_experts_per_tok"]]
        total = sum(weights[e] for e in chosen) if mixtral or self.c.get("norm_topk_prob", False) else 1
        out = [0.0] * len(x)
        for e in chosen:
            parts = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
            y = self.gated(x, *(f"{name}experts.{e}.{p}.weight" for p in parts))
            out = [a + weights[e] / total * b for a, b in zip(out, y)]
        return out
