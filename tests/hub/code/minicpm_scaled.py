# MiniCPM: scaled embeddings and residual branches, RMSNorm in a module-level function, rotation in
# float32 by position.
# expect: fused rope apply_rotary_pos_emb
# expect: fused act_mul MMLP.forward
# expect: fused linears MMLP.forward
# expect: fused linears MAttention.forward
# expect: fused rms_norm MRMSNorm.forward "order=.product_cast_weight., via=rms_layernorm"
# expect: fused add_rms_norm MLayer.forward
# expect: not-fused rms_norm rms_layernorm
# expect: not-fused rope MAttention.forward
import math

import torch
from torch import nn


def rms_layernorm(hidden: torch.Tensor, weight: torch.Tensor, eps: float):
    old_dtype = hidden.dtype
    variance = hidden.to(torch.float32).pow(2).mean(dim=-1, keepdim=True)
    hidden = (hidden * torch.rsqrt(variance + eps)).to(old_dtype)
    return hidden * weight


class MRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return rms_layernorm(hidden_states, self.weight, self.variance_epsilon)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    orig_dtype = k.dtype
    cos = cos[position_ids].unsqueeze(unsqueeze_dim)
    sin = sin[position_ids].unsqueeze(unsqueeze_dim)
    q_fp32 = q.to(dtype=torch.float32, device=q.device)
    k_fp32 = k.to(dtype=torch.float32, device=k.device)
    q_embed = (q_fp32 * cos) + (rotate_half(q_fp32) * sin)
    k_embed = (k_fp32 * cos) + (rotate_half(k_fp32) * sin)
    return q_embed.to(dtype=orig_dtype), k_embed.to(dtype=orig_dtype)


class MMLP(nn.Module):
    def __init__(self, hidden, inner, pretraining_tp=1):
        super().__init__()
        self.pretraining_tp = pretraining_tp
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        if self.pretraining_tp > 1:
            slices = self.gate_proj.weight.split(12, dim=0)
            down_proj = sum(nn.functional.linear(x, s).sum(-1, keepdim=True) for s in slices)
        else:
            down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

        return down_proj


class MAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.num_heads, self.head_dim = heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, hidden_states, cos, sin, position_ids):
        bsz, q_len, _ = hidden_states.size()
        query_states = self.q_proj(hidden_states)
        key_states = self.k_proj(hidden_states)
        value_states = self.v_proj(hidden_states)
        query_states = query_states.view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        key_states = key_states.view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        value_states = value_states.view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        query_states, key_states = apply_rotary_pos_emb(
            query_states, key_states, cos, sin, position_ids
        )
        out = nn.functional.scaled_dot_product_attention(query_states, key_states, value_states)
        return self.o_proj(out.transpose(1, 2).reshape(bsz, q_len, -1))


class MLayer(nn.Module):
    def __init__(self, pretraining_tp=1):
        super().__init__()
        self.self_attn = MAttention(16, 2)
        self.mlp = MMLP(16, 24, pretraining_tp)
        self.input_layernorm = MRMSNorm(16)
        self.post_attention_layernorm = MRMSNorm(16)
        self.scale_depth = 1.4
        self.num_hidden_layers = 40

    def forward(self, hidden_states, cos, sin, position_ids):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(hidden_states, cos, sin, position_ids)
        hidden_states = residual + hidden_states * (
            self.scale_depth / math.sqrt(self.num_hidden_layers)
        )
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states * (
            self.scale_depth / math.sqrt(self.num_hidden_layers)
        )
        return hidden_states


def cases(dtype):
    angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.5, 0.1, 0.01]))
    angles = torch.cat((angles, angles), -1)
    x = torch.randn(2, 5, 16, dtype=dtype)
    embed = nn.Embedding(10, 16).to(dtype)
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    yield MLayer().to(dtype)(x, angles.cos(), angles.sin(), torch.arange(5)[None])
    yield MLayer().to(dtype)(embed(tokens) * 12, angles.cos(), angles.sin(), torch.arange(5)[None])
    yield MLayer(2).to(dtype)(x, angles.cos(), angles.sin(), torch.arange(5)[None])
