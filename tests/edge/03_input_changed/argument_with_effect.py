# The second operand is a call that changes the first one's input: the op would compute the first
# operand after it.
# expect: not-fused act_mul
import torch
import torch.nn.functional as F
from torch import nn


def double(x):
    x.mul_(2)
    return x


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.change = double


class Functional(Gate):
    def forward(self, x):
        return F.silu(x) * self.change(x)


class Module(Gate):
    def __init__(self):
        super().__init__()
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(x) * self.change(x)


class InABranch(Gate):
    def forward(self, x, loud=True):
        if loud:
            x = F.silu(x) * self.change(x)
        return x


def cases(dtype):
    for kind in (Functional, Module, InABranch):
        yield kind()(torch.randn(3, 8, dtype=dtype))
