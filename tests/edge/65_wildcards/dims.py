# A dimension, a count or an input that the pattern leaves open is checked: only one of these is
# a gated product of halves.
# expect: fused act_mul Right.forward
# expect: not-fused rope
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

class Right(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return F.silu(a) * b


class DimZero(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, 0)
        return F.silu(a) * b


class DimOne(nn.Module):
    def forward(self, x):
        a, b = torch.chunk(x, dim=1, chunks=2)
        return F.silu(a) * b


class DimMinusTwo(nn.Module):
    def forward(self, x):
        a, b = torch.chunk(x, 2, -2)
        return F.silu(a) * b


class DimOfSelf(nn.Module):
    dim = 0

    def forward(self, x):
        a, b = x.chunk(2, dim=self.dim)
        return F.silu(a) * b


class DimOfArgument(nn.Module):
    def forward(self, x, dim=0):
        a, b = x.chunk(2, dim=dim)
        return F.silu(a) * b


class Glu(nn.Module):
    def forward(self, x):
        return F.glu(x), F.glu(x, dim=1)


class SoftmaxGate(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return F.softmax(a, dim=0) * b, F.gelu(a, approximate="none") * b, F.leaky_relu(a, 0.5) * b


class Arguments(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return F.gelu(a, approximate="tanh") * b, F.elu(a, 2.0) * b, F.softplus(a, 3) * b, F.relu6(a) * b


class Method(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return a.sigmoid() * b, a.relu() * b, a.tanh() * b, torch.sigmoid(a) * b, torch.relu(a) * b


class InPlace(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        y = F.silu(a, inplace=True) * b
        return y, a, a.relu_() * b, a


KINDS = [
    Right, DimZero, DimOne, DimMinusTwo, DimOfSelf, DimOfArgument, Glu, SoftmaxGate, Arguments, Method, InPlace,
]


def cases(dtype):
    for kind in KINDS:
        x = torch.randn(4, 4, 4, dtype=dtype)
        yield kind()(x), x
