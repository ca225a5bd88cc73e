# Four projections on one input, each viewed at once.
# expect: fused linears Attn.forward "linears\(x, self\.q, self\.k, self\.v, self\.g\)"
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 16)
        self.g = nn.Linear(8, 16)

    def forward(self, x):
        b, s, _ = x.shape
        q = self.q(x).view(b, s, 2, 4)
        k = self.k(x).view(b, s, 2, 4)
        v = self.v(x).view(b, s, 2, 8)
        g = self.g(x).view(b, s, 2, 8)
        return q, k, v, g


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
