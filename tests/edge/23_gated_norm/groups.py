# Groups of a row, by their size or their number; a gate that may be absent, comes before or after as
# the instance says, has another dtype, or is the input itself; numbers that do not fit raise as before.
# expect: fused gated_rms_norm Sized.forward "self.group_size, order=.gate_cast_weight"
# expect: fused gated_rms_norm Counted.forward "norm_first=self.norm_before_gate"
# expect: fused gated_rms_norm Table.forward "ACT2FN.self.activation."
import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN


class Sized(nn.Module):
    def __init__(self, width=24, group_size=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6
        self.group_size = group_size

    def forward(self, x, gate=None):
        dtype = x.dtype
        h = x.to(torch.float32)
        if gate is not None:
            h = h * nn.functional.silu(gate.to(torch.float32))
        *prefix, last = h.shape
        count = last // self.group_size
        groups = h.view(*prefix, count, self.group_size)
        variance = groups.pow(2).mean(-1, keepdim=True)
        groups = groups * torch.rsqrt(variance + self.eps)
        h = groups.view(*prefix, count * self.group_size)
        return self.weight * h.to(dtype)


class Counted(nn.Module):
    def __init__(self, width=24, n_groups=3, norm_before_gate=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6
        self.n_groups = n_groups
        self.norm_before_gate = norm_before_gate

    def forward(self, x, gate=None):
        dtype = x.dtype
        rank = x.ndim
        if not self.norm_before_gate and gate is not None:
            x = x * F.silu(gate.to(torch.float32))
        if len(x.shape) == 3:
            batch, length, width = x.shape
        else:
            batch, width = x.shape
            length = 1
        x = x.to(torch.float32)
        x = x.view(batch, length, self.n_groups, int(width // self.n_groups))
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        x = self.weight.view(self.n_groups, int(width // self.n_groups)) * x
        x = x.view(batch, length, width)
        if rank == 2:
            x = x.squeeze(1)
        if self.norm_before_gate and gate is not None:
            x = x * F.silu(gate.to(torch.float32))
        return x.to(dtype)


class Table(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(24))
        self.eps = 1e-5
        self.activation = activation

    def forward(self, x, gate=None):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        x = self.weight.to(torch.float32) * x
        x = x * ACT2FN[self.activation](gate.to(torch.float32))
        return x.to(dtype)


def cases(dtype):
    x, gate = torch.randn(2, 5, 24).to(dtype), torch.randn(2, 5, 24).to(dtype)
    apart = torch.randn(2, 5, 48).to(dtype)[..., 24:]
    modules = [Sized(), Sized(group_size=24), Sized(group_size=7), Sized(group_size=6.0)]
    modules += [Counted(), Counted(n_groups=1), Counted(norm_before_gate=False), Counted(n_groups=5)]
    modules += [Counted(n_groups=4.0), Counted(norm_before_gate=0), Table("silu"), Table("sigmoid")]
    modules += [Table("gelu_new"), Table("none such")]
    for module in modules:
        for m in (module, module.to(dtype)):
            yield lambda m=m: m(x, gate)
            yield lambda m=m: m(x[0], gate[0])
            yield lambda m=m: m(x.transpose(0, 1), apart.transpose(0, 1))
            yield lambda m=m: m(x, apart.float())
            yield lambda m=m: m(x, x)
            yield lambda m=m: m(x)
            yield lambda m=m: m(x, gate[..., :1])
            yield lambda m=m: m(x[None], gate[None])
            yield lambda m=m: m(x[:0], gate[:0])
            yield lambda m=m: m(x.clone().requires_grad_(), gate)
