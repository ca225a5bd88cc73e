# One class, instances with other head sizes and counts: geometry comes from the instance.
# expect: fused linears Attn.forward
# expect: fused qk_norm_rope Attn.forward
# expect: fused rms_norm Norm.forward
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class Attn(nn.Module):
    def __init__(self, heads, kv_heads, head_dim):
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = nn.Linear(8, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(8, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(8, kv_heads * head_dim, bias=False)
        self.q_norm = Norm(head_dim)
        self.k_norm = Norm(head_dim)

    def forward(self, x, cos, sin):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k, v


def cases(dtype):
    for heads, kv_heads, head_dim in ((4, 2, 8), (2, 2, 16), (3, 1, 4)):
        attn, x = Attn(heads, kv_heads, head_dim).to(dtype), torch.randn(2, 5, 8, dtype=dtype)
        cos, sin = (torch.randn(2, 5, head_dim, dtype=dtype) for _ in range(2))
        yield attn(x, cos, sin)
