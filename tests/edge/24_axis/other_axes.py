# Square inputs hide a wrong axis from the shapes; only the numbers tell.
# expect: not-fused rms_norm First.forward
# expect: not-fused rms_norm Second.forward
# expect: not-fused rms_norm Both.forward
# expect: not-fused rms_norm NoKeep.forward
# expect: not-fused rms_norm KeepFalse.forward
# expect: not-fused rms_norm All.forward
# expect: either rms_norm Two.forward
# expect: not-fused rms_norm Variable.forward
# expect: not-fused rms_norm Variance.forward
# expect: not-fused rms_norm Centred.forward
# expect: not-fused rms_norm Sum.forward
# expect: fused l2_norm Sum.forward "form=.rsqrt."
# expect: not-fused rms_norm Cubed.forward
# expect: not-fused rms_norm Absolute.forward
# expect: not-fused rms_norm OtherInput.forward
# expect: either rms_norm MeanDtype.forward
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6
        self.dim = 1


class First(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(0, keepdim=True) + self.eps)).to(x.dtype)


class Second(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(1, keepdim=True) + self.eps)).to(x.dtype)


class Both(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean((-2, -1), keepdim=True) + self.eps)).to(x.dtype)


class NoKeep(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1) + self.eps)).to(x.dtype)


class KeepFalse(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=False) + self.eps)).to(x.dtype)


class All(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean() + self.eps)).to(x.dtype)


class Two(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(2, keepdim=True) + self.eps)).to(x.dtype)


class Variable(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(self.dim, keepdim=True) + self.eps)).to(x.dtype)


class Variance(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.var(-1, keepdim=True) + self.eps)).to(x.dtype)


class Centred(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        h = h - h.mean(-1, keepdim=True)
        return self.weight * (h * torch.rsqrt(h.var(-1, keepdim=True, unbiased=False) + self.eps)).to(x.dtype)


class Sum(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) + self.eps)).to(x.dtype)


class Cubed(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(3).abs().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Absolute(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.abs().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class OtherInput(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        g = h.roll(1, 0)
        return self.weight * (h * torch.rsqrt(g.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class MeanDtype(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True, dtype=torch.float64)
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)


KINDS = [
    First, Second, Both, NoKeep, KeepFalse, All, Two, Variable, Variance, Centred, Sum, Cubed, Absolute, OtherInput,
    MeanDtype,
]


def cases(dtype):
    x = torch.randn(8, 8, 8, dtype=dtype) * 2
    for kind in KINDS:
        norm = kind().to(dtype)
        yield norm(x)
        yield lambda: norm(x[0])
        yield lambda: norm(torch.stack([x, x * 2]))
