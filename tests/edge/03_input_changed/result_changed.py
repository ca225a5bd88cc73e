# The first result is changed in place and seen through the input's cache: nothing here writes
# to the shared input.
# expect: either linears Attn.forward
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
        q.mul_(0.5)
        k = self.k_proj(x)
        k[..., 0] = 0
        v = self.v_proj(x)
        v.view(-1)[::2] = 1
        return q, k, v


def cases(dtype):
    with torch.no_grad():
        yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
