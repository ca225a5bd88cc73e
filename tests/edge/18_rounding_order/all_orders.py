# Where the weight is multiplied and where the value is rounded: in bf16 a quarter of the
# elements tell the orders apart.
# expect: fused rms_norm CastWeight.forward "order=.cast_weight"
# expect: fused rms_norm WeightCast.forward "order=.weight_cast"
# expect: fused rms_norm Weight32Cast.forward "order=.weight32_cast"
# expect: fused rms_norm OnePlus.forward "order=.one_plus"
# expect: fused rms_norm Bare.forward "order=.cast"
# expect: either rms_norm NoRounding.forward
# expect: either rms_norm HalfMean.forward
# expect: either rms_norm LateInput.forward
# expect: fused l2_norm NoRounding.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6


class CastWeight(Base):
    def forward(self, x):
        dtype = x.dtype
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(v + self.eps)
        return self.weight * h.to(dtype)


class WeightCast(Base):
    def forward(self, x):
        dtype = x.dtype
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(v + self.eps)
        return (self.weight * h).to(dtype)


class Weight32Cast(Base):
    def forward(self, x):
        dtype = x.dtype
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(v + self.eps)
        return (self.weight.to(torch.float32) * h).to(dtype)


class OnePlus(Base):
    def forward(self, x):
        out = self._norm(x.float())
        out = out * (1.0 + self.weight.float())
        return out.type_as(x)

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Bare(Base):
    def forward(self, x):
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class NoRounding(Base):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class HalfMean(Base):
    def forward(self, x):
        v = x.pow(2).to(torch.float32).mean(-1, keepdim=True)
        return self.weight * (x.to(torch.float32) * torch.rsqrt(v + self.eps)).to(x.dtype)


class LateInput(Base):
    def forward(self, x):
        v = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(v + self.eps)
        return self.weight * x.to(self.weight.dtype)


def cases(dtype):
    for kind in (CastWeight, WeightCast, Weight32Cast, OnePlus, Bare, NoRounding, HalfMean, LateInput):
        norm = kind().to(dtype)
        yield norm(torch.randn(7, 5, 16, dtype=dtype) * 3)
        yield norm.float()(torch.randn(7, 16, dtype=dtype))  # weight and input of two dtypes
        yield norm.to(torch.float16)(torch.randn(7, 16, dtype=torch.float16))
        yield norm.double()(torch.randn(7, 16, dtype=torch.float64))
        yield lambda: norm(torch.ones(3, 16, dtype=torch.int64))
