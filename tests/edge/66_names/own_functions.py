# The file has functions called rms_norm, linears, rope, silu and chunk; they do other things,
# and nothing clashes.
# expect: either rms_norm
# expect: either linears
# expect: either act_mul
# expect: not-fused rope
import torch
import torch.nn.functional as F
from torch import nn

def rms_norm(x, weight, eps):
    return x + 1


def linears(x, *modules):
    return [x * 2 for _ in modules]


def rope(q, k, cos, sin):
    return q - 1, k - 2


def silu(x):
    return x * 3


def act_mul(act, a, b):
    return a - b


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        normed = rms_norm(x, self.weight, self.eps)
        a, b = linears(x, self.gate, self.up)
        q, k = rope(x, x, x, x)
        y = silu(self.gate(x)) * self.up(x)
        z = F.silu(self.gate(x)) * self.up(x)
        h = x.to(torch.float32)
        n = self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)
        return normed, a, b, q, k, y, z, n, act_mul(None, y, z)


def cases(dtype):
    yield Block().to(dtype)(torch.randn(3, 8, dtype=dtype))
