# Multipliers, three terms, alpha, a residual in float32, another kind of norm: order of
# additions and roundings stay.
# expect: either add_rms_norm Scaled.forward
# expect: either add_rms_norm ThreeTerms.forward
# expect: either add_rms_norm Grouped.forward
# expect: not-fused add_rms_norm Alpha.forward
# expect: not-fused add_rms_norm AlphaMethod.forward
# expect: either add_rms_norm Float32.forward
# expect: not-fused add_rms_norm Subtracted.forward
# expect: either add_rms_norm TorchAdd.forward
# expect: fused add_layer_norm LayerNorm.forward
# expect: not-fused add_rms_norm Between.forward
# expect: not-fused add_rms_norm Integer.forward
# expect: fused add_rms_norm Branch.forward "else:\n            s = r \+ x"
# expect: not-fused add_rms_norm Chosen.forward
# expect: fused rms_norm Norm.forward
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)
        self.other = Norm(8)
        self.layer_norm = nn.LayerNorm(8)
        self.m = 0.22


class Scaled(Base):
    def forward(self, x, r):
        r = r + x * self.m
        return self.norm(r), r


class ThreeTerms(Base):
    def forward(self, x, r):
        s = r + x + x.flip(0)
        return self.norm(s), s


class Grouped(Base):
    def forward(self, x, r):
        s = r + (x + x.flip(0))
        return self.norm(s), s


class Alpha(Base):
    def forward(self, x, r):
        s = torch.add(r, x, alpha=0.5)
        return self.norm(s), s


class AlphaMethod(Base):
    def forward(self, x, r):
        s = r.add(x, alpha=2)
        return self.norm(s), s


class Float32(Base):
    def forward(self, x, r):
        s = r.to(torch.float32) + x
        return self.norm(s.to(self.norm.weight.dtype)), s


class Subtracted(Base):
    def forward(self, x, r):
        s = r - x
        return self.norm(s), s


class TorchAdd(Base):
    def forward(self, x, r):
        s = torch.add(r, x)
        return self.norm(s), s


class LayerNorm(Base):
    def forward(self, x, r):
        s = r + x
        return self.layer_norm(s), s


class Between(Base):
    def forward(self, x, r):
        s = r + x
        s.mul_(2)
        return self.norm(s), s


class Integer(Base):
    def forward(self, x, r):
        n = x.shape[-1] + 1
        s = r.view(-1, n - 1)
        return self.norm(s), s


class Branch(Base):
    def forward(self, x, r):
        s = r + x
        if self.m > 0:
            return self.norm(s), s
        return s


class Chosen(Base):
    def forward(self, x, r):
        s = r + x
        norm = self.norm if self.m > 0 else self.other
        return norm(s), s


KINDS = [
    Scaled, ThreeTerms, Grouped, Alpha, AlphaMethod, Float32, Subtracted, TorchAdd, LayerNorm, Between, Integer,
    Branch, Chosen,
]


def cases(dtype):
    for kind in KINDS:
        block = kind().to(dtype)
        with torch.no_grad():
            yield block(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
            block.m = -1.5
            yield block(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
