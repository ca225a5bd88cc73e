# The input of k is a phi: it is x only when no encoder states are given.
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

    def forward(self, x, states=None):
        source = x if states is None else states
        q = self.q_proj(x)
        k = self.k_proj(source)
        v = self.v_proj(source)
        return q, k, v


def cases(dtype):
    attn = Attn().to(dtype)
    x, states = torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 5, 8, dtype=dtype)
    yield attn(x)
    yield attn(x, states)
