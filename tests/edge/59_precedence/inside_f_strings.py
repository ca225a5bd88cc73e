# Inside an f-string of Python 3.11 the quotes of the string may not be used again, nor a
# backslash or a line break.
# expect: either rms_norm
# expect: either rope
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

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


class Norm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        double = f"{(self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)).sum().item():.3f}"
        single = f'{(self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)).sum().item():.3f}'
        triple = f"""{(self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)).sum().item():.3f}"""
        return double, single, triple, f"{(F.silu(x) * h).sum().item():{len('abcd')}.{len('ab')}}"


class Attn(nn.Module):
    def forward(self, q, k, cos, sin):
        text = f"{apply_rotary_pos_emb(q, k, cos, sin)[0].sum().item():.2f}"
        return text, f"{[*apply_rotary_pos_emb(q, k, cos, sin)][1].shape}"


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    yield Norm().to(dtype)(torch.randn(3, 8, dtype=dtype))
    yield Attn()(*inputs(dtype))
