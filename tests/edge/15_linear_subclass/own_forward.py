# FalconLinear and one that scales: the subclass is called as a module, its weight is never taken.
# expect: either linears Attn.forward
# expect: no-text "_proj\.weight"
import torch
import torch.nn.functional as F
from torch import nn

class PlainLinear(nn.Linear):
    def forward(self, x):
        hidden = x @ self.weight.T
        if self.bias is None:
            return hidden
        return hidden + self.bias


class ScaledLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 1.5


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = PlainLinear(8, 8)
        self.k_proj = ScaledLinear(8, 8)
        self.v_proj = nn.Linear(8, 8)
        self.g_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        g = self.g_proj(x)
        return q, k, v, g


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
