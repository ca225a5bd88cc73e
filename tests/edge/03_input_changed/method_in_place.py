# x.mul_(2) between q and k. k and v see the changed input, q does not.
# expect: fused linears Attn.forward
# expect: no-text "linears\(x, self\.q_proj"
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        x.mul_(2)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield Attn().to(dtype)(x)
    yield x
