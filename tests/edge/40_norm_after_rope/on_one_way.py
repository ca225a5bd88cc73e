# Rotated on one way of a branch, or cast behind it: the sum that the norm reads is the rotation's.
# expect: fused rope Turned.forward
# expect: fused rope Cast.forward
# expect: refused add_layer_norm Turned.forward "nothing left to fuse"
# expect: refused add_layer_norm Cast.forward "nothing left to fuse"
import torch
from torch import nn


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotate(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


class Base(nn.Module):
    def __init__(self, cross=False):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.cross = cross


class Turned(Base):
    def forward(self, q, k, cos, sin):
        if not self.cross:
            q, k = rotate(q, k, cos, sin)
        return self.norm(q), k


class Cast(Base):
    def forward(self, q, k, cos, sin):
        q, k = rotate(q, k, cos, sin)
        return self.norm(q.to(k.dtype)), k


def cases(dtype):
    q, k = torch.randn(2, 4, 3, 8, dtype=dtype), torch.randn(2, 2, 3, 8, dtype=dtype)
    cos, sin = torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype)
    for kind in (Turned, Cast):
        for cross in (False, True):
            yield kind(cross).to(dtype)(q, k, cos, sin)
