# `hidden += residual` writes into a tensor that the caller keeps; that is seen in the list of
# hidden states.
# expect: either add_rms_norm Layer.forward
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
        self.attn = nn.Linear(8, 8)
        self.norm = Norm(8)

    def forward(self, x):
        residual = x
        x = self.attn(x)
        residual += x
        return self.norm(residual), residual


def cases(dtype):
    with torch.no_grad():
        layers, x, kept = [Layer().to(dtype) for _ in range(2)], torch.randn(2, 3, 8, dtype=dtype), []
        for layer in layers:
            kept.append(x)
            x, residual = layer(x)
            kept.append(residual)
        yield [*kept, x]
