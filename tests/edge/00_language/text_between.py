# What stands between the expressions is part of a value: the text of an f-string, a chain of comparisons, braces.
# expect: not-fused linears *.forward
import torch
import torch.nn.functional as F
from torch import nn



class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)


class FString(Base):
    def forward(self, x):
        i = 0
        d = {"q0": x, "k0": x * 2}
        return self.q(d[f"q{i}"]), self.k(d[f"k{i}"])


class Joined(Base):
    def forward(self, x):
        d = {"ab": x, "cd": x * 2}
        return self.q(d["a" "b"]), self.k(d["c" "d"])


class Chain(Base):
    def forward(self, x, a: int = 1, b: int = 2, c: int = 3):
        y = x if a < b <= c else x * 2
        z = x if a > b <= c else x * 2
        return self.q(y), self.k(z)


class Braces(Base):
    def forward(self, x, a: str = "a", b: str = "b"):
        def size(d):
            return len(d)

        return self.q(x * size({a, b})), self.k(x * size({a: b}))


class ChainedCall(Base):
    """The third operand of a chain runs only when the first two compare true."""

    def forward(self, x, a: int = 3, b: int = 2):
        x = x + 0
        ok = a < b < self.q(x).sum()
        return ok, self.k(x)


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for cls in (FString, Joined, Chain, Braces, ChainedCall):
        module = cls().to(dtype)
        yield lambda module=module: module(x.clone())
