# `super().forward` of a torch module without effect has none; of a class of the file, or of one
# among several bases, it may. `Module(...).to(...)` gives the module; a method of its own may not.
# expect: fused linears Pure.forward
# expect: refused linears Counts.forward "effects"
# expect: refused linears Mixed.forward "effects"
# expect: refused linears Rebound.forward "effects"
import torch
from torch import nn


class Plain(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x).to(x.dtype)


class Log(nn.Module):
    calls = 0

    def forward(self, x):
        Log.calls += 1
        return x.mul_(2)


class Twice(Log):
    def forward(self, x):
        return super().forward(x) + 1


class Both(Log, nn.LayerNorm):
    def forward(self, x):
        return super().forward(x)

    def __init__(self, size):
        nn.LayerNorm.__init__(self, size)


class Other(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x)

    def to(self, dtype):
        return Twice()


class Base(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8).to(torch.float32)


class Pure(Base):
    def __init__(self):
        super().__init__(None)
        self.norm = Plain(8).to(dtype=torch.float32)

    def forward(self, x):
        q = self.norm(self.q(x))
        return q, self.k(x)


class Counts(Base):
    def __init__(self):
        super().__init__(None)
        self.norm = Twice()

    def forward(self, x):
        q = self.norm(self.q(x))
        return q, self.k(x)


class Mixed(Base):
    def __init__(self):
        super().__init__(None)
        self.norm = Both(8)

    def forward(self, x):
        q = self.norm(self.q(x))
        return q, self.k(x)


class Rebound(Base):
    def __init__(self):
        super().__init__(None)
        self.norm = Other(8).to(torch.float32)

    def forward(self, x):
        q = self.norm(self.q(x))
        return q, self.k(x)


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for kind in (Pure, Counts, Mixed, Rebound):
        with torch.no_grad():
            yield kind().to(dtype)(x)
    yield Log.calls
