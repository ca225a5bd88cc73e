# With only two projections and a write between them there is nothing to fuse, and the report
# says what is in the way.
# expect: refused linears Attn.forward "chang|writ|modif|in.place|in place"
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        x.mul_(2)
        k = self.k_proj(x)
        return q, k


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
