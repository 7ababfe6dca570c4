"""The Llama architecture with Hugging Face's names and conventions, as little of it as the demo model needs."""
import torch
from torch import nn
from torch.nn import functional as F

CONFIG = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
              vocab_size=1280, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0)


class RMSNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config["hidden_size"]))
        self.eps = config["rms_norm_eps"]

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_table(config):
    """cos, sin: (positions, head_dim); both halves of a head hold the same angles (rotate_half)."""
    d = config["head_dim"]
    inverse = config["rope_theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.arange(config["max_position_embeddings"], dtype=torch.float64)[:, None] * inverse
    angles = torch.cat([angles, angles], -1)
    return angles.cos().float(), angles.sin().float()


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        h, d = config["hidden_size"], config["head_dim"]
        self.heads, self.kv_heads, self.d = config["num_attention_heads"], config["num_key_value_heads"], d
        self.q_proj = nn.Linear(h, self.heads * d, bias=False)
        self.k_proj = nn.Linear(h, self.kv_heads * d, bias=False)
        self.v_proj = nn.Linear(h, self.kv_heads * d, bias=False)
        self.o_proj = nn.Linear(self.heads * d, h, bias=False)

    def forward(self, x, cos, sin, mask):
        rows, length, _ = x.shape
        split = lambda y, heads: y.view(rows, length, heads, self.d).transpose(1, 2)
        q = rotate(split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(split(self.k_proj(x), self.kv_heads), cos, sin)
        v = split(self.v_proj(x), self.kv_heads)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = (q @ k.transpose(-1, -2)) * self.d ** -0.5 + mask
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, -1))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        h, f = config["hidden_size"], config["intermediate_size"]
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(h, f, bias=False), nn.Linear(h, f, bias=False), nn.Linear(f, h, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(config), Attention(config)
        self.post_attention_layernorm, self.mlp = RMSNorm(config), MLP(config)

    def forward(self, x, *attention):
        x = x + self.self_attn(self.input_layernorm(x), *attention)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Its state_dict has the names of LlamaForCausalLM less the prefix "model."; the output matrix is the embedding."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config)
        self.cos, self.sin = rope_table(config)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                branch_end = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=0.04 / (2 * config["num_hidden_layers"]) ** (0.5 if branch_end else 0))

    def hidden(self, ids):
        """(rows, length) -> (rows, length, hidden)"""
        length = ids.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length], mask)
        return self.norm(x)

    def logits(self, hidden):
        return hidden @ self.embed_tokens.weight.T
