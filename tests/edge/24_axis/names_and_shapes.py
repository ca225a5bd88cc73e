# The weight under other names, with two dimensions, of another width, shared, a buffer, a
# number, a method's result.
# expect: fused rms_norm Scale.forward "self\.scale"
# expect: fused rms_norm Gamma.forward
# expect: either rms_norm PerHead.forward
# expect: either rms_norm Number.forward
# expect: either rms_norm Buffer.forward
# expect: either rms_norm Local.forward
# expect: either rms_norm Sliced.forward
import torch
import torch.nn.functional as F
from torch import nn

class Scale(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        return self.scale * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Gamma(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.g = torch.nn.parameter.Parameter(torch.randn(width))
        self.e = 1e-6

    def forward(self, t):
        h = t.to(torch.float32)
        return self.g * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.e)).to(t.dtype)


class PerHead(nn.Module):
    def __init__(self, heads=4, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width))
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Number(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = 3.0
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Buffer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.register_buffer("weight", torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Local(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.w = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        weight = self.w * 2
        h = x.to(torch.float32)
        return weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Sliced(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight[:16] * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


def cases(dtype):
    x = torch.randn(2, 4, 16, dtype=dtype)
    for kind in (Scale, Gamma, PerHead, Number, Buffer, Local, Sliced):
        yield kind().to(dtype)(x)
    yield PerHead().to(dtype)(x[0, :1])  # the result has the shape of the weight
    yield Scale(1).to(dtype)(x)
    yield lambda: Scale(8).to(dtype)(x)
    norm = Scale().to(dtype)
    norm.scale = None
    yield lambda: norm(x)
