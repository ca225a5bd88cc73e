"""A small decoder in the style of Phi3: one packed projection for q, k and v, one for gate and up, rotary
embedding on a part of each head, and dropout on what is added to the residual.
"""

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
    head_dim: int = 16
    rotary_dim: int = 12
    rope_theta: float = 1e4
    norm_eps: float = 1e-5
    dropout: float = 0.1


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.activation_fn = nn.SiLU()

    def forward(self, hidden_states):
        up_states = self.gate_up_proj(hidden_states)
        up_states = tfr.act_mul(self.activation_fn, up_states, packed="gate_up", dim=-1)
        return self.down_proj(up_states)


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def apply_rotary(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    width = cos.shape[-1]
    q_turned, q_rest = q[..., :width], q[..., width:]
    k_turned, k_rest = k[..., :width], k[..., width:]
    q = torch.cat([(q_turned * cos) + (rotate_half(q_turned) * sin), q_rest], dim=-1)
    k = torch.cat([(k_turned * cos) + (rotate_half(k_turned) * sin), k_rest], dim=-1)
    return q, k


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim = config.head_dim
        self.width = config.heads * config.head_dim
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * self.width, bias=False)
        self.o_proj = nn.Linear(self.width, config.hidden_size, bias=False)

    def forward(self, hidden_states, cos, sin):
        batch, length = hidden_states.shape[:-1]
        parts = self.qkv_proj(hidden_states).split(self.width, dim=-1)
        q, k, v = (p.view(batch, length, -1, self.head_dim).transpose(1, 2) for p in parts)
        q, k = tfr.rope(q, k, cos, sin, layout="half", unsqueeze_dim=1, partial=True, via=apply_rotary)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return tfr.rms_norm(hidden_states, self.weight, self.variance_epsilon, order="cast_weight")


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.norm_eps)
        self.attention_dropout = nn.Dropout(config.dropout)
        self.mlp_dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states, cos, sin):
        residual = hidden_states
        hidden_states = self.self_attn(self.input_layernorm(hidden_states), cos, sin)
        hidden_states, residual = tfr.add_rms_norm(
            self.attention_dropout(hidden_states), residual, self.post_attention_layernorm
        )

        return residual + self.mlp_dropout(self.mlp(hidden_states))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def angles(self, length, like):
        size = self.config.rotary_dim
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
