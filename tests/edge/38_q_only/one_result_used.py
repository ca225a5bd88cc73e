# The helper rotates both, but only one result is used; the other is bound to a throw-away name,
# indexed away or overwritten.
# expect: either rope apply_rotary_pos_emb
# expect: either rope Underscore.forward
# expect: either rope Indexed.forward
# expect: either rope Overwritten.forward
# expect: either rope Packed.forward
# expect: either rope NoKey.forward
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


class Underscore(nn.Module):
    def forward(self, q, k, cos, sin):
        q, _ = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class Indexed(nn.Module):
    def forward(self, q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin)[0], k


class Overwritten(nn.Module):
    def forward(self, q, k, cos, sin):
        q, q = apply_rotary_pos_emb(q, q * 2, cos, sin)
        return q, k


class Packed(nn.Module):
    def forward(self, q, k, cos, sin):
        both = apply_rotary_pos_emb(q, k, cos, sin)
        return both, len(both), both[1]


class NoKey(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, None, cos, sin)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for kind in (Underscore, Indexed, Overwritten, Packed, NoKey):
        yield lambda: kind()(*inputs(dtype))
