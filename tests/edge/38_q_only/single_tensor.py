# The rotation of one tensor: alone, or of two tensors with tables of their own.
# expect: fused rope Query.forward
# expect: either rope Both.forward
import torch
import torch.nn.functional as F
from torch import nn

def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(x, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (x * cos) + (rotate_half(x) * sin)


class Query(nn.Module):
    def forward(self, q, k, cos, sin):
        q = apply_rotary_pos_emb(q, cos, sin)
        return q, k


class Both(nn.Module):
    def forward(self, q, k, cos, sin):
        q = apply_rotary_pos_emb(q, cos, sin)
        k = apply_rotary_pos_emb(k, sin, cos)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for kind in (Query, Both):
        yield kind()(*inputs(dtype))
