# `# tfrewrite: off` and `on` choose per block.
# expect: fused rms_norm A.forward
# expect: not-fused rms_norm B.forward
# expect: fused rms_norm C.forward
import torch
import torch.nn.functional as F
from torch import nn

class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


# tfrewrite: off
class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


# tfrewrite: on
class C(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def cases(dtype):
    for kind in (A, B, C):
        yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype))
