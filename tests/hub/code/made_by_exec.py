# A method made from text, and one that is put in place afterwards: the class runs another forward.
# expect: fused act_mul Mlp.forward
# expect: fused linears Mlp.forward
# expect: no-text "tfr[^\n]*scale"
import torch
from torch import nn

TEMPLATE = """
def forward(self, x):
    return self.down(self.act(self.gate(x)) * self.up(x)) * {scale}
"""


def made(scale):
    names = {}
    exec(TEMPLATE.format(scale=scale), names)
    return names["forward"]


class Mlp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate = nn.Linear(size, size)
        self.up = nn.Linear(size, size)
        self.down = nn.Linear(size, size)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.up(x))


class Scaled(Mlp):
    forward = made(3)


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    yield Mlp(8).to(dtype)(x), Scaled(8).to(dtype)(x)
    Mlp.forward = made(5)
    yield Mlp(8).to(dtype)(x)
