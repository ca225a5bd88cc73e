# The gate acts before the norm, after it, after the weight, in float32 or not: each order has
# other bits.
# expect: either rms_norm Before.forward
# expect: fused gated_rms_norm After.forward "order=.cast_weight_gate"
# expect: either rms_norm Between.forward
# expect: fused gated_rms_norm Optional.forward "order=.gate_cast_weight"
# expect: either act_mul
# expect: fused l2_norm Before.forward "form=.mean_rsqrt"
# expect: fused l2_norm Between.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6


class Before(Base):
    def forward(self, x, gate):
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * F.silu(gate.to(torch.float32))
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class After(Base):
    def forward(self, x, gate):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        x = self.weight * x.to(dtype)
        x = x * F.silu(gate.to(torch.float32))
        return x.to(dtype)


class Between(Base):
    def forward(self, x, gate):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps) * F.silu(gate.to(torch.float32))
        return self.weight * x.to(dtype)


class Optional(Base):
    def forward(self, x, gate=None):
        dtype = x.dtype
        x = x.to(torch.float32)
        if gate is not None:
            x = x * F.silu(gate.to(torch.float32))
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


def cases(dtype):
    x, gate = torch.randn(7, 16, dtype=dtype), torch.randn(7, 16, dtype=dtype)
    for kind in (Before, After, Between, Optional):
        yield kind().to(dtype)(x, gate)
    yield Optional().to(dtype)(x)
