# The gate's projection is unknown code: its statement stays where it is, and the reason says so.
# expect: refused act_mul Unknown.forward "not known to have no effects"
# expect: refused act_mul Again.forward "used elsewhere"
# expect: fused act_mul Written.forward
import torch
from torch import nn

class Noisy:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * self.calls


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = Noisy()
        self.act = nn.Sigmoid()


class Unknown(Base):
    def forward(self, x):
        g = self.act(self.project(x))
        x = x * g
        return x


class Again(Base):
    def forward(self, x):
        g = self.act(self.project(x))
        return x * g + g


class Written(Base):
    def forward(self, x):
        g = self.project(x)
        return x * self.act(g)


def cases(dtype):
    for kind in (Unknown, Again, Written):
        block = kind()
        yield block(torch.randn(2, 5, dtype=dtype))
        yield block(torch.randn(2, 5, dtype=dtype))
        yield block.project.calls
