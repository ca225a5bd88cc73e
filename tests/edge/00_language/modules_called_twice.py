# A projection is called twice, on one input and on two, and the same module stands under two
# names.
# expect: either linears
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)


class SameInput(Base):
    def forward(self, x):
        return self.a(x), self.a(x), self.b(x)


class TwoInputs(Base):
    def forward(self, x, y):
        return self.a(x), self.a(y), self.b(x), self.b(y)


class TwoNames(Base):
    def __init__(self):
        super().__init__()
        self.b = self.a

    def forward(self, x):
        gate, up = self.a(x), self.b(x)
        gate.mul_(2)
        return F.silu(gate) * up


class Both(Base):
    def forward(self, x):
        return F.silu(self.a(x)) * self.a(x)


class InList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        return [layer(x) for layer in self.layers], self.layers[0](x), self.layers[1](x), self.layers[-1](x)


class Chain(Base):
    def forward(self, x):
        return self.a(self.b(self.a(x)))


class Extra(Base):
    def forward(self, x):
        return self.a(input=x), self.b(input=x)


def cases(dtype):
    x, y = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        for kind in (SameInput, TwoNames, Both, InList, Chain, Extra):
            yield kind().to(dtype)(x)
        yield TwoInputs().to(dtype)(x, y)
