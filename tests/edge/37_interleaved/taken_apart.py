# Pairs taken apart by view, reshape, unflatten, four axes; a table of half the columns; the last
# columns turned; turned backwards. Beside each the nearest thing that is not it.
# expect: fused rope by_view "interleaved_view"
# expect: fused rope by_reshape "interleaved_reshape"
# expect: fused rope by_unflatten "interleaved_unflatten"
# expect: fused rope by_four_axes "interleaved_4d"
# expect: fused rope joined_by_pair "interleaved_width"
# expect: fused rope Last.forward "interleaved_width.*trailing=True"
# expect: fused rope Back.forward "half_back"
# expect: not-fused rope grouped_the_other_way
# expect: not-fused rope of_two_tensors
# expect: not-fused rope first_and_last
# expect: not-fused rope joined_by_half
# expect: either rope Rest.forward
# expect: either rope LastOfMore.forward
import torch
import torch.nn.functional as F
from torch import nn


def turn_view(x):
    x1, x2 = x.view(*x.shape[:-1], -1, 2).unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(start_dim=-2)


def turn_reshape(x):
    x1, x2 = x.reshape(*x.shape[:-1], -1, 2).unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def turn_four(x):
    x1, x2 = x[:, :, :, ::2], x[:, :, :, 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def turn_grouped(x):
    x1, x2 = x.view(*x.shape[:-1], 2, -1).unbind(dim=-2)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def turn_back(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((x2, -x1), dim=-1)


def turn_pairs(x):
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


def by_view(x, cos, sin):
    return x, (x * cos) + (turn_view(x) * sin)


def by_reshape(x, cos, sin):
    return x, (x * cos) + (turn_reshape(x) * sin)


def by_unflatten(x, cos, sin):
    x1, x2 = x.unflatten(-1, (-1, 2)).unbind(dim=-1)
    y = torch.stack((-x2, x1), dim=-1).flatten(-2)
    return x, (x * cos) + (y * sin)


def by_four_axes(x, cos, sin):
    return x, (x * cos) + (turn_four(x) * sin)


def joined_by_pair(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return x, torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def joined_by_half(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return x, torch.stack((a * cos - b * sin, b * cos - a * sin), dim=-1).flatten(-2)


def grouped_the_other_way(x, cos, sin):
    return x, (x * cos) + (turn_grouped(x) * sin)


def of_two_tensors(x, y, cos, sin):
    return x, (x * cos) + (turn_view(y) * sin)


def last_columns(x, cos, sin, unsqueeze_dim=1):
    cos = cos.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim)
    sin = sin.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim)
    width = cos.shape[-1]
    first, last = x[..., :-width], x[..., -width:]
    last = ((last.float() * cos) + (turn_pairs(last).float() * sin)).to(x.dtype)
    return torch.cat([first, last], dim=-1)


def first_and_last(x, cos, sin, unsqueeze_dim=1):
    cos = cos.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim)
    sin = sin.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim)
    width = cos.shape[-1]
    first, last = x[..., :-width], x[..., -width:]
    last = ((last.float() * cos) + (turn_pairs(x[..., :width]).float() * sin)).to(x.dtype)
    return torch.cat([first, last], dim=-1)


def backwards(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (turn_back(q) * sin), (k * cos) + (turn_back(k) * sin)


class Last(nn.Module):
    def forward(self, x, cos, sin):
        return last_columns(x, cos, -sin)


class LastOfMore(nn.Module):
    def forward(self, x, cos, sin):
        return first_and_last(x, cos, sin)


class Back(nn.Module):
    def forward(self, q, k, cos, sin):
        return backwards(q, k, cos, sin)


class Rest(nn.Module):
    def forward(self, x, cos, sin):
        every = by_view, by_reshape, by_unflatten, by_four_axes, grouped_the_other_way
        half = [t[..., : t.shape[-1] // 2] for t in (cos, sin)]
        return (
            [f(x, cos, sin) for f in every],
            [f(x, *half) for f in (joined_by_pair, joined_by_half)],
            of_two_tensors(x, x + 1, cos, sin),
        )


def cases(dtype):
    x, cos, sin = (torch.randn(2, n, 5, 8, dtype=dtype) for n in (4, 1, 1))
    yield Rest()(x, cos, sin)
    yield Rest()(x.transpose(1, 2).contiguous().transpose(1, 2), cos, sin)
    for shape in ((3, 5, 8), (2, 2, 3, 5, 8), (2, 3, 5, 7), (2, 0, 5, 8)):
        odd = torch.randn(shape, dtype=dtype)
        for f in (by_view, by_reshape, by_unflatten, by_four_axes):
            yield lambda f=f, odd=odd: f(odd, *torch.ones(2, odd.shape[-1], dtype=dtype))
    for width in (4, 2, 1, 5, 0):
        cos, sin = torch.randn(2, 2, 5, width, dtype=dtype)
        yield lambda cos=cos, sin=sin: Last()(x, cos, sin)
        yield lambda cos=cos, sin=sin: LastOfMore()(x, cos, sin)
    cos, sin = torch.randn(2, 2, 5, 8, dtype=dtype)
    yield Back()(x, x[:, :2], cos, sin)
