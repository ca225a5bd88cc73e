# A view lies between the sum and the norm, and the sum is used again afterwards.
# expect: either add_rms_norm Flat.forward
# expect: either add_rms_norm Again.forward
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


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)

    def forward(self, x, residual):
        x = residual + x
        flat = x.view(-1, x.shape[-1])
        y = self.norm(flat)
        return x + y.view(x.shape)


class Again(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(4)

    def forward(self, x, residual):
        total = residual + x
        y = self.norm(total.reshape(-1, 4))
        total = total * 2
        return y, total


def cases(dtype):
    for kind in (Flat, Again):
        yield kind().to(dtype)(torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype))
