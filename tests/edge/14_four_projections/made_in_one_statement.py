# The projections are made by one tuple assignment, one annotated, and one through another name
# of nn.
# expect: fused linears Attn.forward "linears\(x, self\.q, self\.k, self\.v, self\.g\)"
import torch
import torch.nn.functional as F
from torch import nn
import torch.nn as layers


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 4)
        self.v: nn.Module = torch.nn.Linear(8, 8)
        self.g = layers.Linear(8, 2, bias=False)

    def forward(self, x):
        return self.q(x), self.k(x), self.v(x), self.g(x)


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
