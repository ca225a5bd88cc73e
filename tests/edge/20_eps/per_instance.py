# eps belongs to the instance at the time of the call; small inputs make it visible.
# expect: fused rms_norm Norm.forward "self\.eps|self\.variance_epsilon"
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.variance_epsilon = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * x.to(dtype)


def cases(dtype):
    x = torch.randn(7, 16, dtype=dtype) * 1e-3
    for eps in (1e-6, 1e-5, 1e-2, 0.0, 1, torch.tensor(1e-4)):
        norm = Norm(16, eps).to(dtype)
        yield norm(x)
        norm.variance_epsilon = 0.5
        yield norm(x)
    del norm.variance_epsilon
    yield lambda: norm(x)
