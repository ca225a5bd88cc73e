# Two, three and four dimensions, one token, none, and an input that broadcasts against the
# residual.
# expect: fused add_rms_norm Layer.forward
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


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)

    def forward(self, x, residual):
        residual = residual + x
        x = self.norm(residual)
        return x, residual


def cases(dtype):
    layer = Layer().to(dtype)
    for shape in ((8,), (3, 8), (1, 3, 8), (2, 3, 4, 8), (0, 8), (1, 1, 8)):
        yield layer(torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype))
    yield layer(torch.randn(1, 8, dtype=dtype), torch.randn(4, 8, dtype=dtype))
    yield layer(torch.randn(4, 8, dtype=dtype), torch.randn(1, 8, dtype=dtype))
    yield layer(torch.randn(8, 4, dtype=dtype).t(), torch.randn(4, 8, dtype=dtype))
    yield layer(torch.randn(4, 8, dtype=dtype), torch.randn(4, 8, dtype=torch.float32))
    yield layer(2, torch.randn(4, 8, dtype=dtype))
    yield layer(True, torch.randn(4, 8, dtype=dtype))
    yield lambda: layer(torch.randn(3, 8, dtype=dtype), torch.randn(4, 8, dtype=dtype))
    yield lambda: layer("x", torch.randn(4, 8, dtype=dtype))
