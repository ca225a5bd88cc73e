# Queries and keys with norms of their own per head, a cache of tuples that is changed in place, and
# dropout between.
# expect: fused rms_norm HeadNorm.forward
# expect: fused linears CAttention.forward
# expect: fused rope CAttention.forward
# expect: refused qk_norm_rope CAttention.forward "helper function"
import torch
from torch import nn


class HeadNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size).uniform_(0.5, 1.5))
        self.eps = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.eps)
        return self.weight * hidden_states.to(input_dtype)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class CAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.head_dim = heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.o_proj = nn.Linear(hidden, hidden)
        self.q_norm, self.k_norm = HeadNorm(self.head_dim), HeadNorm(self.head_dim)

    def forward(self, x, cos, sin, position_ids, cache):
        b, s, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, s, self.heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, s, self.heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(b, s, self.heads, self.head_dim).transpose(1, 2)
        cos = cos[position_ids].unsqueeze(1)
        sin = sin[position_ids].unsqueeze(1)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if cache:
            k, v = torch.cat((cache[-1][0], k), 2), torch.cat((cache[-1][1], v), 2)
        cache.append((k, v))
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.o_proj(out.transpose(1, 2).reshape(b, s, -1))


def cases(dtype):
    attention = CAttention(16, 2).to(dtype)
    angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.5, 0.1, 0.01]))
    angles = torch.cat((angles, angles), -1)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    cache = []
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield attention(x, cos, sin, torch.arange(5)[None], cache)
    yield attention(x[:, :1], cos, sin, torch.tensor([[5]]), cache)
    yield cache
