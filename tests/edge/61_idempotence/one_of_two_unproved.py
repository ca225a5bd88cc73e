# Of two matches one cannot be proved: its operand's text would read a name bound anew. Its result
# goes to a helper that is fused itself; the other match is fused at once all the same.
# expect: fused rms_norm Block.normed
# expect: fused act_mul Block.forward "tfr.act_mul\(self.act, self.gate\(y\), x\)"
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.SiLU()
        self.packed = nn.Linear(8, 16)
        self.gate = nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6

    def forward(self, x, y):
        x, y = self.packed(y).chunk(2, dim=-1)
        first = self.act(x) * y
        second = x * self.act(self.gate(y))
        return second, self.normed(first)

    def normed(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = (x * x).mean(-1, keepdim=True)
        return (x * torch.rsqrt(variance + self.eps)).to(dtype) * self.weight


def cases(dtype):
    block = Block().to(dtype)
    yield block(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
