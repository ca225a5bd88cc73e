"""A small decoder in the style of Gemma2: norms that scale by 1 + weight before and after each block,
a tanh GELU, and logits held within a cap.
"""

from dataclasses import dataclass

import torch
from torch import nn
from tfrewrite import ops as tfr


@dataclass
class Config:
    vocab_size: int = 256
    hidden_size: int = 64
    intermediate_size: int = 160
    layers: int = 2
    heads: int = 4
    head_dim: int = 16
    rope_theta: float = 1e4
    norm_eps: float = 1e-6
    attention_cap: float = 50.0
    logit_cap: float = 30.0


class RMSNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def scaled(self, x):
        return x * torch.rsqrt(torch.mean(torch.square(x), dim=-1, keepdim=True) + self.eps)

    def forward(self, x):
        # All in float32, one rounding at the end.
        return tfr.rms_norm(x, self.weight, self.eps, order="one_plus_cast", via=self.scaled)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = nn.GELU(approximate="tanh")

    def forward(self, x):
        gate, up = tfr.linears(x, self.gate_proj, self.up_proj)
        return self.down_proj(tfr.act_mul(self.act_fn, gate, up))


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_turned = (q * cos) + (rotate_half(q) * sin)
    k_turned = (k * cos) + (rotate_half(k) * sin)
    return q_turned, k_turned


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.heads * config.head_dim
        self.head_dim = config.head_dim
        self.scale = config.head_dim**-0.5
        self.cap = config.attention_cap
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_states, cos, sin):
        batch, length = hidden_states.shape[:-1]
        query, key, value = tfr.linears(hidden_states, self.q_proj, self.k_proj, self.v_proj)
        query = query.view(batch, length, -1, self.head_dim).transpose(1, 2)
        key = key.view(batch, length, -1, self.head_dim).transpose(1, 2)
        value = value.view(batch, length, -1, self.head_dim).transpose(1, 2)

        query, key = tfr.rope(query, key, cos, sin, layout="half", unsqueeze_dim=1, via=apply_rotary)
        scores = tfr.softcap(query @ key.transpose(2, 3), self.cap, scale=self.scale)
        future = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o_proj((weights @ value).transpose(1, 2).reshape(batch, length, -1))


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.norm_eps)
        self.pre_feedforward_layernorm = RMSNorm(config.hidden_size, eps=config.norm_eps)
        self.post_feedforward_layernorm = RMSNorm(config.hidden_size, eps=config.norm_eps)

    def forward(self, hidden_states, cos, sin):
        residual = hidden_states
        hidden_states = self.self_attn(self.input_layernorm(hidden_states), cos, sin)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states, residual = tfr.add_rms_norm(hidden_states, residual, self.pre_feedforward_layernorm)

        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        return residual + hidden_states


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden_size, eps=config.norm_eps)

    def angles(self, length, like):
        size = self.config.head_dim
        steps = torch.arange(0, size, 2, dtype=torch.float32, device=like.device) / size
        turns = torch.arange(length, device=like.device)[None, :, None] / self.config.rope_theta**steps
        turns = torch.cat((turns, turns), dim=-1)
        return turns.cos().to(like.dtype), turns.sin().to(like.dtype)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids) * self.config.hidden_size**0.5
        cos, sin = self.angles(input_ids.shape[1], hidden_states)
        for layer in self.layers:
            hidden_states = layer(hidden_states, cos, sin)
        logits = self.norm(hidden_states) @ self.embed_tokens.weight.T
        return tfr.softcap(logits, self.config.logit_cap)
