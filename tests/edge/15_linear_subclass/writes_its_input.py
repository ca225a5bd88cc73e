# A subclass whose forward changes its input: what comes after it sees the change, what comes
# before does not.
# expect: not-fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Doubling(nn.Linear):
    def forward(self, x):
        x.mul_(2)
        return super().forward(x)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj = Doubling(8, 8)
        self.q_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield Attn().to(dtype)(x)
    yield x
