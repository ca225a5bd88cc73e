# A zero row, spikes, squares that overflow, NaN, infinities, denormals, no rows, odd widths,
# strides, a single number.
# expect: fused rms_norm Norm.forward
# expect: fused rms_norm Plus.forward
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


class Plus(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float())
        output = output * (1.0 + self.weight.float())
        return output.type_as(x)


def inputs(dtype):
    spike = torch.zeros(3, 16, dtype=dtype)
    spike[1, 5] = 1e4
    yield spike
    yield torch.full((2, 16), 3e38, dtype=torch.float32).to(dtype)
    odd = torch.randn(4, 16, dtype=dtype)
    odd[0, 0], odd[1, 1], odd[2, 2] = float("nan"), float("inf"), float("-inf")
    yield odd
    yield torch.full((2, 16), 1e-40).to(dtype)
    yield -torch.zeros(2, 16, dtype=dtype)
    yield torch.randn(0, 16, dtype=dtype)
    yield torch.randn(2, 0, 16, dtype=dtype)
    yield torch.randn(16, dtype=dtype)
    yield torch.randn(16, 5, dtype=dtype).t()
    yield torch.randn(5, 32, dtype=dtype)[:, ::2]
    yield torch.randn(1, 16, dtype=dtype).expand(4, 16)
    yield torch.randn(2, 3, 4, 5, 16, dtype=dtype)


def cases(dtype):
    for kind in (Norm, Plus):
        for eps in (1e-6, 0.0):
            norm = kind(16, eps).to(dtype)
            for x in inputs(dtype):
                yield norm(x)
        for width in (1, 3, 17, 0):
            yield kind(width).to(dtype)(torch.randn(3, width, dtype=dtype))
        yield lambda: norm(torch.tensor(1.0, dtype=dtype))
        yield lambda: norm(None)
        yield lambda: norm([1.0])
        yield lambda: norm()
