# nn.RMSNorm-like: eps None means the smallest step of the input's dtype.
# expect: either rms_norm Norm.forward
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        eps = self.eps if self.eps is not None else torch.finfo(x.dtype).eps
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def cases(dtype):
    x = torch.randn(7, 16, dtype=dtype) * 1e-2
    for eps in (None, 0.0, 1e-2):
        yield Norm(16, eps).to(dtype)(x)
