# The helper is defined twice, under a condition, decorated, wrapped at the end, shadowed by a
# parameter, a local, a method.
# expect: either rope
import torch
import torch.nn.functional as F
from torch import nn
import functools

def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def with_log(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        LOG.append(function.__name__)
        return function(*args, **kwargs)

    return wrapped


LOG = []


def redefined(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def redefined(q, k, cos, sin):
    return q * 3, k * 3


if LOG:

    def conditional(q, k, cos, sin):
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

else:

    def conditional(q, k, cos, sin):
        return q * 5, k * 5


@with_log
def decorated(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def wrapped_later(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def plain(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Redefined(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = redefined(q, k, cos, sin)
        return q, k


class Conditional(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = conditional(q, k, cos, sin)
        return q, k


class Decorated(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = decorated(q, k, cos, sin)
        return q, k


class WrappedLater(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = wrapped_later(q, k, cos, sin)
        return q, k


class Parameter(nn.Module):
    def forward(self, q, k, cos, sin, plain=lambda q, k, cos, sin: (q - 1, k - 1)):
        q, k = plain(q, k, cos, sin)
        return q, k


class Local(nn.Module):
    def forward(self, q, k, cos, sin):
        def plain(q, k, cos, sin):
            return q + 7, k + 7

        q, k = plain(q, k, cos, sin)
        return q, k


class Later(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = later(q, k, cos, sin)
        return q, k


class Method(nn.Module):
    def plain(self, q, k, cos, sin):
        return q + 9, k + 9

    def forward(self, q, k, cos, sin):
        q, k = self.plain(q, k, cos, sin)
        return q, k


class Unbound(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = plain(q, k, cos, sin)
        plain = None
        return q, k


class Rebinds(nn.Module):
    def forward(self, q, k, cos, sin):
        global plain
        kept = plain
        plain = lambda q, k, cos, sin: (q + 11, k + 11)
        q, k = plain(q, k, cos, sin)
        plain = kept
        return q, k


def later(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


wrapped_later = with_log(wrapped_later)

KINDS = [Redefined, Conditional, Decorated, WrappedLater, Parameter, Local, Later, Method, Unbound, Rebinds]


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for kind in KINDS:
        given = inputs(dtype)
        yield lambda: kind()(*given)
        yield list(LOG)
