# Two rules want the same computation: what is fused is decided once, and every value that is
# used elsewhere is there.
# expect: either act_mul
# expect: either linears
# expect: either add_rms_norm
# expect: either rms_norm
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class TwoProducts(nn.Module):
    def forward(self, a, b):
        return F.silu(a) * F.silu(b)


class SharedAct(nn.Module):
    def forward(self, a, b):
        act = F.silu(a)
        return act * b, act * a, act


class TwoNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Norm(), Norm()

    def forward(self, x, r):
        s = x + r
        return self.first(s), self.second(s), s


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Norm(), Norm()

    def forward(self, x, r):
        s = x + r
        n = self.first(s)
        t = s + n
        return self.second(t), t, n


class SumTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()

    def forward(self, x, r):
        return self.norm(x + r), x + r, r + x


class ThreeSums(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()

    def forward(self, x, r):
        s = x + r
        x.add_(1)
        return self.norm(s), x + r


class Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x, r):
        g = self.a(x)
        return F.silu(g) * g, F.silu(g) * self.b(x), self.b(r)


def cases(dtype):
    for kind in (TwoProducts, SharedAct, TwoNorms, Chain, SumTwice, ThreeSums, Square):
        yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
