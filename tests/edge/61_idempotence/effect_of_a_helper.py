# A helper's methods on what is no tensor are effects between the parts of its caller's matches.
# They are no less so once an op stands in the helper: a second run fuses no more than the first.
# expect: fused rms_norm Norm.forward
# expect: fused softcap Block.capped
# expect: fused add_rms_norm Block.forward
# expect: refused add_rms_norm Block.of_a_number "known to have no effects"
# expect: refused add_rms_norm Block.of_a_size "known to have no effects"
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
        self.norm = Norm(8)

    def capped(self, x):
        return x.div(30.0).tanh().mul(30.0)

    def forward(self, x, y):
        y = x + y
        z = self.capped(x)
        return self.norm(y), y, z

    def of_a_number(self, x, y):
        y = x + y
        z = self.capped(3)
        return self.norm(y), y, z

    def of_a_size(self, x, y):
        y = x + y
        z = self.capped(x.shape)
        return self.norm(y), y, z


def fails(method, *given):
    try:
        method(*given)
    except (AttributeError, TypeError):
        return True


def cases(dtype):
    block = Block().to(dtype)
    x, y = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield block(x, y)
    yield fails(block.of_a_number, x, y)
    yield fails(block.of_a_size, x, y)
