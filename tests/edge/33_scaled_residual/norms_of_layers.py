# The norm is one of a list, overridden in a subclass, called twice, given more arguments,
# reached through another module.
# expect: either add_rms_norm Listed.forward
# expect: either add_rms_norm Twice.forward x2
# expect: either add_rms_norm Extra.forward
# expect: either add_rms_norm Inner.forward
# expect: either add_rms_norm Overridden.forward
# expect: either add_rms_norm Getattr.forward
# expect: fused rms_norm Norm.forward
# expect: either rms_norm Child.forward
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x, scale=1.0):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Child(Norm):
    def forward(self, x):
        return super().forward(x) + x


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([Norm(8), Child(8)])

    def forward(self, x, r):
        for norm in self.norms:
            r = r + x
            x = norm(r)
        r = r + x
        return self.norms[1](r), r


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)

    def forward(self, x, r):
        r = r + x
        x = self.norm(r)
        r = r + x
        return self.norm(r), self.norm(r), r


class Extra(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)

    def forward(self, x, r):
        r = r + x
        return self.norm(r, scale=2.0), r


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Twice()

    def forward(self, x, r):
        r = r + x
        return self.layer.norm(r), r


class Overridden(nn.Module):
    norm_class = Norm

    def __init__(self):
        super().__init__()
        self.norm = self.norm_class(8)

    def forward(self, x, r):
        r = r + x
        return self.norm(r), r


class OverriddenChild(Overridden):
    norm_class = Child


class Getattr(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1 = Norm(8)

    def forward(self, x, r):
        r = r + x
        return getattr(self, f"norm_{1}")(r), r


def cases(dtype):
    for kind in (Listed, Twice, Extra, Inner, Overridden, OverriddenChild, Getattr):
        yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
