# One match cannot be proved, and the difference (a projection is called on another value) does not
# say which: the others of the function stay.
# expect: fused rms_norm Norm.forward
# expect: fused linears Block.forward "tfr.linears\(y, self.k, self.v\)"
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)
        self.norm = Norm(8)
        self.qkv = nn.Linear(8, 24)

    def forward(self, x, y):
        x = x + x
        x = x
        x = self.norm(x)
        q, k, v = self.qkv(x).view(2, 8, 3, 8).unbind(2)
        key = self.k(y)
        value = self.v(y)
        return y, key, value


def cases(dtype):
    block = Block().to(dtype)
    yield block(torch.randn(2, 8, 8, dtype=dtype), torch.randn(2, 8, 8, dtype=dtype))
