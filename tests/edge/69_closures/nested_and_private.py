# Nested functions, lambdas, private names: rewritten where that is safe, otherwise the reason
# is in the report.
# expect: either act_mul
# expect: either linears
# expect: either rms_norm
import torch
import torch.nn.functional as F
from torch import nn

class Private(nn.Module):
    def __init__(self):
        super().__init__()
        self.__weight = nn.Parameter(torch.randn(8))
        self.__eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        return self.__weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.__eps)).to(x.dtype)


class _Underscored(nn.Module):
    def __init__(self):
        super().__init__()
        self._gate = nn.Linear(8, 8)
        self._up = nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(self._gate(x)) * self._up(x)


class __Dunder(nn.Module):
    def __init__(self):
        super().__init__()
        self.__gate = nn.Linear(8, 8)
        self.__up__ = nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(self.__gate(x)) * self.__up__(x)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        def shared_experts(y):
            gate = self.gate(y)
            up = self.up(y)
            return F.silu(gate) * up

        def recursive(y, n):
            return y if n == 0 else recursive(F.silu(self.gate(y)) * self.up(y), n - 1)

        return shared_experts(x), recursive(x, 2), (lambda y: F.silu(self.gate(y)) * self.up(y))(x)


def factory(eps):
    weight = torch.arange(8.0)

    def norm(x):
        h = x.to(torch.float32)
        return weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)

    return norm


Dunder = __Dunder
assign = lambda gate, up: F.silu(gate) * up
table = {"a": lambda gate, up: F.silu(gate) * up, "b": lambda gate, up=assign: F.silu(gate)}


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for kind in (Private, _Underscored, Dunder, Checkpointed):
        yield kind().to(dtype)(x)
    yield factory(1e-3)(x), assign(x, x), table["a"](x, x * 2), table["b"](x)
