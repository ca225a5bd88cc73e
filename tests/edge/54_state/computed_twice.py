# A value that is written out twice is computed twice, and its gradient is the sum of two, each rounded:
# taken in once, it would be another one. Cuts and views are exact, so they may be repeated.
# expect: refused l2_norm Centered.forward "computed twice"
# expect: fused l2_norm Named.forward
# expect: refused rms_norm Cast.forward "computed twice"
# expect: not-fused l2_norm Summed.forward
# expect: fused l2_norm Cut.forward
# expect: fused rope rotate
import torch
from torch import nn


class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        hidden = x.to(torch.float32)
        mean = hidden.mean(-1, keepdim=True)
        variance = (hidden - mean).pow(2).mean(-1, keepdim=True)
        hidden = (hidden - mean) * torch.rsqrt(variance + 1e-6)
        return (self.weight * hidden).to(x.dtype)


class Named(Centered):
    def forward(self, x):
        hidden = x.to(torch.float32)
        hidden = hidden - hidden.mean(-1, keepdim=True)
        variance = hidden.pow(2).mean(-1, keepdim=True)
        hidden = hidden * torch.rsqrt(variance + 1e-6)
        return (self.weight * hidden).to(x.dtype)


class Cast(Centered):
    def forward(self, x):
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x.float() * torch.rsqrt(variance + 1e-6)).to(x.dtype)


class Summed(Centered):
    def forward(self, x):
        return (x + 1) / (x + 1).norm(dim=-1, keepdim=True)


class Cut(Centered):
    def forward(self, x):
        return x[..., :4] / x[..., :4].norm(dim=-1, keepdim=True)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotate(x, cos, sin):
    width = cos.shape[-1]
    turned = x[..., :width] * cos + rotate_half(x[..., :width]) * sin
    return torch.cat((turned, x[..., width:]), dim=-1)


def cases(dtype):
    for make in (Centered, Named, Cast, Summed, Cut):
        norm = make().to(dtype)
        x = torch.randn(5, 8, dtype=dtype, requires_grad=True)
        with torch.enable_grad():
            (norm(x).float() * torch.arange(5.0).view(5, 1)).sum().backward()
        yield x.grad
        yield norm.weight.grad is None
    x = torch.randn(2, 3, 5, 8, dtype=dtype)
    cos, sin = (torch.randn(2, 1, 5, 4, dtype=dtype) for _ in range(2))
    yield rotate(x, cos, sin)
