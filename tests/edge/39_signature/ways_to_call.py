# Positional, keyword, exchanged keywords, stars, another unsqueeze_dim, unused and missing
# arguments.
# expect: fused rope apply_rotary_pos_emb "inner=rotate_half"
# expect: fused rope Positional.forward
# expect: fused rope Keyword.forward
# expect: fused rope Exchanged.forward
# expect: fused rope Dim.forward
# expect: either rope DimVariable.forward
# expect: either rope Stars.forward
# expect: either rope DoubleStars.forward
# expect: either rope Missing.forward
# expect: either rope TooMany.forward
# expect: either rope KeyFirst.forward
# expect: either rope SameTensor.forward
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


class Positional(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin, 1)
        return q, k


class Keyword(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q=q, k=k, cos=cos, sin=sin)
        return q, k


class Exchanged(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(sin=sin, k=k, cos=cos, q=q)
        return q, k


class Dim(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin, unsqueeze_dim=2)
        return q, k


class DimVariable(nn.Module):
    def forward(self, q, k, cos, sin, dim=1):
        q, k = apply_rotary_pos_emb(q, k, cos, sin, dim)
        return q, k


class Stars(nn.Module):
    def forward(self, q, k, *tables):
        q, k = apply_rotary_pos_emb(q, k, *tables)
        return q, k


class DoubleStars(nn.Module):
    def forward(self, q, k, cos, sin, **kwargs):
        q, k = apply_rotary_pos_emb(q, k, cos, sin, **kwargs)
        return q, k


class Missing(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos)
        return q, k


class TooMany(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin, 1, None)
        return q, k


class KeyFirst(nn.Module):
    def forward(self, q, k, cos, sin):
        k, q = apply_rotary_pos_emb(k, q, cos, sin)
        return q, k


class SameTensor(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, q, cos, sin)
        return q, k


KINDS = [Positional, Keyword, Exchanged, Dim, DimVariable, Stars, DoubleStars, Missing, TooMany, KeyFirst, SameTensor]


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for kind in KINDS:
        given = inputs(dtype)
        yield lambda: kind()(*given)
    q, k, cos, sin = given
    yield DoubleStars()(q.transpose(1, 2), k.transpose(1, 2), cos, sin, unsqueeze_dim=2)
    yield DimVariable()(q[:1], k[:1], cos[:1], sin[:1], 0)
    yield DimVariable()(q.transpose(1, 2), k.transpose(1, 2), cos, sin, -2)
    yield Positional()(q, k, cos[:1], sin[:1])
    yield Positional()(q, k.double(), cos, sin)
    yield Positional()(q, k, cos.float(), sin.float())
    yield lambda: Positional()(q, k, cos[:, :1], sin[:, :3])
