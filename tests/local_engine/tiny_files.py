"""Tiny random models of every architecture, as the files that people have: safetensors with a config.json, and GGUF."""
import json
import random
import struct

GGUF_NAMES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "llama", "MixtralForCausalLM": "llama",
              "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3moe",
              "OlmoeForCausalLM": "olmoe", "Phi3ForCausalLM": "phi3", "GemmaForCausalLM": "gemma",
              "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3"}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def config_of(architecture, **more):
    config = {"architectures": [architecture], "torch_dtype": "float32", "hidden_size": 32, "intermediate_size": 48,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "vocab_size": 64,
              "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "eos_token_id": 2}
    config.update(more)
    return {key: value for key, value in config.items() if value is not None}


def shapes(config):
    """Name -> shape of every tensor, in Hugging Face's spelling."""
    c, kind = config, config["architectures"][0]
    h, m, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out = {"model.embed_tokens.weight": (c["vocab_size"], h), "model.norm.weight": (h,)}
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (c["vocab_size"], h)
    for layer in range(c["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind in ("Gemma2ForCausalLM", "Gemma3ForCausalLM"):
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        out.update({f"{name}{norm}.weight": (h,) for norm in norms})
        out[name + "self_attn.o_proj.weight"] = (h, q)
        if kind == "Phi3ForCausalLM":
            out[name + "self_attn.qkv_proj.weight"] = (q + 2 * kv, h)
            out[name + "mlp.gate_up_proj.weight"] = (2 * m, h)
            out[name + "mlp.down_proj.weight"] = (h, m)
            continue
        for part, rows in (("q", q), ("k", kv), ("v", kv)):
            out[f"{name}self_attn.{part}_proj.weight"] = (rows, h)
            if c.get("attention_bias") or kind == "Qwen2ForCausalLM":
                out[f"{name}self_attn.{part}_proj.bias"] = (rows,)
            whole = kind == "OlmoeForCausalLM"
            if part != "v" and (whole or kind.startswith(("Qwen3", "Gemma3"))):
                out[f"{name}self_attn.{part}_norm.weight"] = (rows if whole else d,)
        if c.get("attention_bias"):
            out[name + "self_attn.o_proj.bias"] = (h,)
        experts = c.get("num_local_experts") or c.get("num_experts")
        if experts:
            mixtral = kind == "MixtralForCausalLM"
            mlp = name + ("block_sparse_moe." if mixtral else "mlp.")
            out[mlp + "gate.weight"] = (experts, h)
            width = c.get("moe_intermediate_size", m)
            for e in range(experts):
                for part, shape in zip(("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj"),
                                       ((width, h), (width, h), (h, width))):
                    out[f"{mlp}experts.{e}.{part}.weight"] = shape
            continue
        for part, shape in (("gate", (m, h)), ("up", (m, h)), ("down", (h, m))):
            out[f"{name}mlp.{part}_proj.weight"] = shape
            if c.get("mlp_bias"):
                out[f"{name}mlp.{part}_proj.bias"] = shape[:1]
    return out


def tensors_of(config, seed=1):
    """Name -> rows, or numbers for a vector: f32 values of a size that lets activations neither vanish nor explode."""
    chance, out = random.Random(seed), {}
    gemma = config["architectures"][0].startswith("Gemma")
    for name, shape in sorted(shapes(config).items()):
        if len(shape) == 1:
            center = 1 if "norm" in name and not gemma else 0
            out[name] = [f32(center + chance.uniform(-0.25, 0.25)) for _ in range(shape[0])]
        else:
            size = 2.5 / shape[1] ** 0.5
            out[name] = [[f32(chance.uniform(-size, size)) for _ in range(shape[1])] for _ in range(shape[0])]
    return out


def flat(tensor):
    return [v for row in tensor for v in flat(row)] if isinstance(tensor[0], list) else tensor


def shape_of(tensor):
    return [len(tensor)] + (shape_of(tensor[0]) if isinstance(tensor[0], list) else [])


def write_folder(folder, config, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        numbers = flat(tensor)
        begin = len(data)
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape_of(tensor), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def gguf_tensors(config, tensors):
    """The tensors under a GGUF's names, as converters leave them: rows of a llama's q and k interleaved, Gemma's norms plus 1,
    experts of a layer in one tensor."""
    kind = config["architectures"][0]
    post = kind in ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
    names = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
             "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
             "post_attention_layernorm": "post_attention_norm" if post else "ffn_norm",
             "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp"}
    experts = {"w1": "ffn_gate_exps", "gate_proj": "ffn_gate_exps", "w3": "ffn_up_exps", "up_proj": "ffn_up_exps",
               "w2": "ffn_down_exps", "down_proj": "ffn_down_exps"}
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    out = {}
    for name, tensor in tensors.items():
        if kind.startswith("Gemma") and "norm" in name:
            tensor = [f32(1 + v) for v in tensor]
        if GGUF_NAMES[kind] == "llama" and (".q_proj" in name or ".k_proj" in name):
            d = config["head_dim"]
            tensor = [tensor[at - at % d + at % d % 2 * (d // 2) + at % d // 2] for at in range(len(tensor))]
        if name in top:
            out[top[name]] = tensor
            continue
        _, _, layer, rest = name.split(".", 3)
        stem, suffix = rest.rsplit(".", 1)
        if ".experts." in stem:
            out.setdefault(f"blk.{layer}.{experts[stem.rsplit('.', 1)[1]]}.{suffix}", []).append(tensor)
        else:
            out[f"blk.{layer}.{names[stem]}.{suffix}"] = tensor
    return out


def gguf_values(config):
    """Key-values: integers become u32, floats f32."""
    c, name = config, GGUF_NAMES[config["architectures"][0]]
    values = {"context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"],
              "feed_forward_length": c["intermediate_size"], "block_count": c["num_hidden_layers"],
              "attention.head_count": c["num_attention_heads"], "attention.head_count_kv": c["num_key_value_heads"],
              "attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"],
              "attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"]), "rope.freq_base": float(c["rope_theta"])}
    if "partial_rotary_factor" in c:
        values["rope.dimension_count"] = int(c["head_dim"] * c["partial_rotary_factor"])
    if c.get("sliding_window"):
        values["attention.sliding_window"] = c["sliding_window"]
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if c.get(key):
            values[key] = float(c[key])
    experts = c.get("num_local_experts") or c.get("num_experts")
    if experts:
        values.update({"expert_count": experts, "expert_used_count": c["num_experts_per_tok"]})
        if "moe_intermediate_size" in c:
            values["expert_feed_forward_length"] = c["moe_intermediate_size"]
    scaling = c.get("rope_scaling") or {}
    if scaling.get("rope_type") in ("linear", "yarn"):
        values["rope.scaling.type"] = scaling["rope_type"]
        values["rope.scaling.factor"] = float(scaling["factor"])
        if "original_max_position_embeddings" in scaling:
            values["rope.scaling.original_context_length"] = scaling["original_max_position_embeddings"]
    return name, values


def write_gguf(path, config, tensors):
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    architecture, values = gguf_values(config)
    encoded = [text("general.architecture") + struct.pack("<I", 8) + text(architecture),
               text("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, config["eos_token_id"])]
    for key, value in values.items():
        kind = 8 if isinstance(value, str) else 6 if isinstance(value, float) else 4
        body = text(value) if kind == 8 else struct.pack("<f" if kind == 6 else "<I", value)
        encoded.append(text(f"{architecture}.{key}") + struct.pack("<I", kind) + body)
    infos, data = [], b""
    for name, tensor in gguf_tensors(config, tensors).items():
        numbers, dims = flat(tensor), shape_of(tensor)[::-1]
        data += b"\0" * (-len(data) % 32)
        infos.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(data)))
        data += struct.pack(f"<{len(numbers)}f", *numbers)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(encoded)) + b"".join(encoded + infos)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
