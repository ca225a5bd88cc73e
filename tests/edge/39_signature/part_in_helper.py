# Helpers that do more than rotate are fused inside, where rotate_half is a helper of a part: that, or
# the whole helper, may be replaced, hidden by a local name, or called by another.
# expect: fused rope apply_to_patches "inner=rotate_half"
# expect: fused rope apply_to_some x2 "inner=rotate_half"
# expect: not-fused rope apply_by_argument
# expect: not-fused rope apply_hidden
# expect: not-fused rope apply_of_other
# expect: either rope *.forward
# expect: either rope apply_two_helpers
# expect: no-text "inner=(turn|by)"
import sys

import torch
import torch.nn.functional as F
from torch import nn


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotate_too(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_to_patches(q, k, cos, sin):
    first = q.shape[-2] - sin.shape[-2]
    q_first, q = q.split((first, sin.shape[-2]), dim=-2)
    k_first, k = k.split((first, sin.shape[-2]), dim=-2)
    q = (q * cos) + (rotate_half(q) * sin)
    k = (k * cos) + (rotate_half(k) * sin)
    return torch.cat((q_first, q), dim=-2), torch.cat((k_first, k), dim=-2)


def apply_to_some(q, k=None, cos=None, sin=None):
    width = cos.shape[-1]
    q = torch.cat([q[..., :width] * cos + rotate_half(q[..., :width]) * sin, q[..., width:]], dim=-1)
    if k is None:
        return q
    rot, rest = k[..., :width], k[..., width:]
    rot = (rot * cos) + (rotate_half(rot) * sin)
    return q, torch.cat([rot, rest], dim=-1)


def apply_by_argument(x, cos, sin, rotate_half):
    x = (x * cos) + (rotate_half(x) * sin)
    return x, x.shape


def apply_hidden(x, cos, sin):
    rotate_half = torch.abs
    x = (x * cos) + (rotate_half(x) * sin)
    return x, x.shape


def apply_of_other(x, y, cos, sin):
    x = (x * cos) + (rotate_half(y) * sin)
    return x, x.shape


def apply_two_helpers(q, k, cos, sin):
    q, k = (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_too(k) * sin)
    return q, k, q.shape


class Patches(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_to_patches(q, k, cos, sin)
        return q, k


class Some(nn.Module):
    def forward(self, q, k, cos, sin):
        return apply_to_some(q, k, cos, sin), apply_to_some(k, cos=cos, sin=sin)


class Rest(nn.Module):
    def forward(self, q, k, cos, sin):
        a = apply_by_argument(q, cos, sin, rotate_too), apply_hidden(q, cos, sin)
        return a, apply_of_other(q, k, cos, sin), apply_two_helpers(q, k, cos, sin)


def inputs(dtype, seq=5, rotary=8):
    q, k = torch.randn(2, 4, 5, 8, dtype=dtype), torch.randn(2, 4, 5, 8, dtype=dtype)
    return q, k, torch.randn(seq, rotary, dtype=dtype), torch.randn(seq, rotary, dtype=dtype)


def cases(dtype):
    module = sys.modules[__name__]
    kept, whole = rotate_half, apply_to_patches
    for given in (inputs(dtype), inputs(dtype, 4), inputs(dtype, 5, 6)):
        for kind in (Patches, Some, Rest):
            for other in (kept, rotate_too, lambda x: x * 0):
                module.rotate_half = other
                yield lambda kind=kind, given=given: kind()(*given)
            module.rotate_half = kept
    module.apply_to_patches = lambda q, k, cos, sin: (q + 1, k)
    yield Patches()(*inputs(dtype))
    module.apply_to_patches = whole
