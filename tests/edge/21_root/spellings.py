# rsqrt, pow(-0.5), sqrt then divide, reciprocal: fused where the bits agree, left where the
# rounding differs.
# expect: fused rms_norm Rsqrt.forward
# expect: fused rms_norm Pow.forward "pow"
# expect: fused rms_norm PowOperator.forward
# expect: fused rms_norm PowMethod.forward
# expect: either rms_norm Divide.forward
# expect: either rms_norm Reciprocal.forward
# expect: either rms_norm OneOver.forward
# expect: not-fused rms_norm Quarter.forward
# expect: not-fused rms_norm Near.forward
# expect: not-fused rms_norm Positive.forward
# expect: not-fused rms_norm Exponent.forward
# expect: fused l2_norm Divide.forward "form=.mean_sqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=33):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6
        self.exponent = -0.5


class Rsqrt(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * torch.rsqrt(v)).to(x.dtype)


class Pow(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * torch.pow(v, -0.5)).to(x.dtype)


class PowOperator(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v**-0.5).to(x.dtype)


class PowMethod(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v.pow(-0.5)).to(x.dtype)


class Divide(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h / torch.sqrt(v)).to(x.dtype)


class Reciprocal(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v.sqrt().reciprocal()).to(x.dtype)


class OneOver(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * (1 / v.sqrt())).to(x.dtype)


class Quarter(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v.pow(-0.25)).to(x.dtype)


class Near(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v.pow(-0.50001)).to(x.dtype)


class Positive(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v.pow(0.5)).to(x.dtype)


class Exponent(Base):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * v.pow(self.exponent)).to(x.dtype)


KINDS = [Rsqrt, Pow, PowOperator, PowMethod, Divide, Reciprocal, OneOver, Quarter, Near, Positive, Exponent]


def cases(dtype):
    for kind in KINDS:
        norm = kind().to(dtype)
        yield norm(torch.randn(65, 33, dtype=dtype) * 3)
        norm.exponent = -1.0
        yield norm(torch.randn(5, 33, dtype=dtype))
