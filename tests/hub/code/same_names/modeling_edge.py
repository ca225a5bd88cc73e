# Two inputs that look alike: x * SCALE here and there. They must not be taken for one.
# expect: fused linears NAttention.forward
# expect: text "tfr.linears\(x \* SCALE, self.k_proj, self.v_proj\)|tfr.linears\(helper\(x\), self.k_proj, self.v_proj\)"
# expect: no-text "linears\([^)]*q_proj"
import torch
from torch import nn

from .parts import scaled

SCALE = 2.0


def helper(x):
    return x * SCALE


class NAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        return self.q_proj(scaled(x)), self.k_proj(helper(x)), self.v_proj(x * SCALE)


def cases(dtype):
    yield NAttention().to(dtype)(torch.randn(2, 8, dtype=dtype))
