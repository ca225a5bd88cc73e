# torch takes numpy's names of two arguments, axis= and keepdims=; F.normalize, a Python function,
# does not, and has to raise.
# expect: fused rms_norm Named.forward
# expect: fused l2_norm Unit.forward
# expect: not-fused l2_norm Raises.forward
# expect: not-fused rms_norm Columns.forward
import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))


class Named(Norm):
    def forward(self, x):
        h = x.float()
        v = torch.mean(torch.square(h), axis=-1, keepdims=True)
        return self.weight * (h * torch.rsqrt(v + 1e-6)).to(x.dtype)


class Columns(Norm):
    def forward(self, x):
        h = x.float()
        v = h.pow(2).mean(axis=0, keepdims=True)
        return self.weight * (h * torch.rsqrt(v + 1e-6)).to(x.dtype)


class Unit(Norm):
    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True)


class Raises(Norm):
    def forward(self, x):
        return F.normalize(x, axis=-1)


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for kind in (Named, Columns, Unit):
        yield kind().to(dtype)(x)
    yield lambda: Raises()(x)
