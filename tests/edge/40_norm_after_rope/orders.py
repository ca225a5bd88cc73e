# Hunyuan normalises after the rotation: the order is kept.
# expect: fused qk_norm_rope Before.forward
# expect: not-fused qk_norm_rope After.forward
# expect: fused rope After.forward
# expect: not-fused qk_norm_rope Mixed.forward
# expect: either rope Mixed.forward
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


class Before(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm = Norm(8)
        self.k_norm = Norm(8)

    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class After(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm = Norm(8)
        self.k_norm = Norm(8)

    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        q = self.q_norm(q)
        k = self.k_norm(k)
        return q, k


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm = Norm(8)
        self.k_norm = Norm(8)

    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k.transpose(1, 2), cos, sin)
        return q, self.k_norm(k)


def cases(dtype):
    for kind in (Before, After, Mixed):
        block = kind().to(dtype)
        q, k = torch.randn(2, 5, 4, 8, dtype=dtype), torch.randn(2, 5, 2, 8, dtype=dtype)
        cos, sin = torch.randn(2, 5, 8, dtype=dtype), torch.randn(2, 5, 8, dtype=dtype)
        yield block(q, k, cos, sin)
        yield lambda: block(q[..., :4], k, cos, sin)
