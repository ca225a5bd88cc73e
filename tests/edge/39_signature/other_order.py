# The helper takes or returns its values in another order: also where the helper itself is
# called (compiled, replaced).
# expect: fused rope tables_first "inner=rotate_half"
# expect: fused rope key_first
# expect: fused rope by_keyword
# expect: fused rope results "k, q, cos, sin, layout=.half., inner=rotate_half"
# expect: fused rope ids
# expect: not-fused rope TablesFirst.forward
# expect: not-fused rope KeyFirst.forward
# expect: not-fused rope ByKeyword.forward
# expect: not-fused rope Results.forward
# expect: not-fused rope Ids.forward
import torch
import torch.nn.functional as F
from torch import nn
import sys

def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def tables_first(cos, sin, q, k, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def key_first(k, q, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def by_keyword(q, k, *, sin, cos, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def results(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (k * cos) + (rotate_half(k) * sin), (q * cos) + (rotate_half(q) * sin)


def ids(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


class TablesFirst(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = tables_first(cos, sin, q, k)
        return q, k


class KeyFirst(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = key_first(k, q, cos, sin)
        return q, k


class ByKeyword(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = by_keyword(q, k, cos=cos, sin=sin)
        return q, k


class Results(nn.Module):
    def forward(self, q, k, cos, sin):
        k, q = results(q, k, cos, sin)
        return q, k


class Ids(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = ids(q, k, cos, sin, cos)
        return q, k


def replacement(*args, **kwargs):
    named = sum((1 + len(name)) * value.float().sum() for name, value in kwargs.items() if hasattr(value, "sum"))
    given = sum((n + 2) * value.float().sum() for n, value in enumerate(args) if hasattr(value, "sum"))
    return given + named, len(args) * 10 + len([v for v in kwargs.values() if hasattr(v, "sum")])


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    module, given = sys.modules[__name__], inputs(dtype, kv_heads=4)
    for name, kind in (
        ("tables_first", TablesFirst), ("key_first", KeyFirst), ("by_keyword", ByKeyword), ("results", Results),
        ("ids", Ids),
    ):
        yield kind()(*given)
        torch.compiler.reset()
        yield torch.compile(kind(), backend="eager", fullgraph=True)(*given)
        setattr(module, name, replacement)
        yield kind()(*given)
