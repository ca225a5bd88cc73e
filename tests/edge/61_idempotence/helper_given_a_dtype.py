# A helper that is fused itself is handed what is no tensor: how its new text reads there says
# nothing about its caller, whose own match must not wait for a second run.
# expect: fused rms_norm normed
# expect: fused act_mul Block.forward
import torch
import torch.nn.functional as F
from torch import nn


def normed(self, x):
    y = x.float()
    variance = y.pow(2).mean(-1, keepdim=True)
    y = y * torch.rsqrt(variance + self.eps)
    return self.weight * y.to(x.dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6

    def forward(self, x, broken):
        y = F.gelu(x[..., :8], approximate="tanh") * x[..., 8:]
        if broken:
            y = normed(self, x.dtype)
        return y, normed(self, x[..., 8:])


def cases(dtype):
    block, x = Block().to(dtype), torch.randn(3, 16, dtype=dtype)
    yield block(x, False)
    yield lambda: block(x, True)
