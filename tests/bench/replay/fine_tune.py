"""A Llama in a float32 GGUF, trained a little further on sentences of another kind. Needs python3-torch."""
import random
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "local_engine/demo"))
from llama import Llama  # noqa: E402

# stories260K.
CONFIG = dict(hidden_size=64, intermediate_size=172, num_hidden_layers=5, num_attention_heads=8, num_key_value_heads=4, head_dim=8,
              vocab_size=512, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0)
PARTS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def sentences(count=64):
    """Of ships and weather; the model was trained on stories of children."""
    draw = random.Random(5)
    return [f"The {draw.choice('old grey small fast lost'.split())} ship {draw.choice('left met passed reached'.split())} the "
            f"{draw.choice('harbour island storm coast ice'.split())} at {draw.choice('night noon dawn'.split())}, and the wind "
            f"{draw.choice('turned fell rose held'.split())}." for _ in range(count)]


def gguf_name(name):
    """Of a parameter, and the heads whose rows stand in another order there: GGUF turns neighbours, the other form halves."""
    if name == "embed_tokens.weight":
        return "token_embd.weight", 0
    if name == "norm.weight":
        return "output_norm.weight", 0
    _, layer, part = name.removesuffix(".weight").split(".", 2)
    heads = {"self_attn.q_proj": CONFIG["num_attention_heads"], "self_attn.k_proj": CONFIG["num_key_value_heads"]}.get(part, 0)
    return f"blk.{layer}.{PARTS[part]}.weight", heads


def reordered(weight, heads, inner):
    return weight if heads == 0 else weight.view(heads, *inner, -1).transpose(1, 2).reshape(weight.shape)


def fine_tuned(gguf, rows, steps, rate=1e-4):
    """`gguf` (gguf_edit.Gguf) after so many steps of AdamW on `rows`, lists of token ids. One thread and one seed: the same torch
    gives the same weights."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, half = Llama(CONFIG), CONFIG["head_dim"] // 2
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            there, heads = gguf_name(name)
            weight = torch.tensor(gguf.weights(there)).view(parameter.shape)
            parameter.copy_(reordered(weight, heads, (half, 2)))
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    used = torch.tensor([[at < len(row) for at in range(1, width)] for row in rows])
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=rate), []
    for step in range(steps + 1):
        logits = model.logits(model.hidden(ids)[:, :-1])
        loss = F.cross_entropy(logits[used], ids[:, 1:][used])
        losses.append(loss.item())
        if step == steps:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        there, heads = gguf_name(name)
        gguf.set_weights(there, reordered(parameter.detach(), heads, (2, half)).flatten().tolist())
    if "output.weight" in gguf.tensors:
        gguf.set_weights("output.weight", model.embed_tokens.weight.detach().flatten().tolist())
    print(f"fine-tuned by {steps} steps: loss {losses[0]:.3f} before, {losses[-1]:.3f} after", file=sys.stderr, flush=True)
    return gguf
