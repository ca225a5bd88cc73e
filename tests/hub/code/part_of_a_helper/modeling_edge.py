# The rotation is written here, rotate_half comes from another file, where somebody may replace it.
# expect: fused linears HAttention.forward
# expect: fused rope HAttention.forward
import torch
from torch import nn

from .rope import rotate_half


def apply_rotary(q, k, cos, sin):
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


class HAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(16, 16)
        self.k_proj = nn.Linear(16, 16)

    def forward(self, x, cos, sin):
        q = self.q_proj(x).view(*x.shape[:-1], 2, 8).transpose(1, 2)
        k = self.k_proj(x).view(*x.shape[:-1], 2, 8).transpose(1, 2)
        return apply_rotary(q, k, cos, sin)


def tables(length, dtype):
    angles = torch.outer(torch.arange(float(length)), torch.tensor([1.0, 0.5, 0.1, 0.01]))
    angles = torch.cat((angles, angles), -1)[None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def cases(dtype):
    import sys

    attention = HAttention().to(dtype)
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield attention(x, *tables(5, dtype))
    here = sys.modules[HAttention.__module__]
    here.rotate_half = lambda t: t.flip(-1)  # as a patch of the other file is seen here
    yield attention(x, *tables(5, dtype))
