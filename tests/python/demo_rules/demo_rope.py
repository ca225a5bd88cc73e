"""demo_rope: rotation of q and k by halves, seen through a helper of the user's file."""

import torch
from tfrewrite.rules import Const, Tensor, op, ref

op("demo_rope(Tensor q, Tensor k, Tensor cos, Tensor sin, *, int unsqueeze_dim) -> Tensor[2]")


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


@ref("demo_rope(q, k, cos, sin, unsqueeze_dim=dim)")
def half(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
