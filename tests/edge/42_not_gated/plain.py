# Without a gate there is nothing to fuse.
# expect: not-fused act_mul
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.act = nn.GELU()

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Scaled(Plain):
    def forward(self, x):
        return self.down(self.act(self.up(x)) * 0.5)


class ByShape(Plain):
    def forward(self, x):
        return self.down(self.act(self.up(x)) * x.shape[-1])


class Summed(Plain):
    def forward(self, x):
        return self.down(self.act(self.up(x)) + self.up(x))


def cases(dtype):
    for kind in (Plain, Scaled, ByShape, Summed):
        yield kind().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
