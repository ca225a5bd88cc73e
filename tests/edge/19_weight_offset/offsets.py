# Gemma's weight is an offset to one. Other offsets and signs are other formulas.
# expect: fused rms_norm One.forward "one_plus"
# expect: fused rms_norm OneRight.forward "one_plus"
# expect: not-fused rms_norm Two.forward
# expect: not-fused rms_norm Minus.forward
# expect: either rms_norm Half.forward
# expect: not-fused rms_norm Offset.forward
# expect: fused l2_norm Two.forward "form=.mean_rsqrt"
# expect: fused l2_norm Minus.forward "form=.mean_rsqrt"
# expect: fused l2_norm Offset.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6
        self.offset = 1.0

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class One(Base):
    def forward(self, x):
        return (self._norm(x.float()) * (1.0 + self.weight.float())).type_as(x)


class OneRight(Base):
    def forward(self, x):
        return (self._norm(x.float()) * (self.weight.float() + 1)).type_as(x)


class Two(Base):
    def forward(self, x):
        return (self._norm(x.float()) * (2.0 + self.weight.float())).type_as(x)


class Minus(Base):
    def forward(self, x):
        return (self._norm(x.float()) * (1.0 - self.weight.float())).type_as(x)


class Half(Base):
    def forward(self, x):
        return self._norm(x.float()).type_as(x) * (1.0 + self.weight)


class Offset(Base):
    def forward(self, x):
        return (self._norm(x.float()) * (self.offset + self.weight.float())).type_as(x)


def cases(dtype):
    for kind in (One, OneRight, Two, Minus, Half, Offset):
        norm, x = kind().to(dtype), torch.randn(7, 16, dtype=dtype)
        yield norm(x)
        norm.offset = 3.0
        yield norm(x)
        nn.init.zeros_(norm.weight)
        yield norm(x)
