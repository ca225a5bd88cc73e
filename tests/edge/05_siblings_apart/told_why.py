# Projections of one input that stay apart say why: modules that hold an nn.Linear or derive from
# it, and a pair of which one goes through an activation. A class with two of them is an MLP.
# expect: refused linears Wrapped.forward "exactly nn.Linear"
# expect: refused linears Derived.forward "exactly nn.Linear"
# expect: refused linears Roles.forward "activation"
# expect: not-fused linears Mlps.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
import torch
import torch.nn.functional as F
from torch import nn


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x.clamp(-1, 1))


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)




class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = Clip(), Clip()

    def forward(self, x):
        return self.q(x), self.k(x)


class Derived(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = Scaled(8, 8), Scaled(8, 8)

    def forward(self, x):
        return self.q(x), self.k(x)


class Roles(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(self.q(x)), self.k(x)


class Mlps(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = Mlp(), Mlp()

    def forward(self, x):
        return self.q(x), self.k(x)


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for kind in (Wrapped, Derived, Roles, Mlps):
        yield kind().to(dtype)(x)
