# The helper also logs, writes to its argument, reads a global that changes, or keeps state in a
# default argument.
# expect: either rope
import torch
import torch.nn.functional as F
from torch import nn

def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


SCALE = 1.0
CALLS = []


def logs(q, k, cos, sin):
    CALLS.append(tuple(q.shape))
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def writes(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q_embed = q * cos + rotate_half(q) * sin
    q.zero_()
    return q_embed, k * cos + rotate_half(k) * sin


def scales(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos + rotate_half(q) * sin) * SCALE, k * cos + rotate_half(k) * sin


def counts(q, k, cos, sin, seen=[]):
    seen.append(1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos + rotate_half(q) * sin) * len(seen), k * cos + rotate_half(k) * sin


def returns_early(q, k, cos, sin):
    if cos is None:
        return q, k
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def checks(q, k, cos, sin):
    if cos.shape != sin.shape:
        raise ValueError("cos and sin differ")
    assert q.dim() == 4
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def in_place(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q_embed = q * cos
    q_embed += rotate_half(q) * sin
    k_embed = k * cos
    k_embed.add_(rotate_half(k) * sin)
    return q_embed, k_embed


def unsqueezes_in_place(q, k, cos, sin):
    cos.unsqueeze_(1)
    sin.unsqueeze_(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def generator(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    yield q * cos + rotate_half(q) * sin
    yield k * cos + rotate_half(k) * sin


class Logs(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = logs(q, k, cos, sin)
        return q, k


class Writes(nn.Module):
    def forward(self, q, k, cos, sin):
        q2, k2 = writes(q, k, cos, sin)
        return q2, k2


class Scales(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = scales(q, k, cos, sin)
        return q, k


class Counts(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = counts(q, k, cos, sin)
        return q, k


class Early(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = returns_early(q, k, cos, sin)
        return q, k


class Checks(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = checks(q, k, cos, sin)
        return q, k


class InPlace(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = in_place(q, k, cos, sin)
        return q, k


class Unsqueezes(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = unsqueezes_in_place(q, k, cos, sin)
        return q, k, cos.shape


class Generator(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = generator(q, k, cos, sin)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    global SCALE
    for kind in (Logs, Writes, Scales, Counts, Early, Checks, InPlace, Unsqueezes, Generator):
        q, k, cos, sin = inputs(dtype)
        SCALE = 1.0
        yield kind()(q.clone(), k, cos.clone(), sin.clone())
        SCALE = 2.0
        yield lambda: kind()(q, k, cos, sin)
        yield list(CALLS)
        yield q, k, cos, sin
        yield lambda: kind()(q, k, None, None)
        yield lambda: kind()(q, k, cos, sin[:1])
