"""A small decoder in the style of Qwen3: RMS norms on the heads of q and k, and a gated MLP."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from tfrewrite import ops as tfr


@dataclass
class Config:
    vocab_size: int = 256
    hidden_size: int = 64
    intermediate_size: int = 160
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 1e6
    norm_eps: float = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight")


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        gate, up = tfr.linears(x, self.gate_proj, self.up_proj)
        return self.down_proj(tfr.act_mul(self.act_fn, gate, up))


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def apply_rotary(q, k, cos, sin):
    # One axis more, for the heads.
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim = config.head_dim
        self.groups = config.heads // config.kv_heads
        self.q_proj = nn.Linear(config.hidden_size, config.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(config.heads * self.head_dim, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.norm_eps)

    def forward(self, hidden_states, cos, sin):
        batch, length = hidden_states.shape[:-1]
        shape = (batch, length, -1, self.head_dim)
        q, k, v = tfr.linears(hidden_states, self.q_proj, self.k_proj, self.v_proj)
        v = v.view(shape).transpose(1, 2)
        q, k = tfr.qk_norm_rope(
            q.view(shape),
            k.view(shape),
            self.q_norm,
            self.k_norm,
            cos,
            sin,
            layout="half",
            unsqueeze_dim=1,
            out="bhsd",
            via=apply_rotary,
        )
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = MLP(config)

    def forward(self, hidden_states, cos, sin):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(hidden_states, cos, sin)
        hidden_states, residual = tfr.add_rms_norm(hidden_states, residual, self.post_attention_layernorm)

        # The MLP
        hidden_states = self.mlp(hidden_states)
        return residual + hidden_states


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def angles(self, length, like):
        size = self.config.head_dim
        steps = torch.arange(0, size, 2, dtype=torch.float32, device=like.device) / size
        turns = torch.arange(length, device=like.device)[None, :, None] / self.config.rope_theta**steps
        turns = torch.cat((turns, turns), dim=-1)
        return turns.cos().to(like.dtype), turns.sin().to(like.dtype)

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        cos, sin = self.angles(input_ids.shape[1], hidden_states)
        for layer in self.layers:
            hidden_states = layer(hidden_states, cos, sin)
        return self.lm_head(self.norm(hidden_states))
