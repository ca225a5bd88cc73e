# OLMo2 and Gemma2 add after the norm: there is no add-then-norm in that.
# expect: not-fused add_rms_norm
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
        self.mlp = nn.Linear(8, 8)
        self.post_attention_norm = Norm(8)
        self.post_mlp_norm = Norm(8)

    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = self.post_attention_norm(x)
        x = residual + x
        residual = x
        x = self.mlp(x)
        x = self.post_mlp_norm(x)
        return residual + x


def cases(dtype):
    yield Layer().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
