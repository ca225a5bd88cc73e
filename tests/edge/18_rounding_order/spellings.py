# One norm in many spellings of the same roundings. D writes into its input when that is
# float32: no norm alone.
# expect: fused rms_norm A.forward "order=.cast_weight"
# expect: fused rms_norm B.forward "order=.cast_weight"
# expect: fused rms_norm C.forward "order=.cast_weight"
# expect: not-fused rms_norm D.forward
# expect: fused rms_norm E.forward "order=.cast_weight"
# expect: fused rms_norm G.forward "order=.cast_weight"
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6


class A(Base):
    def forward(self, x):
        h = x.float()
        return (h * torch.rsqrt((h**2).mean(dim=-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class B(Base):
    def forward(self, x):
        h = x.to(dtype=torch.float32)
        v = torch.mean(torch.square(h), dim=-1, keepdim=True)
        return torch.mul(self.weight, torch.mul(h, torch.rsqrt(torch.add(v, self.eps))).type_as(x))


class C(Base):
    def forward(self, x):
        h = x.type(torch.float32)
        v = (h * h).mean([-1], keepdim=True)
        return self.weight * (h * (self.eps + v).rsqrt()).to(dtype=x.dtype)


class D(Base):
    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        x *= torch.rsqrt(torch.pow(x, 2).mean((-1,), True) + self.eps)
        return self.weight * x.to(dtype)


class E(Base):
    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class G(Base):
    def forward(self, x):
        h = x.to(torch.float)
        return self.weight.mul(h.mul(h.square().mean(-1, keepdim=True).add(self.eps).rsqrt()).to(x.dtype))


def cases(dtype):
    for kind in (A, B, C, D, E, G):
        norm, x = kind().to(dtype), torch.randn(7, 5, 16, dtype=dtype)
        yield norm(x), x
