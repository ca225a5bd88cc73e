# The norm is in a method that somebody overrides: in a subclass of another file, on the class, on one instance.
# expect: fused rms_norm Norm.forward "via=self._norm"
# expect: not-fused rms_norm Base.forward
# expect: fused l2_norm Norm._norm "form=.mean_rsqrt"
# expect: fused l2_norm Base._norm "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float())
        output = output * (1.0 + self.weight.float())
        return output.type_as(x)


class Base(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float())
        output = output * (1.0 + self.weight.float())
        return output.type_as(x)


class Derived(Base):
    def _norm(self, x):
        return x * 3


OTHER = """
class Elsewhere(Norm):
    def _norm(self, x):
        return x * 2

def halve(self, x):
    return x / 2
"""


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    yield Norm().to(dtype)(x), Base().to(dtype)(x), Derived().to(dtype)(x)
    names = {"Norm": Norm}
    exec(compile(OTHER, "other.py", "exec"), names)
    yield names["Elsewhere"]().to(dtype)(x)
    norm = Norm().to(dtype)
    norm._norm = lambda x: x + 1
    yield norm(x)
    kept, Norm._norm = Norm._norm, names["halve"]
    yield Norm().to(dtype)(x)
    Norm._norm = kept
    yield Norm().to(dtype)(x)
