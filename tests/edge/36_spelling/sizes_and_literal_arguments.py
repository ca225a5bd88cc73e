# x.size(-1) is x.shape[-1]. What a helper gets as a literal, or has as its default, decides its
# conditions where it is called.
# expect: fused rope by_size "tfr.rope\(x, cos, sin, layout=.half.\)"
# expect: fused rope cases "via=by_size"
# expect: fused rope turned "tfr.rope\(q, k, cos, sin, layout=.half., inner=rotate_half\)"
# expect: fused rope Default.forward "unsqueeze_dim=1, via=turned"
# expect: not-fused rope Literal.forward
# expect: not-fused rope Given.forward
import torch
from torch import nn


def by_size(x, cos, sin):
    half = x.size(-1) // 2
    x1, x2 = x[..., :half], x[..., x.size()[-1] // 2 :]
    return (x * cos) + (torch.cat((-x2, x1), dim=-1) * sin)


def rotate_half(x):
    x1 = x[..., : x.size(dim=-1) // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def turned(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, twice=False):
    if position_ids is not None:
        cos, sin = cos[position_ids], sin[position_ids]
    cos = cos if unsqueeze_dim is None else cos.unsqueeze(unsqueeze_dim)
    sin = sin if unsqueeze_dim is None else sin.unsqueeze(unsqueeze_dim)
    if twice:
        q, k = q * 2, k * 2
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class Default(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = turned(q, k, cos, sin)
        return q, k


class Literal(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = turned(q, k, cos, sin, None, 1, twice=True)
        return q, k


class Given(nn.Module):
    def forward(self, q, k, cos, sin, position_ids=None):
        q, k = turned(q, k, cos, sin, position_ids)
        return q, k


def cases(dtype):
    q, k = torch.randn(2, 4, 5, 8, dtype=dtype), torch.randn(2, 2, 5, 8, dtype=dtype)
    cos, sin = torch.randn(2, 5, 8, dtype=dtype), torch.randn(2, 5, 8, dtype=dtype)
    yield Default()(q, k, cos, sin)
    yield Literal()(q, k, cos, sin)
    yield Given()(q, k, cos, sin)
    ids = torch.tensor([1, 0])
    yield Given()(q, k, cos, sin, ids)
    yield turned(q, k, cos[:, None], sin[:, None], unsqueeze_dim=None)
    yield turned(q, k, cos, sin, ids, twice=True)
    yield by_size(q, cos[:, None], sin[:, None])
