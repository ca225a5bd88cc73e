# Near a gated norm, and something else: a list of sizes that changes between two uses, a gate that is
# written to, another branch without a gate, two different activations, a middle that is handed out.
# expect: not-fused gated_rms_norm
# expect: either rms_norm
# expect: either act_mul
# expect: fused l2_norm ListChanges.forward "form=.mean_rsqrt"
# expect: fused l2_norm StarElsewhere.forward "form=.mean_rsqrt"
# expect: fused l2_norm OtherBranch.forward "form=.mean_rsqrt"
# expect: fused l2_norm TwoActivations.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn


class Base(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps, self.group_size, self.n_groups, self.first = 1e-6, 8, 3, True


class ListChanges(Base):
    def forward(self, x, gate=None):
        h = x.to(torch.float32)
        if gate is not None:
            h = h * F.silu(gate.to(torch.float32))
        *prefix, last = h.shape
        count = last // self.group_size
        h = h.view(*prefix, count, self.group_size)
        prefix.reverse()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.view(*prefix, count * self.group_size).to(x.dtype)


class StarElsewhere(Base):
    def forward(self, x, gate=None):
        h = x.to(torch.float32)
        if gate is not None:
            h = h * F.silu(gate.to(torch.float32))
        first, *prefix, last = h.shape
        count = last // self.group_size
        h = h.view(*prefix, count, self.group_size)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.view(*prefix, count * self.group_size).to(x.dtype)


class GateWritten(Base):
    def forward(self, x, gate):
        h = x.to(torch.float32)
        h = self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)
        wide = gate.to(torch.float32)
        gate.mul_(2.0)
        return (h * F.silu(wide)).to(x.dtype) + gate


class OtherBranch(Base):
    def forward(self, x, gate=None):
        h = x.to(torch.float32)
        if gate is None:
            h = h * F.silu(x.to(torch.float32))
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)


class TwoActivations(Base):
    def forward(self, x, gate=None):
        dtype, rank = x.dtype, x.ndim
        if not self.first and gate is not None:
            x = x * F.silu(gate.to(torch.float32))
        if len(x.shape) == 3:
            b, s, d = x.shape
        else:
            b, d = x.shape
            s = 1
        x = x.to(torch.float32).view(b, s, self.n_groups, int(d // self.n_groups))
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        x = (self.weight.view(self.n_groups, int(d // self.n_groups)) * x).view(b, s, d)
        if rank == 2:
            x = x.squeeze(1)
        if self.first and gate is not None:
            x = x * F.sigmoid(gate.to(torch.float32))
        return x.to(dtype)


class MiddleOut(Base):
    def forward(self, x, gate):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        normed = self.weight.to(torch.float32) * h
        return (normed * F.silu(gate.to(torch.float32))).to(x.dtype), normed


def cases(dtype):
    x, gate = torch.randn(24, 24).to(dtype), torch.randn(24, 24).to(dtype)
    for kind in (ListChanges, StarElsewhere, GateWritten, OtherBranch, TwoActivations, MiddleOut):
        yield lambda m=kind().to(dtype): m(x[:3], gate[:3].clone())
        yield lambda m=kind(): m(x.view(3, 8, 24), gate.view(3, 8, 24).clone())
    yield OtherBranch().to(dtype)(x)
