# The projections are called like things the function needs: torch, F, len, x, a global, a
# variable of the outer function.
# expect: either act_mul
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn

gate_proj = 5.0


class Needed(nn.Module):
    def __init__(self):
        super().__init__()
        self.torch = nn.Linear(8, 8)
        self.F = nn.Linear(8, 8)
        self.len = nn.Linear(8, 8)
        self.x = nn.Linear(8, 8)

    def forward(self, x):
        n = len(x)
        y = torch.add(x, n)
        total = self.torch(x).sum() + self.F(x).sum() + self.len(x).sum() + self.x(x).sum()
        return F.silu(y) * total * len(x), torch.mul(x, 2)


class Global(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 8)
        self.up_proj = nn.Linear(8, 8)

    def forward(self, x):
        global up_proj
        up_proj = 3.0
        y = self.gate_proj(x) + self.up_proj(x)
        return y * gate_proj * up_proj

    def after(self, x):
        return x * up_proj * gate_proj


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        gate = 2.0

        def inner(y):
            return (self.gate(y) + self.up(y)) * gate

        def writer(y):
            nonlocal gate
            z = self.gate(y) + self.up(y)
            gate = gate + 1
            return z

        return inner(x), writer(x), gate


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        y = self.gate(x) + self.up(x)

        def look():
            return gate

        try:
            look()
        except NameError:
            y = y + 1
        return y, [gate for gate in (1, 2)], (lambda up: up)(3)


class Builtin(nn.Module):
    def __init__(self):
        super().__init__()
        self.sum = nn.Linear(8, 8)
        self.max = nn.Linear(8, 8)

    def forward(self, x):
        y = self.sum(x) * self.max(x)
        return y, sum([1, 2]), max(3, 4), eval("min(1, 2)")


class Underscores(nn.Module):
    def __init__(self):
        super().__init__()
        self._ = nn.Linear(8, 8)
        self.__ = nn.Linear(8, 8)

    def forward(self, x):
        _ = 5
        return self._(x) + self.__(x) + _


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for kind in (Needed, Global, Outer, Inner, Builtin, Underscores):
        yield kind().to(dtype)(x)
    yield Global().after(x), gate_proj, sorted(n for n in globals() if n.endswith("_proj") or n in ("gate", "up"))
