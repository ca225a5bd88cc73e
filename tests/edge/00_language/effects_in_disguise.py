# Effects that do not look like one: between two projections of one input.
# expect: not-fused linears *.forward
# expect: not-fused act_mul *.forward
import torch
import torch.nn.functional as F
from torch import nn



class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)


class Sink:
    def add(self, x):
        x.mul_(2)


class LambdaDefault(Base):
    def forward(self, x):
        q = self.q(x)
        f = lambda a=x.mul_(2): a  # noqa: E731
        k = self.k(x)
        return q, k, f()


class ModuleTo(Base):
    def forward(self, x):
        q = self.q(x)
        kept = self.k.to(torch.float64)
        k = self.k(x.double())
        again = self.k(x.double())
        self.k.to(x.dtype)
        return q, k, again, self.k(x), kept is self.k


class Add(Base):
    def forward(self, x, sink=None):
        sink = sink or Sink()
        q = self.q(x)
        sink.add(x)
        k = self.k(x)
        return q, k


class InPlaceAct(Base):
    def __init__(self):
        super().__init__()
        self.act = nn.SiLU(True)

    def forward(self, x):
        return self.act(x) * self.q(x)


class InPlaceByArgument(Base):
    def __init__(self):
        super().__init__()
        self.act = F.silu

    def forward(self, x):
        q = self.q(x)
        a = self.act(x, True)
        k = self.k(x)
        return q, k, a


class Call(nn.Module):
    def __call__(self, x):
        return x.mul_(2)

    def forward(self, x):
        return x


class OwnCall(Base):
    def __init__(self):
        super().__init__()
        self.call = Call()

    def forward(self, x):
        q = self.q(x)
        y = self.call(x)
        k = self.k(x)
        return q, k, y


class Between(Base):
    def forward(self, x):
        q = self.q(x)
        y = x * 2
        k = self.k(x)
        return q, k, y


class Doubles(nn.Module):
    def forward(self, x):
        return x.mul_(2)


class Derived(Between):
    def __init__(self):
        super().__init__()
        self.q = Doubles()
        self.k = Doubles()


class ManyArguments(Base):
    def forward(self, x):
        a = max(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)  # fmt: skip
        b = max(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3)  # fmt: skip
        return self.q(x * a), self.k(x * b)


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for cls in (LambdaDefault, ModuleTo, Add, InPlaceAct, InPlaceByArgument, OwnCall, Derived, ManyArguments):
        module = cls().to(dtype)
        with torch.no_grad():
            yield lambda module=module: module(x.clone())
