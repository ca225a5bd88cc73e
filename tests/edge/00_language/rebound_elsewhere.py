# A local name that something other than a plain assignment rebinds.
# expect: not-fused linears *.forward
import torch
import torch.nn.functional as F
from torch import nn



class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)


class Nonlocal(Base):
    def forward(self, x):
        y = x

        def inner():
            nonlocal x
            x = x * 2

        inner()
        return self.q(y), self.k(x)


class Walrus(Base):
    def forward(self, x, flag: bool = False):
        y = x
        z = x * 2
        ok = flag and ((y := z) is not None)
        return self.q(y), self.k(z), ok


class WalrusInChoice(Base):
    def forward(self, x, flag: bool = False):
        y = x
        z = x * 2
        n = (y := z).ndim if flag else 0
        return self.q(y), self.k(z), n


class Case(Base):
    def forward(self, x):
        a = x
        match [x * 2, 1]:
            case [x, *_]:
                pass
        return self.q(a), self.k(x)


class CaseMapping(Base):
    def forward(self, x):
        a = x
        match {"k": x * 2}:
            case {"k": (torch.Tensor() as x)}:
                pass
        return self.q(a), self.k(x)


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for cls in (Nonlocal, Walrus, WalrusInChoice, Case, CaseMapping):
        module = cls().to(dtype)
        yield lambda module=module: module(x.clone())
