# An iterator gives its items once: what reads it changes what the next reader gets.
# expect: either linears
# expect: not-fused linears Listed.forward
import torch
import torch.nn.functional as F
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)


class Listed(Pair):
    def forward(self, x):
        parts = iter((x, x * 2))
        return self.a(sum(parts)), self.b(torch.zeros_like(x) + sum(parts)), list(parts)


class Between(Pair):
    def forward(self, x):
        parts = (x * i for i in range(1, 4))
        a = self.a(next(parts))
        n = len(list(parts))
        b = self.b(x * n)
        return a, b, list(parts)


class Smallest(Pair):
    def forward(self, x):
        sizes = iter((2, 3))
        return self.a(x) * max(sizes), self.b(x), list(sizes)


def cases(dtype):
    for kind in (Listed, Between, Smallest):
        yield kind().to(dtype)(torch.randn(2, 8, dtype=dtype))
