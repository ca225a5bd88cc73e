# When the second of two fused steps raises, the first has been done: handlers, finally and
# later code see its value.
# expect: either act_mul
# expect: either linears
# expect: either add_rms_norm
# expect: fused rms_norm Norm.forward
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.kept = []


class HandlerReadsFirst(Base):
    def forward(self, x):
        a = x
        try:
            a = self.a(x)
            b = self.b(x)
        except RuntimeError:
            return a
        return a + b


class FinallyReadsFirst(Base):
    def forward(self, x):
        a = None
        try:
            a = self.a(x)
            b = self.b(x)
            return a, b
        except RuntimeError:
            return None
        finally:
            self.kept.append(a)


class HandlerReadsSum(Base):
    def forward(self, x):
        r = x * 2
        try:
            x = r + x
            y = self.norm(x)
        except RuntimeError:
            return x
        return y, x


class HandlerDeletes(Base):
    def forward(self, x):
        try:
            a = self.a(x)
            b = self.b(x)
        except RuntimeError:
            del a
            return x
        return a, b


class WithSwallows(Base):
    def forward(self, x):
        gate = up = x
        with Swallow():
            gate = self.a(x)
            up = self.b(x)
        return F.silu(gate) * up


class ActRaises(Base):
    def forward(self, x):
        h = None
        try:
            g = self.a(x)
            h = F.silu(g)
            y = h * self.b(x)
        except RuntimeError:
            return h, g
        return y, h


class LoopGoesOn(Base):
    def forward(self, x):
        a = b = x
        for _ in range(2):
            try:
                a = self.a(a)
                b = self.b(a)
            except RuntimeError:
                continue
        return a, b


class OnSelf(Base):
    def forward(self, x):
        self.kept = self.a(x)
        return self.b(x)


class Swallow:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        return True


KINDS = [
    HandlerReadsFirst, FinallyReadsFirst, HandlerReadsSum, HandlerDeletes, WithSwallows, ActRaises, LoopGoesOn, OnSelf,
]


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for kind in KINDS:
        block = kind().to(dtype)
        yield lambda: block(x)
        yield block.kept
        block.b = nn.Linear(7, 8).to(dtype)  # raises when it is called
        block.norm.weight = nn.Parameter(torch.randn(7, dtype=dtype))
        yield lambda: block(x)
        yield block.kept
