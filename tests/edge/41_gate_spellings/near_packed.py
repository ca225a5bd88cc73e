# Another number of chunks, another axis, the wrong halves, unequal parts: not a packed pair.
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

class ThreeChunks(nn.Module):
    def forward(self, x):
        a, b, c = x.chunk(3, dim=-1)
        return F.silu(a) * b + c


class FirstOfThree(nn.Module):
    def forward(self, x):
        parts = x.chunk(3, dim=-1)
        return F.silu(parts[0]) * parts[1]


class OtherAxis(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return F.silu(a) * b


class DefaultAxis(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2)
        return F.silu(a) * b


class SameHalf(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return F.silu(a) * a + b


class Unequal(nn.Module):
    def forward(self, x):
        a, b = x.split([4, x.shape[-1] - 4], dim=-1)
        return F.silu(a) * b[..., :4]


class SplitSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 6

    def forward(self, x):
        a, b = torch.split(x, self.width, dim=-1)
        return F.silu(a) * b


class Slices(nn.Module):
    def forward(self, x):
        n = x.shape[-1] // 2
        return F.silu(x[..., :n]) * x[..., n:]


class WrongSlices(nn.Module):
    def forward(self, x):
        n = x.shape[-1] // 2
        return F.silu(x[..., : n - 1]) * x[..., n + 1 :]


class Chained(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return F.silu(a) * b * a


class WrittenHalf(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        a.mul_(2)
        return F.silu(a) * b


class WrittenWhole(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        g = F.silu(a)
        x.zero_()
        return g * b


class KeptHalf(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        y = F.silu(a) * b
        return y, a, b


KINDS = [
    ThreeChunks, FirstOfThree, OtherAxis, DefaultAxis, SameHalf, Unequal, SplitSize, Slices, WrongSlices, Chained,
    WrittenHalf, WrittenWhole, KeptHalf,
]


def cases(dtype):
    for kind in KINDS:
        x = torch.randn(12, 12, 12, dtype=dtype)
        yield lambda: kind()(x)
        yield x
        yield lambda: kind()(torch.randn(5, 5, 5, dtype=dtype))
