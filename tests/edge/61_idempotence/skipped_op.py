# One op is skipped.
# args: --skip linears,rms_norm
# expect: fused act_mul Mlp.forward
# expect: fused l2_norm Norm.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)

    def forward(self, x):
        return F.silu(self.gate_proj(x)) * self.up_proj(x)


def cases(dtype):
    yield Norm(8).to(dtype)(torch.randn(3, 8, dtype=dtype))
    yield Mlp().to(dtype)(torch.randn(3, 8, dtype=dtype))
