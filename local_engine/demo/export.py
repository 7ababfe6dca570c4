"""Writes a model folder in Hugging Face's layout, and its fingerprint."""
import hashlib
import json
import pathlib
import struct

import torch

from bpe import SPECIAL

CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
                 "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
END_OF_TEXT, IM_START, IM_END = range(3)


def bf16_bits(tensor):
    """Rounds to bf16, nearest even, and gives the 16-bit words."""
    return tensor.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().astype("<i2")


def safetensors(tensors):
    """The bytes of a .safetensors file of bf16 tensors: in order of name, without gaps."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        blob = bf16_bits(tensors[name]).tobytes()
        header[name] = dict(dtype="BF16", shape=list(tensors[name].shape), data_offsets=[offset, offset + len(blob)])
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def model_files(model, config, tokenizer):
    """name -> bytes"""
    pretty = lambda value: (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    eos = dict(bos_token_id=None, eos_token_id=[IM_END, END_OF_TEXT], pad_token_id=END_OF_TEXT)
    decoder = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in tokenizer.to_json()["added_tokens"]}
    return {
        "config.json": pretty(dict(architectures=["LlamaForCausalLM"], model_type="llama", **config, hidden_act="silu", attention_bias=False,
                                   mlp_bias=False, rope_scaling=None, tie_word_embeddings=True, torch_dtype="bfloat16",
                                   bos_token_id=None, eos_token_id=IM_END, pad_token_id=END_OF_TEXT)),
        "generation_config.json": pretty(eos),
        "tokenizer.json": pretty(tokenizer.to_json()),
        "tokenizer_config.json": pretty(dict(add_prefix_space=False, added_tokens_decoder=decoder, bos_token=None, eos_token=SPECIAL[IM_END],
                                             pad_token=SPECIAL[END_OF_TEXT], unk_token=None, clean_up_tokenization_spaces=False,
                                             model_max_length=config["max_position_embeddings"], tokenizer_class="PreTrainedTokenizerFast",
                                             chat_template=CHAT_TEMPLATE)),
        "model.safetensors": safetensors({"model." + name: p for name, p in model.state_dict().items()}),
    }


def fingerprint(files):
    """Every file's size and SHA-256, and the SHA-256 of that list in canonical JSON (RFC 8785)."""
    rows = [dict(name=name, sha256=hashlib.sha256(files[name]).hexdigest(), size=len(files[name])) for name in sorted(files)]
    canonical = json.dumps(rows, sort_keys=True, separators=(",", ":")).encode()
    return dict(manifest_sha256=hashlib.sha256(canonical).hexdigest(), files=rows)


def write(folder, model, config, tokenizer):
    """Writes folder/model/* and folder/fingerprint.json."""
    folder = pathlib.Path(folder)
    (folder / "model").mkdir(parents=True, exist_ok=True)
    files = model_files(model, config, tokenizer)
    for name, data in files.items():
        (folder / "model" / name).write_bytes(data)
    result = fingerprint(files)
    (folder / "fingerprint.json").write_text(json.dumps(result, indent=2) + "\n")
    return result
