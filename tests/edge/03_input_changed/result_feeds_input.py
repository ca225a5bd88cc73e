# What q_proj returns is written into x before k_proj reads it.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)

    def forward(self, x):
        x.copy_(self.q_proj(x))
        k = self.k_proj(x)
        return x, k


def cases(dtype):
    with torch.no_grad():
        yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
