# The halves of rotate_half by chunk, which gives odd widths a larger first half.
# expect: fused rope apply_one "tfr.rope\(x, cos, sin, layout=.half_chunks., inner=rotate_half\)"
# expect: fused rope Both.forward "layout=.half_chunks., inner=rotate_half"
# expect: fused rope Upcast.forward "q_float, k_float = tfr.rope.*layout=.half_chunks."
# expect: not-fused rope OtherHalves.forward
import torch
from torch import nn


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def apply_one(x, cos, sin):
    cos = cos[:, :, : x.shape[-2], :]
    sin = sin[:, :, : x.shape[-2], :]

    return (x * cos) + (rotate_half(x) * sin)


class Both(nn.Module):
    def forward(self, q, k, cos, sin):
        cos, sin = cos[:, 0].unsqueeze(1), sin[:, 0].unsqueeze(1)
        q_embed = (q * cos) + (rotate_half(q) * sin)
        k_embed = (k * cos) + (rotate_half(k) * sin)
        return q_embed, k_embed


class Upcast(nn.Module):
    def forward(self, q, k, cos, sin):
        q_float, k_float = q.float(), k.float()
        q_float = q_float * cos + torch.cat((-q_float.chunk(2, -1)[1], q_float.chunk(2, -1)[0]), -1) * sin
        first, second = torch.chunk(k_float, 2, dim=-1)
        k_float = k_float * cos + torch.cat([-second, first], dim=-1) * sin
        return q_float.type_as(q), k_float.type_as(k)


class OtherHalves(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2, x3 = x.chunk(3, dim=-1)
        y1, y2 = x.chunk(2, dim=-2)
        z = (x * cos) + (torch.cat((-x3, x2, x1), dim=-1) * sin)
        return z, x * cos + torch.cat((-y2, y1), dim=-2) * sin


def cases(dtype):
    for width in (8, 9, 2):
        q, k = torch.randn(2, 4, 6, width, dtype=dtype), torch.randn(2, 2, 6, width, dtype=dtype)
        cos, sin = torch.randn(2, 1, 1, 6, width, dtype=dtype)
        yield apply_one(q, cos, sin), apply_one(q[:, :, :3], cos, sin)
        yield Both()(q, k, cos, sin)
        yield Upcast()(q, k, cos, sin)
        yield lambda: OtherHalves()(q, cos, sin)
    yield lambda: apply_one(q[..., :1], cos[..., :1], sin[..., :1])
