# Attributes that are no plain attributes: properties, __getattr__, descriptors, class
# attributes, slots, counting reads.
# expect: either act_mul
# expect: either linears
# expect: either rms_norm
import torch
import torch.nn.functional as F
from torch import nn

class Property(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.reads = 0

    @property
    def gate(self):
        self.reads += 1
        return self.layers[self.reads % 2]

    @property
    def up(self):
        return self.layers[self.reads % 2]

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x), self.reads


class PropertyAct(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.log = []

    @property
    def act(self):
        self.log.append("act")
        return F.silu if len(self.log) < 2 else torch.tanh

    def forward(self, x):
        first = self.act(self.gate(x)) * self.up(x)
        return first, self.act(self.gate(x)) * self.up(x), len(self.log)


class GetAttr(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(8, 8)
        self.w2 = nn.Linear(8, 8)

    def __getattr__(self, name):
        if name == "gate":
            return self.w1
        if name == "up":
            return lambda x: self.w2(x) * 2
        return super().__getattr__(name)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


class GetAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def __getattribute__(self, name):
        if name in ("gate_log", "scale"):
            return name
        return super().__getattribute__(name)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x), self.scale


class ClassAttribute(nn.Module):
    act = torch.nn.functional.silu
    eps = 1e-3

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)


class Child(ClassAttribute):
    eps = 0.5


class LinearByMethod(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))
        self.calls = 0

    def gate(self, x):
        self.calls += 1
        return x @ self.w * self.calls

    def up(self, x):
        self.calls += 10
        return x @ self.w - self.calls

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


class NotLinearHere(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        if other:
            self.up = Swap()

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


class Swap(nn.Module):
    def forward(self, x):
        x.copy_(x.flip(-1))
        return x + 1


class SetLater(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.reset()

    def reset(self):
        self.up = Swap()

    def forward(self, x):
        up = self.up(x)
        return F.silu(self.gate(x)) * up


class Untensored(nn.Module):
    """Numbers, tuples and strings have these operators too."""

    def __init__(self):
        super().__init__()
        self.act = abs
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        shape = x.size()[:-1] + (4, 2)
        words = "ab" * 2
        n = self.act(-3) * 2
        return self.gate(x).view(shape), self.up(x).view(shape), words, n


KINDS = [
    Property, PropertyAct, GetAttr, GetAttribute, ClassAttribute, Child, LinearByMethod,
    lambda: NotLinearHere(False), lambda: NotLinearHere(True), SetLater, Untensored,
]


def cases(dtype):
    with torch.no_grad():
        for kind in KINDS:
            block, x = kind().to(dtype), torch.randn(3, 8, dtype=dtype)
            yield block(x), x
            yield block(x), x
