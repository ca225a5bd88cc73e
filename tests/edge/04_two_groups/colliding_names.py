# Names made from those of the group would meet names that are there: locals, parameters,
# globals, a loop variable.
# expect: fused linears Attn.forward x2
import torch
import torch.nn.functional as F
from torch import nn
q_proj = 3.0


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)

    def forward(self, x, k_proj, k=2.0):
        q = x * 2
        first = self.q_proj(x).sum() + self.k_proj(x).sum()
        second = self.q(q).sum() + self.k(q).sum()
        return first * q_proj * k_proj + second * k, [q_proj for q in range(2)], q


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype), 5.0)
