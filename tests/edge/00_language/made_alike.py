# Two tensors, lists or dicts made alike are equal only until one of them is written to.
# expect: not-fused linears *.forward
# expect: fused act_mul Reread.forward
# expect: no-text "packed="
import torch
import torch.nn.functional as F
from torch import nn



class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)


class Zeros(Base):
    def forward(self, x):
        a = torch.zeros_like(x)
        b = torch.zeros_like(x)
        a.add_(1)
        return self.q(a), self.k(b)


class Dicts(Base):
    def forward(self, x):
        a = {}
        b = {}
        a["v"] = x
        b["v"] = x * 2
        return self.q(a["v"]), self.k(b["v"])


class Item(Base):
    def forward(self, x):
        xs = [x, x]
        xs = self.given(xs)
        a = xs[0]
        xs[0] = x * 2
        b = xs[0]
        return self.q(a), self.k(b)

    def given(self, xs):
        return list(xs)


class Display(Base):
    def forward(self, x):
        hs = [x, x]
        hs[0] = x * 2
        return self.q(hs[0]), self.k(x)


class Unpacked(Base):
    def forward(self, x):
        hs = [x, x]
        hs.reverse()
        hs[1] = x * 2
        a, b = hs
        return self.q(b), self.k(x)


class Shape(Base):
    def forward(self, x):
        s = [2, 8]
        s[0] = 1
        s[1] = 16
        t = [2, 8]
        return self.q(x.reshape(s)[..., :8]), self.k(x.reshape(t)[..., :8])


class Star(Base):
    def forward(self, x):
        xs = [x * 2, x * 3]
        t = (*xs, x)
        return self.q(t[1]), self.k(x)


class Branch(Base):
    def forward(self, x, flag: bool = True):
        t = x * 2
        if flag:
            h = t
        else:
            h = x * 2
            h.add_(1)
        return self.q(h), self.k(t)


class Square(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        a = x.to(torch.float32)
        b = x.to(torch.float32) + 0
        c = x.to(torch.float32) + 0
        c.add_(1)
        v = (b * c).mean(-1, keepdim=True)
        return self.weight * (a * torch.rsqrt(v.abs() + 1e-6)).to(x.dtype)


class Reread(Base):
    """The same expression before and after a write, both used after it."""

    def forward(self, x):
        x = x + 0
        t = x * 2
        x.mul_(3)
        u = x * 2
        return F.silu(t[..., ::2]) * u[..., 1::2]


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for cls in (Zeros, Dicts, Item, Display, Unpacked, Shape, Star, Square, Reread):
        module = cls().to(dtype)
        yield lambda module=module: module(x.clone())
    module = Branch().to(dtype)
    yield lambda: module(x.clone(), True)
    yield lambda: module(x.clone(), False)
